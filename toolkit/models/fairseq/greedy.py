"""Greedy translations of one batch under many masks.

What the whole model wrote is verified under each mask. Where a mask chooses another word, it writes
on from there, beside all others that do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from headtool.models.examples import Batch
from headtool.models.fairseq.lines import Beginnings, Line, Lines
from headtool.models.fairseq.passes import Encoded, Passes
from headtool.models.fairseq.prefix_tree import PrefixTree
from headtool.models.fairseq.scoring import ContinuationScorer
from headtool.models.fairseq.shortlist import Certificate
from headtool.models.fairseq.source import Source
from headtool.models.fairseq.verification import MaskOrder, Recorded, Verified, blocks, verify
from headtool.models.generation import Filling, Gates

__all__ = ["GreedySearches"]

_LINES = 128  # written side by side, in room that does not outgrow the processor's cache
_ROOM = 2**27  # bytes of it, of large models
_ROWS = 2_048  # verified at once, for the same reason
_NODES = 2_048  # of the whole model, whose states are kept at the same time


class GreedySearches:
    """Decodes greedily under masks.

    Parameters
    ----------
    passes, vocabulary
        The model.
    start
        The symbol before the first.
    """

    def __init__(self, passes: Passes, vocabulary: ContinuationScorer, start: int) -> None:
        self.passes, self.vocabulary, self.start = passes, vocabulary, start

    def run(
        self, batch: Batch, masks: Sequence[Gates], filling: Filling
    ) -> tuple[list[list[list[int]]], list[Tensor]]:
        """Decode with all heads open, then under each mask.

        Parameters
        ----------
        batch
            The sentences.
        masks
            Gates of each mask.
        filling
            What closed heads put out; None for zero.

        Returns
        -------
        hypotheses
            [1 + masks, examples], without the end of sentence.
        tied
            Per row, the examples where rounding decided something, boolean [examples].
        """
        encoded = self.passes.encode(batch.inputs["src_tokens"])
        lines = self._pool(encoded.source, 1 + len(masks), filling)
        whole, ties = self._search(encoded.source, lines)
        hypotheses = [whole, *(list(whole) for _ in masks)]
        numbers = [number for number, gates in enumerate(masks) if gates]
        tied = [ties, *(torch.zeros_like(ties) if gates else ties for gates in masks)]
        if not numbers:
            return hypotheses, tied
        order = MaskOrder(self.passes, [masks[number] for number in numbers], filling)
        rows = [1 + numbers[number] for number in order.order]
        for line in self._written(whole, encoded, order, lines):
            row, sentence = divmod(line.owner, len(whole))
            hypotheses[rows[row]][sentence] = line.tokens
            tied[rows[row]][sentence] = line.tied
        return hypotheses, tied

    def _pool(self, source: Source, runs: int, filling: Filling) -> Lines:
        """Make room for what is written; it is used again, as new memory is slow."""
        positions = 32
        most = self._lines(positions, source)
        return Lines(
            self.passes,
            self.vocabulary,
            filling,
            lines=min(3 * most // 2, runs * len(source.bias)),
            positions=positions,
            width=source.bias.shape[3],
        )

    def _search(self, source: Source, lines: Lines) -> tuple[list[list[int]], Tensor]:
        """Search with all heads open; hypotheses, and where rounding decided something."""
        size, device = len(source.bias), source.bias.device
        found: list[list[int]] = [[]] * size
        tied = torch.zeros(size, dtype=torch.bool, device=device)
        most = self._lines(32, source)
        for first in range(0, size, most):
            some = torch.arange(first, min(first + most, size), device=device)
            none = torch.zeros_like(some)
            last = torch.full_like(some, self.start)
            lines.add(Beginnings(some, none[:, None], none, last, None, source.some(some), {}))
            for line in lines.write(until=most // 2 if first + most < size else 0):
                found[line.owner] = line.tokens
                tied[line.owner] = line.tied
        return found, tied

    def _lines(self, positions: int, source: Source) -> int:
        """How many hypotheses to write side by side."""
        floats = 2 * sum(self.passes.widths) * (positions + source.bias.shape[3])
        return max(1, min(_LINES, _ROOM // (4 * floats)))

    # -- masks ------------------------------------------------------------------------------

    def _written(
        self, whole: Sequence[list[int]], encoded: Encoded, masks: MaskOrder, lines: Lines
    ) -> Iterator[Line]:
        """What masks write differently; the owner is the mask's row x sentences + the sentence."""
        longest = 1 + max(map(len, whole))
        most = self._lines(longest, encoded.source)
        for known in self._recorded(whole, encoded):
            for part in blocks(known.tree.sizes.tolist(), _ROWS // len(masks)):
                verified = verify(self.passes, known, masks, part)
                yield from self._differing(known, masks, part, verified, lines, len(whole))
                yield from lines.write(until=most)
        yield from lines.write()

    def _recorded(self, whole: Sequence[list[int]], encoded: Encoded) -> Iterator[Recorded]:
        """Run the whole model once more, on what it wrote, some sentences of similar length."""
        device = encoded.lengths.device
        order = sorted(range(len(whole)), key=lambda sentence: len(whole[sentence]))
        for part in blocks([1 + len(whole[sentence]) for sentence in order], _NODES, similar=True):
            chosen = [whole[sentence] for sentence in order[part]]
            yield Recorded.of(
                self.passes,
                encoded,
                torch.tensor(order[part], device=device),
                PrefixTree.chains(chosen, start=self.start, device=device),
                partial(Certificate.of, self.vocabulary),
            )

    def _differing(
        self,
        known: Recorded,
        masks: MaskOrder,
        part: slice,
        verified: Verified,
        lines: Lines,
        batch: int,
    ) -> Iterator[Line]:
        """Find where masks choose other words, and let them write on from there."""
        tree, grid = known.tree, verified.grid
        first = int(tree.begins[part.start])
        nodes = slice(first, first + grid.rows)
        values, tokens = known.shortlist.some(nodes).best(
            self.vocabulary, verified.features, tree.depth[nodes]
        )
        close = values[:, 0] - values[:, 1] < self.vocabulary.tolerance
        # The word that follows each beginning is the last one of the next beginning.
        following = torch.full_like(tree.tokens[nodes], self.vocabulary.end)
        following[:-1] = tree.tokens[nodes][1:]
        following[grid.sizes.cumsum(dim=0) - 1] = self.vocabulary.end
        count = len(masks)
        other = tokens[:, 0] != following.repeat(count)
        events = grid.spread((other | close).to(torch.int8)[:, None], count)[:, :, 0]
        pairs = events.any(dim=1).nonzero().squeeze(1)
        if not len(pairs):
            return
        place = events[pairs].argmax(dim=1)  # the first
        mask, sentence = pairs // grid.batch, pairs % grid.batch
        begins = grid.sizes.cumsum(dim=0) - grid.sizes
        at = mask * grid.rows + begins[sentence] + place
        chosen, tied = tokens[at, 0], close[at]
        owner = mask * batch + known.sentences[part][sentence]
        table = grid.spread(tree.tokens[nodes][:, None], 1)[:, :, 0]
        done = tied | (chosen == self.vocabulary.end)
        for row in done.nonzero().squeeze(1).tolist():
            written = table[sentence[row], 1 : 1 + int(place[row])].tolist()
            yield Line(int(owner[row]), written, bool(tied[row]))
        on = (~done).nonzero().squeeze(1)
        if not len(on):
            return
        mask, sentence, place, chosen = mask[on], sentence[on], place[on], chosen[on]
        ids = torch.cat([table[sentence][:, 1:], torch.zeros_like(place)[:, None]], dim=1)
        ids.scatter_(1, place[:, None], chosen[:, None])
        lines.add(
            Beginnings(
                owner[on],
                ids,
                place + 1,
                chosen,
                _keys(known, masks, nodes, verified, mask, sentence),
                _sources(known, masks, part, verified, mask, sentence),
                {site: gates[mask] for site, gates in masks.gates.items()},
            )
        )


def _keys(
    known: Recorded,
    masks: MaskOrder,
    nodes: slice,
    verified: Verified,
    mask: Tensor,
    sentence: Tensor,
) -> list[Tensor]:
    """Keys and values of pairs of mask and sentence, [K, width, 2 E] of each layer."""
    grid = verified.grid
    shared = torch.tensor([masks.shared_to(row) for row in range(len(masks))], device=mask.device)
    found = []
    for layer, (whole, masked) in enumerate(zip(known.keys, verified.keys, strict=True)):
        rows = grid.spread(whole[nodes], 1, grid.width)[sentence]
        own = (shared[mask] < layer).nonzero().squeeze(1)
        if len(own):
            rows[own] = masked[mask[own] * grid.batch + sentence[own]]
        found.append(rows[:, : grid.most])
    return found


def _sources(
    known: Recorded,
    masks: MaskOrder,
    part: slice,
    verified: Verified,
    mask: Tensor,
    sentence: Tensor,
) -> Source:
    """What pairs of mask and sentence read."""
    read = known.source.some(part.start + sentence)
    own = (mask < masks.in_encoder).nonzero().squeeze(1)
    if verified.source is None or not len(own):
        return read
    rows = mask[own] * verified.grid.batch + sentence[own]
    for mine, masked in zip(read.keys, verified.source.keys, strict=True):
        for tensor, new in zip(mine, masked, strict=True):
            tensor[own, :, : new.shape[2]] = new[rows]
    return read
