"""Searches of many sentences under many masks side by side, each under its own gates.

A forward pass holds the live prefixes of all of them. Searches that are decided leave at once,
while ``generate`` carries every sentence of a batch to the end of the longest.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.models.huggingface.beams import Beams, Greedy, Rule

__all__ = ["Reader", "search"]

_CELLS = 2**20
"""Scores of tokens that are ranked at the same time: what fits into the processor's cache."""


class Reader(Protocol):
    """A model that reads what searches write."""

    def start(self) -> Tensor:
        """Return the scores of what follows where the P searches start, [P, V]."""
        ...

    def go_on(self, searches: Tensor, places: Tensor, written: Tensor) -> Tensor:
        """Read one more token of each live prefix, and return the scores of what follows, [R, V].

        Parameters
        ----------
        searches
            The A searches that go on, in ascending order.
        places
            Row of the last pass that each of the R = A * beam prefixes continues.
        written
            What they have written so far, [R, n].
        """
        ...

    def processed(self, rows: Tensor, written: Tensor, scores: Tensor) -> Tensor:
        """Do to scores [R, V] what the settings ask for.

        Parameters
        ----------
        rows
            Search of each prefix, [R].
        written
            What they have written so far, [R, n].
        scores
            Logits, or for beams log-probabilities; they may be overwritten.
        """
        ...


def search(rule: Rule, longest: Tensor, reader: Reader) -> Greedy:
    """Run searches side by side to their end.

    Parameters
    ----------
    rule
        How to search.
    longest
        Most tokens that each writes, [P].
    reader
        The model.

    Returns
    -------
    Greedy
        The searches, all decided.
    """
    beam = rule.beam
    searches = (Beams if beam > 1 else Greedy)(longest, rule)
    first = _best(rule, reader, reader.start(), searches.ids, searches.paths[:, 0], searches)
    # In the first step all prefixes of a search are the same.
    values, tokens = (best[:, None].expand(-1, beam, -1) for best in first)
    places = searches.ids[:, None].expand(-1, beam)  # of the live prefixes in the last pass
    while True:
        step = searches.step(values, tokens)
        if not len(searches.ids):
            return searches
        rows = searches.ids.repeat_interleave(beam)
        places = places[step.going].gather(1, step.parents)
        written = searches.paths.flatten(0, 1)
        logits = reader.go_on(searches.ids, places.flatten(), written)
        best = _best(rule, reader, logits, rows, written, searches)
        values, tokens = (part.view(-1, beam, searches.candidates) for part in best)
        places = torch.arange(len(rows), device=rows.device).view(-1, beam)


def _best(
    rule: Rule, reader: Reader, logits: Tensor, rows: Tensor, written: Tensor, searches: Greedy
) -> tuple[Tensor, Tensor]:
    """The best continuations by their processed scores, [R, candidates] each."""
    count = searches.candidates
    values = torch.empty((len(logits), count), device=logits.device)
    tokens = torch.empty((len(logits), count), dtype=torch.long, device=logits.device)
    at_once = max(1, _CELLS // logits.shape[1])
    for start in range(0, len(logits), at_once):
        part = slice(start, start + at_once)
        scores = logits[part].float()
        if rule.beam > 1:
            scores = scores.log_softmax(dim=1)
        scores = reader.processed(rows[part], written[part], scores)
        torch.topk(scores, count, dim=1, out=(values[part], tokens[part]))
    if values.isnan().any():
        raise HeadtoolError(
            "the model's scores are not finite; check the weights, or try `dtype=float32`"
        )
    return values, tokens
