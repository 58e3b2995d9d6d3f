"""Translations of one batch by a fairseq model under many masks, sharing what masks leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headtool.attention.gating import Gating, Handler
from headtool.models.examples import Batch
from headtool.models.fairseq.beam import BeamSearch
from headtool.models.fairseq.lazy_search import Known, Memory, Writer, search_lazily
from headtool.models.fairseq.passes import Encoded, Passes
from headtool.models.fairseq.prefix_tree import PrefixTree, Visits
from headtool.models.fairseq.scoring import ContinuationScorer
from headtool.models.fairseq.shortlist import Favourites
from headtool.models.fairseq.source import Source
from headtool.models.fairseq.verification import MaskOrder, Recorded, Verified, blocks, verify
from headtool.models.generation import Filling, Gates

__all__ = ["MaskedSearches", "some"]

_MEMORY = 2**27  # bytes of keys and values that are kept at the same time
_ROWS = 1_024  # verified at once: what fits into the processor's cache


class MaskedSearches:
    """Searches translations under masks.

    Parameters
    ----------
    passes, vocabulary
        The model.
    searches
        Makes the search of a number of sentences.
    start
        The symbol before the first.
    """

    def __init__(
        self,
        passes: Passes,
        vocabulary: ContinuationScorer,
        searches: Callable[[int], BeamSearch],
        start: int,
    ) -> None:
        self.passes, self.vocabulary = passes, vocabulary
        self.searches, self.start = searches, start

    def run(
        self, batch: Batch, masks: Sequence[Gates], filling: Filling
    ) -> tuple[list[list[list[int]]], list[Tensor]]:
        """Search with all heads open, then under each mask.

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
        visits = Visits.empty()
        whole = self._search_whole(encoded.source, visits if masks else None)
        hypotheses = [whole.hypotheses, *(list(whole.hypotheses) for _ in masks)]
        tied = [whole.tied, *(whole.tied.clone() for _ in masks)]
        numbers = [number for number, gates in enumerate(masks) if gates]
        if not numbers:
            return hypotheses, tied
        order = MaskOrder(self.passes, [masks[number] for number in numbers], filling)
        rooms = [encoded.source.bias.new_empty((0, 2 * width)) for width in self.passes.widths]
        for known in self._recorded(visits, encoded, len(order)):
            found = self._search_masks(known, order, rooms)
            places = known.sentences.tolist()
            for row, which in enumerate(order.order):
                number = numbers[which]
                part = slice(row * len(places), (row + 1) * len(places))
                for place, ids in zip(places, found.hypotheses[part], strict=True):
                    hypotheses[1 + number][place] = ids
                tied[1 + number][known.sentences] = found.tied[part]
        return hypotheses, tied

    # -- the whole model --------------------------------------------------------------------

    def _search_whole(self, source: Source, visits: Visits | None) -> BeamSearch:
        search = self.searches(len(source.bias))
        empty = [source.bias.new_empty((0, 2 * width)) for width in self.passes.widths]
        everyone = torch.arange(len(source.bias), device=source.bias.device)
        writer = Writer(
            self.passes.decoder,
            self.vocabulary,
            source,
            Memory(empty, [0] * len(empty)),
            lambda rows: None,
            self.start,
            sentence=everyone,
            source_row=everyone,
        )
        search_lazily(search, writer, visits)
        return search

    def _recorded(self, visits: Visits, encoded: Encoded, masks: int) -> Iterator[Recorded]:
        """Run the whole model once more, on its own search's prefixes.

        The batch is cut into sentences of similar trees, so many that all masks fit into memory.
        """
        counts = torch.zeros(len(encoded.lengths), dtype=torch.long)
        for sentence, useful in zip(visits.sentence, visits.useful, strict=True):
            counts += torch.bincount(torch.from_numpy(sentence[useful]), minlength=len(counts))
        floats, device = 2 * sum(self.passes.widths), encoded.lengths.device
        order = counts.argsort(stable=True).tolist()
        most = _MEMORY // (4 * floats * masks)  # nodes
        for part in blocks([int(counts[sentence]) for sentence in order], most, similar=True):
            size = self.vocabulary.size
            tree = PrefixTree.of(visits, order[part], vocabulary=size, device=device)
            yield Recorded.of(
                self.passes,
                encoded,
                torch.tensor(order[part], device=device),
                tree,
                lambda features, depth: Favourites.of(self.vocabulary, features),
            )

    # -- masks ------------------------------------------------------------------------------

    def _search_masks(self, known: Recorded, masks: MaskOrder, rooms: list[Tensor]) -> BeamSearch:
        """Search some sentences under all masks; `rooms` hold keys and values, and are reused."""
        tree, size, count = known.tree, len(known.sentences), len(masks)
        device = known.sentences.device
        memory = _memory(known, masks, rooms)
        sources = [known.source]
        source_rows = torch.arange(size, device=device).repeat(count, 1)
        shape = (count, len(tree.tokens), self.vocabulary.count)
        values = known.source.bias.new_empty(shape)
        tokens = tree.tokens.new_empty(shape)
        for part in blocks(tree.sizes.tolist(), _ROWS // count):
            verified = verify(self.passes, known, masks, part)
            first = int(tree.begins[part.start])
            nodes = slice(first, first + verified.grid.rows)
            best = known.shortlist.some(nodes).best(
                self.vocabulary, verified.features, tree.depth[nodes]
            )
            for room, found in zip((values, tokens), best, strict=True):
                room[:, nodes] = found.view(count, verified.grid.rows, -1)
            _remember(memory, verified, nodes, len(tree.tokens))
            if verified.source is not None:
                filled = sum(len(source.bias) for source in sources)
                rows = torch.arange(len(verified.source.bias), device=device)
                source_rows[: masks.in_encoder, part] = (filled + rows).view(masks.in_encoder, -1)
                sources.append(verified.source)
        per_mask = torch.arange(count, device=device) * len(tree.tokens)

        def gate(rows: Tensor) -> Handler:
            gates = {site: per_mask[rows // size] for site, per_mask in masks.gates.items()}
            return Gating(gates, masks.filling)

        writer = Writer(
            self.passes.decoder,
            self.vocabulary,
            Source.joined(sources),
            memory,
            gate,
            self.start,
            torch.arange(size, device=device).repeat(count),
            source_rows.flatten(),
            Known(
                tree,
                values.flatten(0, 1),
                tokens.flatten(0, 1),
                (per_mask[:, None] + tree.begins).flatten(),
            ),
        )
        search = self.searches(count * size)
        search_lazily(search, writer)
        rooms[:] = memory.stores
        return search


def _memory(known: Recorded, masks: MaskOrder, rooms: Sequence[Tensor]) -> Memory:
    """Make room for keys and values; up to a masked layer they are those of the whole model.

    New memory is slow: rooms that are large enough are used again.
    """
    stores, starts, bases = [], [], []
    for layer, (keys, room) in enumerate(zip(known.keys, rooms, strict=True)):
        base, filled = [], len(keys)
        for row in range(len(masks)):
            if layer <= masks.shared_to(row):
                base.append(known.tree.begins)
            else:
                base.append(filled + known.tree.begins)
                filled += len(keys)
        # Masked searches ask for some prefixes more than those in the tree.
        needed = filled + len(masks) * len(keys) // 4
        store = room if len(room) >= needed else room.new_empty((needed, room.shape[1]))
        store[: len(keys)] = keys
        stores.append(store)
        starts.append(filled)
        bases.append(torch.cat(base))
    return Memory(stores, starts, bases)


def _remember(memory: Memory, verified: Verified, nodes: slice, size: int) -> None:
    """Keep the keys and values of some of the nodes; `size` is the number of all."""
    grid = verified.grid
    for layer, keys in enumerate(verified.keys):
        masks = len(keys) // grid.batch
        if masks:
            rows = grid.gathered(keys, masks)
            store = memory.stores[layer][size : size + masks * size].view(masks, size, -1)
            store[:, nodes] = rows.view(masks, grid.rows, -1)


def some(batch: Batch, rows: Sequence[int]) -> Batch:
    """Take some rows of a batch, without the padding that none of them needs.

    Parameters
    ----------
    batch
        The batch.
    rows
        Which rows.
    """
    index = torch.tensor(list(rows))
    inputs = {name: tensor[index.to(tensor.device)] for name, tensor in batch.inputs.items()}
    width = int(inputs["src_lengths"].max())
    inputs["src_tokens"] = inputs["src_tokens"][:, :width]
    return replace(
        batch, index=batch.index[index.numpy()], inputs=inputs, targets=batch.targets[index]
    )
