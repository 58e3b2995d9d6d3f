"""Translations of one batch by a fairseq model under many masks, sharing what masks leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headtool.attention.gating import Gating, Handler
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch
from headtool.models.fairseq.beam import BeamSearch
from headtool.models.fairseq.lazy_search import (
    ContinuationScorer,
    Known,
    Memory,
    Writer,
    search_lazily,
)
from headtool.models.fairseq.passes import Passes, Stores
from headtool.models.fairseq.prefix_tree import PrefixTree, Visits
from headtool.models.fairseq.shortlist import Certificate, Favourites, Shortlist
from headtool.models.fairseq.source import Source
from headtool.models.fairseq.stack import Trace
from headtool.models.generation import Filling, Gates

__all__ = ["MaskedSearches", "some"]

_MEMORY = 2**26  # bytes of keys and values that are kept at the same time; more is slower
_NODES_AT_ONCE = 2_048  # in one forward pass: what fits into the processor's cache


@dataclass(frozen=True)
class _Chunk:
    """Some sentences of a batch, and what the whole model left behind on them.

    Attributes
    ----------
    sentences
        Their places in the batch, [B].
    tree
        The prefixes that the whole model's search found useful, X of them.
    padding
        Which source positions are padding, [B, S].
    source
        What the whole model's decoder reads.
    trace
        Residuals and heads' outputs of each site.
    keys
        Keys and values of each layer, [X, 2 E].
    shortlist
        Its favourite continuations.
    """

    sentences: Tensor
    tree: PrefixTree
    padding: Tensor
    source: Source
    trace: Trace
    keys: list[Tensor]
    shortlist: Shortlist


class MaskedSearches:
    """Searches translations under masks.

    Parameters
    ----------
    model
        The model.
    passes, vocabulary
        How it is computed.
    searches
        Makes the search of a number of sentences.
    start
        The symbol before the first.
    """

    def __init__(
        self,
        model: ModelAdapter,
        passes: Passes,
        vocabulary: ContinuationScorer,
        searches: Callable[[int], BeamSearch],
        start: int,
    ) -> None:
        self.model, self.passes, self.vocabulary = model, passes, vocabulary
        self.searches, self.start = searches, start
        self.greedy = searches(1).beam == 1

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
        tokens = batch.inputs["src_tokens"]
        visits = Visits.empty()
        whole = self._search_whole(tokens, visits if masks else None)
        hypotheses = [whole.hypotheses, *(list(whole.hypotheses) for _ in masks)]
        tied = [whole.tied, *(whole.tied.clone() for _ in masks)]
        begins = {n: self.passes.begin(gates) for n, gates in enumerate(masks) if gates}
        order = sorted(begins, key=begins.__getitem__)
        for chunk in self._chunks(visits, tokens, len(order)) if order else ():
            found = self._search_masks(chunk, [masks[number] for number in order], filling)
            places = chunk.sentences.tolist()
            for row, number in enumerate(order):
                part = slice(row * len(places), (row + 1) * len(places))
                for place, ids in zip(places, found.hypotheses[part], strict=True):
                    hypotheses[1 + number][place] = ids
                tied[1 + number][chunk.sentences] = found.tied[part]
        return hypotheses, tied

    # -- the whole model --------------------------------------------------------------------

    def _search_whole(self, tokens: Tensor, visits: Visits | None) -> BeamSearch:
        search = self.searches(len(tokens))
        source = self.passes.encode(self.passes.trimmed(tokens))
        empty = [source.bias.new_empty((0, 2 * width)) for width in self.passes.widths]
        everyone = torch.arange(len(tokens), device=tokens.device)
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

    def _chunks(self, visits: Visits, sources: Tensor, masks: int) -> Iterator[_Chunk]:
        """Cut a batch into sentences of similar trees, so many that all masks fit into memory."""
        counts = torch.zeros(len(sources), dtype=torch.long)
        for sentence, useful in zip(visits.sentence, visits.useful, strict=True):
            counts += torch.bincount(torch.from_numpy(sentence[useful]), minlength=len(counts))
        floats = 2 * sum(self.passes.widths)
        most = _MEMORY // (4 * floats * masks)  # nodes
        order = counts.argsort(stable=True).tolist()
        start = 0
        while start < len(order):
            end, nodes = start + 1, int(counts[order[start]])
            while end < len(order) and nodes + counts[order[end]] <= most:
                nodes += int(counts[order[end]])
                end += 1
            yield self._chunk(order[start:end], visits, sources)
            start = end

    def _chunk(self, sentences: list[int], visits: Visits, sources: Tensor) -> _Chunk:
        """Run the whole model once more, on its own search's prefixes."""
        size = self.vocabulary.projection.shape[1]
        tree = PrefixTree.of(visits, sentences, vocabulary=size, device=sources.device)
        chosen = torch.tensor(sentences, device=sources.device)
        tokens = self.passes.trimmed(sources[chosen])
        trace = Trace()
        source = self.passes.encode(tokens, trace)
        keys = [
            source.bias.new_empty((len(tree.tokens), 2 * width)) for width in self.passes.widths
        ]
        features = self.passes.decode(tree, source, Stores(keys, [0] * len(keys)), trace)
        shortlist: Shortlist
        if self.greedy:
            shortlist = Certificate.of(self.vocabulary, features, tree.depth)
        else:
            shortlist = Favourites.of(self.vocabulary, features)
        padding = self.passes.padding(tokens)
        return _Chunk(chosen, tree, padding, source, trace, keys, shortlist)

    # -- masks ------------------------------------------------------------------------------

    def _search_masks(self, chunk: _Chunk, masks: Sequence[Gates], filling: Filling) -> BeamSearch:
        """Search a chunk under masks in the order in which they begin to matter."""
        tree, size = chunk.tree, len(chunk.sentences)
        sentence = torch.arange(size, device=self.model.device).repeat(len(masks))
        gates = self._stacked(masks, size)
        memory = self._memory(chunk, masks)
        sources, source_rows, lists = [chunk.source], [], []
        for first, count in self._runs(chunk, masks):
            pairs = slice(first * size, (first + count) * size)
            gating = Gating({site: rows[pairs] for site, rows in gates.items()}, filling)
            begin = self.passes.begin(masks[first])
            source, rows = chunk.source, sentence[pairs]
            if not begin.in_decoder:
                source = self.passes.encode_masked(
                    begin.place, chunk.trace, chunk.padding, gating, count
                )
                filled = sum(len(part.bias) for part in sources)
                rows = torch.arange(filled, filled + count * size, device=sentence.device)
                sources.append(source)
            source_rows.append(rows)
            stores = Stores(memory.stores, [int(base[first * size]) for base in memory.bases])
            features = self.passes.decode_masked(
                begin, chunk.trace, tree, source, stores, gating, count
            )
            lists.append(chunk.shortlist.best(self.vocabulary, features, tree.depth))
        values, tokens = (torch.cat(column) for column in zip(*lists, strict=True))
        per_mask = torch.arange(len(masks), device=sentence.device) * len(tree.tokens)

        def gate(rows: Tensor) -> Handler:
            return Gating({site: per_pair[rows] for site, per_pair in gates.items()}, filling)

        writer = Writer(
            self.passes.decoder,
            self.vocabulary,
            Source.joined(sources),
            memory,
            gate,
            self.start,
            sentence,
            torch.cat(source_rows),
            Known(tree, values, tokens, (per_mask[:, None] + tree.begins).flatten()),
        )
        search = self.searches(len(sentence))
        search_lazily(search, writer)
        return search

    def _runs(self, chunk: _Chunk, masks: Sequence[Gates]) -> Iterator[tuple[int, int]]:
        """Cut masks into runs, first and number, that begin to matter at the same place."""
        together = max(1, _NODES_AT_ONCE // len(chunk.tree.tokens))
        begins = [self.passes.begin(gates) for gates in masks]
        first = 0
        for end in range(1, len(masks) + 1):
            if end == len(masks) or begins[end] != begins[first] or end - first == together:
                yield first, end - first
                first = end

    def _memory(self, chunk: _Chunk, masks: Sequence[Gates]) -> Memory:
        """Make room for keys and values; up to a masked layer they are those of the whole model."""
        shared_to = [self.passes.begin(gates).decoder_layer for gates in masks]
        stores, starts, bases = [], [], []
        for layer, known in enumerate(chunk.keys):
            base, filled = [], len(known)
            for last in shared_to:
                if layer <= last:
                    base.append(chunk.tree.begins)
                else:
                    base.append(filled + chunk.tree.begins)
                    filled += len(known)
            # Masked searches ask for some prefixes more than those in the tree.
            store = known.new_empty((filled + len(masks) * len(known) // 4, known.shape[1]))
            store[: len(known)] = known
            stores.append(store)
            starts.append(filled)
            bases.append(torch.cat(base))
        return Memory(stores, starts, bases)

    def _stacked(self, masks: Sequence[Gates], size: int) -> dict[AttentionSite, Tensor]:
        """Gates [masks x sentences, H] of every site that any of the masks gates."""
        device = self.model.device
        stacked = {}
        for site in self.model.sites:
            if any(site in gates for gates in masks):
                is_open = torch.ones(site.n_heads, device=device)
                rows = torch.stack([gates.get(site, is_open) for gates in masks])
                stacked[site] = rows.repeat_interleave(size, dim=0)
        return stacked


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
