"""Searches of a batch of prompts under many masks, each from where it differs from the whole model.

Greedily, what the whole model writes is verified under each mask in one pass, and only prompts that
are continued otherwise are searched on, from there. The beams of a mask start at the prompt. All
masks' open prompts share forward passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.models.generation import Filling, Gates
from headtool.models.huggingface.beams import Greedy
from headtool.models.huggingface.growing_cache import Layers
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.huggingface.plans import Plan
from headtool.models.huggingface.prefixes import Prefix, PrefixReader, Recorded, processed
from headtool.models.huggingface.rows import gated
from headtool.models.huggingface.shared_search import search

__all__ = ["PromptSearches"]

_LOGITS = 2**25  # of one pass: 128 MB in float32

_TOKENS = 4_096  # of one pass over prompts

_ROWS = 1_024  # of one step

_CELLS = 2**27  # keys and values of one step: 512 MB in float32

Pair = tuple[int, int]
"""Numbers of a mask and of a prompt."""

Again = Callable[
    [Sequence[Gates], Sequence[int], Sequence[Sequence[int]], Filling], list[list[int]]
]


@dataclass
class _Start:
    """Pairs that are searched on, and from what.

    Attributes
    ----------
    pairs
        The pairs.
    known
        Tokens of each that are written already.
    prefix
        What was read of them.
    """

    pairs: list[Pair]
    known: list[int]
    prefix: Prefix


class PromptSearches:
    """Continues a batch of prompts.

    Parameters
    ----------
    model
        The model.
    prompts
        Token ids of B prompts.
    masks
        Gates of each mask.
    filling
        What closed heads put out; None for zero.
    plans
        How ``generate`` would search after each prompt.
    again
        Lets ``generate`` search pairs of a mask and a prompt, for ties.
    """

    def __init__(
        self,
        model: HuggingFaceNetwork,
        prompts: Sequence[Sequence[int]],
        masks: Sequence[Gates],
        filling: Filling,
        plans: Sequence[Plan],
        again: Again,
    ) -> None:
        self.model, self.prompts, self.masks = model, prompts, masks
        self.filling, self.plans, self.again = filling, plans, again
        self.rule = plans[0].rule
        self.recorded = Recorded(model, prompts, [()] * len(prompts), filling)

    def whole(self) -> list[list[int]]:
        """Continue all prompts with all heads open, [B]."""
        pairs = [(0, place) for place in range(len(self.prompts))]
        texts = [list(prompt) for prompt in self.prompts]
        prefix = Prefix(texts, self.recorded.layers, self.recorded.logits[:, 0])
        found = self._searched([{}], [_Start(pairs, [0] * len(pairs), prefix)], [[]] * len(pairs))
        return [found[pair] for pair in pairs]

    def masked(self, whole: list[list[int]]) -> list[list[list[int]]]:
        """Continue all prompts under each mask, [1 + masks, B].

        Parameters
        ----------
        whole
            What `whole` returned, which comes first.
        """
        rows = [list(whole) for _ in range(1 + len(self.masks))]
        if self.rule.beam == 1:
            self.recorded = Recorded(self.model, self.prompts, whole, self.filling)
        waiting: list[_Start] = []
        for pairs in self._parts():
            owners, places = map(list, zip(*pairs, strict=True))
            logits, layers = self.recorded.masked(self.masks, owners, places)
            if self.rule.beam > 1:
                texts = [list(self.prompts[place]) for place in places]
                start = _Start(pairs, [0] * len(pairs), Prefix(texts, layers, logits[:, 0]))
            else:
                start, tied = self._verified(pairs, whole, logits, layers)
                self._store(rows, self._again(self.masks, tied))
            if start.pairs:
                waiting.append(start)
            if self._full(waiting):
                self._store(rows, self._searched(self.masks, waiting, whole))
                waiting = []
        if waiting:
            self._store(rows, self._searched(self.masks, waiting, whole))
        return rows

    def _store(self, rows: list[list[list[int]]], found: dict[Pair, list[int]]) -> None:
        for (owner, place), ids in found.items():
            rows[1 + owner][place] = ids

    def _parts(self) -> Iterator[list[Pair]]:
        """Cut all pairs into passes, those together that start at the same block."""
        by_first: dict[int, list[Pair]] = {}
        for number, gates in enumerate(self.masks):
            if gates:
                pairs = by_first.setdefault(self.recorded.first(gates), [])
                pairs += [(number, place) for place in range(len(self.prompts))]
        cells = self.recorded.count * self.recorded.logits.shape[2]
        at_once = min(_LOGITS // cells, _TOKENS // self.recorded.ids.shape[1], _ROWS)
        at_once = max(1, at_once)
        for pairs in by_first.values():
            for start in range(0, len(pairs), at_once):
                yield pairs[start : start + at_once]

    def _full(self, waiting: Sequence[_Start]) -> bool:
        rows = sum(len(start.pairs) for start in waiting)
        cells = sum(start.prefix.cells for start in waiting)
        return self.rule.beam * rows >= _ROWS or self.rule.beam * cells >= _CELLS

    def _verified(
        self,
        pairs: list[Pair],
        whole: Sequence[Sequence[int]],
        logits: Tensor,
        layers: Layers,
    ) -> tuple[_Start, list[Pair]]:
        """Find how far each pair writes what the whole model writes; where not, and ties."""
        device = logits.device
        places = [place for _, place in pairs]
        lengths = torch.tensor([len(whole[place]) for place in places], device=device)
        expected = torch.full(logits.shape[:2], -1, device=device)
        for row, place in enumerate(places):
            expected[row, : len(whole[place])] = torch.tensor(whole[place], device=device)
        best, second, tokens = self._ranked(places, expected, logits)
        if best.isnan().any():
            raise HeadtoolError(
                "the model's scores are not finite; check the weights, or try `dtype=float32`"
            )
        close = best - second < self.rule.tolerance
        here = torch.arange(logits.shape[1], device=device) < lengths[:, None]
        off = here & (close | (tokens != expected))
        until = torch.where(off.any(dim=1), off.int().argmax(dim=1), lengths)
        tie = (off & close).gather(1, until.clamp(max=logits.shape[1] - 1)[:, None]).squeeze(1)
        tied = tie & (until < lengths)
        rows = ((until < lengths) & ~tied).nonzero().squeeze(1)
        known = until[rows].tolist()
        chosen = [pairs[row] for row in rows.tolist()]
        texts = [
            [*self.prompts[place], *whole[place][:count]]
            for (_, place), count in zip(chosen, known, strict=True)
        ]
        ties = [pairs[row] for row in tied.nonzero().squeeze(1).tolist()]
        if not chosen:
            return _Start([], [], Prefix([], [], logits[:0, 0])), ties
        prefix = Prefix.cut(
            texts, self.recorded.left + until[rows], layers, logits[rows, until[rows]], rows
        )
        return _Start(chosen, known, prefix), ties

    def _ranked(
        self, places: Sequence[int], expected: Tensor, logits: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The two highest scores at each step, and the token of the first, [R, count] each."""
        plans = [self.plans[place] for place in places]
        if all(plan.plain for plan in plans):
            return _two_best(logits)
        texts = [self.prompts[place] for place in places]
        steps = [
            _two_best(
                processed(plans, texts, expected[:, :step].clamp(min=0), logits[:, step].float())
            )
            for step in range(logits.shape[1])
        ]
        best, second, tokens = (torch.stack(part, dim=1) for part in zip(*steps, strict=True))
        return best, second, tokens

    def _searched(
        self, masks: Sequence[Gates], starts: Sequence[_Start], whole: Sequence[Sequence[int]]
    ) -> dict[Pair, list[int]]:
        """Search on, and anew with ``generate`` where it is a tie."""
        pairs = [pair for start in starts for pair in start.pairs]
        known = [count for start in starts for count in start.known]
        left = [self.plans[p].longest - n for (_, p), n in zip(pairs, known, strict=True)]
        order = sorted(range(len(pairs)), key=lambda row: -left[row])  # the last leave first
        prefix = Prefix.together([start.prefix for start in starts]).ordered(order)
        pairs, known = [pairs[row] for row in order], [known[row] for row in order]
        plans = [self.plans[place] for _, place in pairs]
        reader = PrefixReader(
            self.model.module,
            plans,
            prefix,
            lambda rows: gated(
                self.model, self.model.sites, masks, [pairs[row][0] for row in rows], self.filling
            ),
        )
        searches: Greedy = search(
            self.rule,
            torch.tensor([left[row] for row in order], device=prefix.logits.device),
            reader,
        )
        found = {
            pair: [*whole[pair[1]][:count], *ids]
            for pair, count, ids in zip(pairs, known, searches.hypotheses, strict=True)
        }
        tied = [pairs[row] for row in searches.tied.nonzero().squeeze(1).tolist()]
        return found | self._again(masks, tied)

    def _again(self, masks: Sequence[Gates], pairs: Sequence[Pair]) -> dict[Pair, list[int]]:
        owners = [owner for owner, _ in pairs]
        prompts = [self.prompts[place] for _, place in pairs]
        return dict(zip(pairs, self.again(masks, owners, prompts, self.filling), strict=True))


def _two_best(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The highest and the second highest of the last axis, and where the highest is."""
    best, place = scores.max(dim=-1, keepdim=True)
    scores.scatter_(-1, place, -torch.inf)
    second = scores.amax(dim=-1)
    scores.scatter_(-1, place, best)  # as it was
    return best.squeeze(-1), second, place.squeeze(-1)
