"""Searches of many sentences under many masks side by side, each under its own gates.

A forward pass holds the live prefixes of all of them. Searches that are decided leave at once,
while ``generate`` carries every sentence of a batch to the end of the longest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.models.huggingface.beams import Beams, Greedy, Rule

__all__ = ["Best", "Reader", "best_of", "search"]

Best = tuple[Tensor, Tensor]
"""Scores and tokens of the best continuations of prefixes."""


_CELLS = 2**20
"""Scores of tokens that are ranked at the same time: what fits into the processor's cache."""


class Reader(Protocol):
    """A model that reads what searches write."""

    def start(self, count: int) -> Best:
        """Return what best follows where the P searches start; see `best_of`.

        Parameters
        ----------
        count
            How many continuations.
        """
        ...

    def go_on(self, searches: Tensor, places: Tensor, written: Tensor, count: int) -> Best:
        """Read one more token of each live prefix, and return what best follows; see `best_of`.

        Parameters
        ----------
        searches
            The A searches that go on, in ascending order.
        places
            Row of the last pass that each of the R = A * beam prefixes continues.
        written
            What they have written so far, [R, n].
        count
            How many continuations.
        """
        ...


def search(rule: Rule, longest: Tensor, reader: Reader, ties: float | None = None) -> Greedy:
    """Run searches side by side to their end.

    Parameters
    ----------
    rule
        How to search.
    longest
        Most tokens that each writes, [P].
    reader
        The model.
    ties
        With more, the search is given up, and what is not decided counts as a tie.

    Returns
    -------
    Greedy
        The searches, each decided or tied.
    """
    beam = rule.beam
    searches = (Beams if beam > 1 else Greedy)(longest, rule)
    # In the first step all prefixes of a search are the same.
    first = reader.start(searches.candidates)
    values, tokens = (best[:, None].expand(-1, beam, -1) for best in first)
    places = searches.ids[:, None].expand(-1, beam)  # of the live prefixes in the last pass
    while True:
        step = searches.step(values, tokens)
        if ties is not None and int(searches.tied.sum()) > ties:
            searches.tied[searches.ids] = True
            return searches
        if not len(searches.ids):
            return searches
        places = places[step.going].gather(1, step.parents)
        written = searches.paths.flatten(0, 1)
        best = reader.go_on(searches.ids, places.flatten(), written, searches.candidates)
        values, tokens = (part.view(-1, beam, searches.candidates) for part in best)
        places = torch.arange(len(written), device=written.device).view(-1, beam)


def best_of(
    rule: Rule,
    logits: Tensor,
    count: int,
    processed: Callable[[slice, Tensor], Tensor],
) -> Best:
    """Find what best follows each of R prefixes.

    Parameters
    ----------
    rule
        How to search: beams go by log-probabilities.
    logits
        Scores of all tokens, [R, V].
    count
        How many continuations.
    processed
        Does to scores of some of the rows what the settings ask for; it may overwrite them.

    Returns
    -------
    Best
        Processed scores and tokens in descending order, [R, count] each.

    Raises
    ------
    HeadtoolError
        If scores are not finite.
    """
    values = torch.empty((len(logits), count), device=logits.device)
    tokens = torch.empty((len(logits), count), dtype=torch.long, device=logits.device)
    at_once = max(1, _CELLS // logits.shape[1])
    for start in range(0, len(logits), at_once):
        part = slice(start, start + at_once)
        scores = logits[part].float()
        if rule.beam > 1:
            scores = scores.log_softmax(dim=1)
        torch.topk(processed(part, scores), count, dim=1, out=(values[part], tokens[part]))
    if values.isnan().any():
        raise HeadtoolError(
            "the model's scores are not finite; check the weights, or try `dtype=float32`"
        )
    return values, tokens
