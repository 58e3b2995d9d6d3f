"""Searches of a batch of sentences under many masks, with a decoder that reads an encoder.

Greedily, what the whole model writes is read under each mask in one pass, and only sentences that
go on otherwise are searched on, from there (`Drafts`). The beams of a mask start at the beginning.
Whatever does not pay is left: drafts where masks accept too little of them, and all of it where too
many searches end in ties, which ``generate`` must search again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch import Tensor

from headtool.models.generation import Gates
from headtool.models.huggingface.beams import Greedy
from headtool.models.huggingface.begun import Begun, BegunReader
from headtool.models.huggingface.drafts import Drafts
from headtool.models.huggingface.encodings import Encodings
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.huggingface.plans import Plan
from headtool.models.huggingface.shared_search import search
from headtool.models.huggingface.source_reader import Source, SourceReader

__all__ = ["SourceSearches"]

_PREFIXES = 1_024  # of one step, in one forward pass

_CELLS = 2**27  # keys and values of searches that have begun: 512 MB in float32

_TIED = 0.125  # of the searches; with more, searching them twice costs what the others save

_ACCEPTED = 0.5  # of the tokens of drafts; with fewer, reading them costs what it saves

_TRIED = 2  # masks whose drafts are read before the others that change the same block

_MORE = 2  # tokens that are written after a draft to check that it goes on well

_ALIKE = 1.3  # times the tokens of the shortest, in one pass

Pair = tuple[int, int]
"""Numbers of a mask and of a sentence."""

Again = Callable[[Sequence[Gates], Sequence[int], Sequence[int]], list[list[int]]]


class SourceSearches:
    """Searches a batch.

    Parameters
    ----------
    model
        The model.
    plan
        How ``generate`` would search.
    encodings
        The sources.
    masks
        Gates of each mask.
    again
        Lets ``generate`` search pairs of a mask and a sentence.
    """

    def __init__(
        self,
        model: HuggingFaceNetwork,
        plan: Plan,
        encodings: Encodings,
        masks: Sequence[Gates],
        again: Again,
    ) -> None:
        self.model, self.plan, self.encodings = model, plan, encodings
        self.masks, self.again = masks, again
        self.everyone = list(range(len(encodings.batch)))
        self.searched = 0
        self.tied: list[Pair] = []  # under masks
        self.ties = 0  # with all heads open, too
        self.decided: list[int] = []  # sentences without a tie, all heads open

    @property
    def pays(self) -> bool:
        """Whether few enough searches ended in ties so far."""
        return self.ties <= _TIED * self.searched

    def whole(self) -> list[list[int]]:
        """Search with all heads open, [B]."""
        pairs = [(0, place) for place in self.everyone]
        found = self._searched([{}], pairs, _TIED * len(pairs))
        self.searched, self.ties = len(pairs), len(pairs) - len(found)
        self.decided = [place for _, place in found]
        tied = [pair for pair in pairs if pair not in found]
        found |= self._by_generate([{}], tied)
        return [found[pair] for pair in pairs]

    def drafts_work(self, whole: Sequence[list[int]], places: Sequence[int]) -> bool:
        """Whether drafts with a wrong token are read, and written on for a little, as they should.

        Parameters
        ----------
        whole
            What `whole` returned.
        places
            Some sentences without ties.
        """
        written, wrong = {}, {}
        for row, place in enumerate(places):
            at = wrong[place] = len(whole[place]) * (row + 1) // (len(places) + 1)
            written[place] = list(whole[place])
            written[place][at] = abs(whole[place][at] - 1)
        drafts = Drafts(self.model, self.plan, self.encodings, written)
        known, tied, begun = drafts.accepted([{}], [0] * len(places), places)
        if tied.any() or known.tolist() != list(wrong.values()):
            return False
        found = self._written_on([{}], [begun], more=_MORE)
        return len(found) == len(places) and all(
            ids == whole[place][: wrong[place] + 1 + _MORE] for (_, place), ids in found.items()
        )

    def masked(self, whole: list[list[int]], *, drafts: bool) -> list[list[list[int]]]:
        """Search under each mask, [1 + masks, B].

        Parameters
        ----------
        whole
            What `whole` returned, which comes first.
        drafts
            Whether they serve as drafts.
        """
        rows = [list(whole) for _ in range(1 + len(self.masks))]
        pairs = [(n, p) for n, gates in enumerate(self.masks) if gates for p in self.everyone]
        found: dict[Pair, list[int]] = {}
        self.tied = []
        if drafts and self.pays:
            found = self._drafted(whole)
            settled = found.keys() | set(self.tied)
            pairs = [pair for pair in pairs if pair not in settled]
        at_once = max(len(self.everyone), _PREFIXES // self.plan.rule.beam)
        while pairs and self.pays:
            part, pairs = pairs[:at_once], pairs[at_once:]
            some = self._searched(self.masks, part)
            self._count(part, [pair for pair in part if pair not in some])
            found |= some
        found |= self._by_generate(self.masks, sorted([*self.tied, *pairs]))
        for (owner, place), ids in found.items():
            rows[1 + owner][place] = ids
        return rows

    def _count(self, searched: Sequence[Pair], tied: Sequence[Pair]) -> None:
        self.searched += len(searched)
        self.ties += len(tied)
        self.tied += tied

    def _by_generate(self, masks: Sequence[Gates], pairs: Sequence[Pair]) -> dict[Pair, list[int]]:
        """Let ``generate`` search pairs, as many at once as the batch has sentences."""
        found: dict[Pair, list[int]] = {}
        for start in range(0, len(pairs), len(self.everyone)):
            part = pairs[start : start + len(self.everyone)]
            found |= zip(part, self.again(masks, *_columns(part)), strict=True)
        return found

    def _searched(
        self, masks: Sequence[Gates], pairs: Sequence[Pair], ties: float | None = None
    ) -> dict[Pair, list[int]]:
        """Search from the beginning; pairs with a tie are left out, all if there are too many."""
        owners, places = _columns(pairs)
        source = Source(
            self.encodings.states(masks, owners, places),
            self.encodings.inputs(places).get("attention_mask"),
            self._gate(masks, owners),
        )
        index = torch.tensor(places, device=self.model.device)
        module = cast(Any, self.model.module)
        reader = SourceReader(module, self.plan, self.plan.prompt[index], source)
        found = search(self.plan.rule, torch.full_like(index, self.plan.longest), reader, ties)
        return _decided(pairs, found)

    def _gate(
        self, masks: Sequence[Gates], owners: Sequence[int]
    ) -> Callable[[Tensor], AbstractContextManager[None]]:
        return lambda rows: self.encodings.gated(masks, [owners[row] for row in rows.tolist()])

    # -- drafts -----------------------------------------------------------------------------

    def _drafted(self, whole: Sequence[list[int]]) -> dict[Pair, list[int]]:
        """Search pairs from drafts as long as masks accept them; the others are left out."""
        found: dict[Pair, list[int]] = {}
        waiting: list[Begun] = []
        accepted, total = Counter[int](), Counter[int]()  # by the first block that is changed
        drafts = [
            Drafts(self.model, self.plan, self.encodings, {place: whole[place] for place in some})
            for some in _alike(self.decided, whole)
        ]
        for first, owners in self._by_first(drafts):
            for draft in drafts:
                if not self.pays or accepted[first] < _ACCEPTED * total[first]:
                    break
                part = [(owner, place) for owner in owners for place in draft.row]
                known, tied, begun = draft.accepted(self.masks, *_columns(part))
                accepted[first] += int(known.sum())
                total[first] += sum(len(whole[place]) for _, place in part)
                ties = [part[row] for row in tied.nonzero().squeeze(1).tolist()]
                self._count(part, ties)
                others = {*ties, *zip(begun.owners, begun.places, strict=True)}
                found |= {pair: whole[pair[1]] for pair in part if pair not in others}
                if begun.owners:
                    waiting.append(begun)
                if self._full(waiting):
                    found |= self._written_on(self.masks, waiting)
                    waiting = []
        if waiting:
            found |= self._written_on(self.masks, waiting)
        return found

    def _by_first(self, drafts: Sequence[Drafts]) -> Iterator[tuple[int, list[int]]]:
        """Masks that change the same block first, as many as are read in one pass."""
        by_first: dict[int, list[int]] = {}
        for number, gates in enumerate(self.masks):
            if gates and drafts:
                by_first.setdefault(drafts[0].first(gates), []).append(number)
        at_once = max(1, min((d.at_once // len(d.row) for d in drafts), default=1))
        for first, numbers in by_first.items():
            yield first, numbers[:_TRIED]  # these say whether it pays
            for start in range(_TRIED, len(numbers), at_once):
                yield first, numbers[start : start + at_once]

    def _full(self, waiting: Sequence[Begun]) -> bool:
        rows = sum(len(begun.owners) for begun in waiting)
        return rows >= _PREFIXES or sum(begun.cells for begun in waiting) >= _CELLS

    def _written_on(
        self, masks: Sequence[Gates], waiting: Sequence[Begun], more: int | None = None
    ) -> dict[Pair, list[int]]:
        """Search on, to the end or for so many tokens; pairs with a tie are left out."""
        begun = Begun.together(waiting)
        pairs = list(zip(begun.owners, begun.places, strict=True))
        reader = BegunReader(
            cast(Any, self.model.module),
            self.plan,
            begun,
            self.encodings,
            self._gate(masks, begun.owners),
        )
        end = self.plan.longest
        longest = torch.full_like(begun.given, end)
        if more is not None:
            longest = (begun.given + more).clamp(max=end)
        found = _decided(pairs, search(self.plan.rule, longest, reader))
        self._count([], [pair for pair in pairs if pair not in found])
        return found


def _decided(pairs: Sequence[Pair], found: Greedy) -> dict[Pair, list[int]]:
    """What searches found without a tie."""
    tied = found.tied.tolist()
    return {pair: found.hypotheses[row] for row, pair in enumerate(pairs) if not tied[row]}


def _columns(pairs: Sequence[Pair]) -> tuple[list[int], list[int]]:
    return [owner for owner, _ in pairs], [place for _, place in pairs]


def _alike(places: Sequence[int], whole: Sequence[list[int]]) -> Iterator[list[int]]:
    """Cut sentences into parts of which the whole model writes about as much."""
    part: list[int] = []
    for place in sorted(places, key=lambda place: len(whole[place])):
        if part and len(whole[place]) > _ALIKE * len(whole[part[0]]):
            yield part
            part = []
        part.append(place)
    if part:
        yield part
