"""Translations of one batch by a fairseq model under many masks, sharing what masks leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from headtool.heads import AttentionSite
from headtool.models.base import Batch, ModelAdapter
from headtool.models.certificate import Certificate
from headtool.models.fairseq_stack import DecoderStack, EncoderStack, Start, Trace
from headtool.models.gating import Gating, Handler
from headtool.models.generation import Filling, Gates
from headtool.models.lazy_search import (
    Known,
    Memory,
    Source,
    Vocabulary,
    attention,
    search_lazily,
)
from headtool.models.prefix_tree import PrefixTree, Visits
from headtool.search import BeamSearch

__all__ = ["MaskedSearches"]

_NODES = 65_536  # of all masks and sentences that are searched side by side
_NODES_AT_ONCE = 2_048  # of those, in one forward pass: what fits into the processor's cache


@dataclass(frozen=True)
class _Chunk:
    """Some sentences of a batch, and what the whole model left behind on them.

    Attributes
    ----------
    sentences
        Their places in the batch, [B].
    tree
        The prefixes that the whole model's search found useful.
    padding
        Which source positions are padding, [B, S].
    source
        What the whole model's decoder reads.
    trace, stores
        Residuals and heads' outputs of each site, keys and values of each layer, [X, E].
    likely
        For beam search: the most probable symbols after each node, [X, K].
    certificate
        For greedy search: what makes most of the vocabulary superfluous.
    """

    sentences: Tensor
    tree: PrefixTree
    padding: Tensor
    source: Source
    trace: Trace
    stores: list[Tensor]
    likely: Tensor | None
    certificate: Certificate | None


class MaskedSearches:
    """Searches translations under masks.

    Parameters
    ----------
    model
        The model.
    stack, vocabulary
        Its decoder.
    searches
        Makes the search of a number of sentences.
    start
        The symbol before the first.
    """

    def __init__(
        self,
        model: ModelAdapter,
        stack: DecoderStack,
        vocabulary: Vocabulary,
        searches: Callable[[int], BeamSearch],
        start: int,
    ) -> None:
        self.model, self.stack, self.vocabulary = model, stack, vocabulary
        self.searches, self.start = searches, start
        self.greedy = searches(1).beam == 1
        self.encoder = EncoderStack(cast(Any, model.module).encoder, model.handles)
        self.encoder_sites = {site: number for number, site in enumerate(self.encoder.sites)}
        order = [
            site for pair in zip(stack.self_sites, stack.cross_sites, strict=True) for site in pair
        ]
        self.decoder_sites = {site: number for number, site in enumerate(order)}

    def run(
        self,
        batch: Batch,
        masks: Sequence[Gates],
        filling: Filling,
    ) -> tuple[list[list[list[int]]], list[Tensor]]:
        """Search with all heads open, then under each mask.

        Returns
        -------
        hypotheses
            [1 + masks, examples], without the end of sentence.
        tied
            Per row, the examples where rounding decided something.
        """
        tokens = batch.inputs["src_tokens"]
        source = self._encode(self.encoder.embed(tokens), self._padding(tokens), None, None)
        size, device = len(batch), tokens.device
        search = self.searches(size)
        visits = Visits.empty()
        everyone = torch.arange(size, device=device)
        search_lazily(
            search,
            self.stack,
            self.vocabulary,
            source,
            Memory(
                [source.bias.new_empty((0, 2 * self._width(n))) for n in self._layers],
                [0 for _ in self._layers],
            ),
            lambda rows: None,
            start=self.start,
            sentence=everyone,
            source_row=everyone,
            visits=visits if masks else None,
        )
        hypotheses = [search.hypotheses, *(list(search.hypotheses) for _ in masks)]
        tied = [search.tied, *(torch.zeros_like(search.tied) for _ in masks)]
        order = sorted(
            (n for n, gates in enumerate(masks) if gates), key=lambda n: self._first(masks[n])
        )
        for chunk in self._chunks(visits, tokens, len(order)) if order else ():
            found = self._search_masks(chunk, [masks[number] for number in order], filling)
            places = chunk.sentences.tolist()
            for row, number in enumerate(order):
                part = slice(row * len(places), (row + 1) * len(places))
                for place, ids in zip(places, found.hypotheses[part], strict=True):
                    hypotheses[1 + number][place] = ids
                tied[1 + number][chunk.sentences] = found.tied[part]
        for number, gates in enumerate(masks):
            if not gates:
                hypotheses[1 + number], tied[1 + number] = hypotheses[0], tied[0]
        return hypotheses, tied

    # -- the encoder ------------------------------------------------------------------------

    def _encode(
        self, x: Tensor | Start, padding: Tensor, handler: Handler | None, trace: Trace | None
    ) -> Source:
        """Encode sources whose padding is [B, S]; what decoders read of them."""
        size, width = padding.shape
        bias = torch.zeros(padding.shape, device=padding.device).masked_fill(padding, -torch.inf)

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            heads = self.encoder.layers[layer].self_attn.num_heads
            shape = (size, width, heads, keys.shape[1] // heads)
            return attention(
                queries.view(size, width, -1),
                keys.view(shape).transpose(1, 2),
                values.view(shape).transpose(1, 2),
                bias[:, None, None],
            ).view(queries.shape)

        states = self.encoder.run(x, attend, handler, trace)
        keys = self.stack.source_keys(states.view(size, width, -1))
        return Source(keys, bias[:, None, None])

    def _masked_source(self, chunk: _Chunk, gating: Gating, layer: int, masks: int) -> Source:
        """Encode a chunk under masks from an encoder layer on; rows are masks x sentences."""
        residual, contexts = chunk.trace.at[self.encoder.sites[layer]]
        start = Start(layer, False, residual.repeat(masks, 1), contexts.repeat(masks, 1))
        width = chunk.padding.shape[1]
        wide = {site: rows.repeat_interleave(width, dim=0) for site, rows in gating.gates.items()}
        handler = Gating(wide, gating.replacements)
        return self._encode(start, chunk.padding.repeat(masks, 1), handler, None)

    # -- chunks and groups ------------------------------------------------------------------

    def _padding(self, tokens: Tensor) -> Tensor:
        return tokens == int(self.encoder.encoder.padding_idx)

    @property
    def _layers(self) -> range:
        return range(len(self.stack.layers))

    def _width(self, layer: int) -> int:
        attention_ = self.stack.layers[layer].self_attn
        return int(attention_.num_heads * attention_.head_dim)

    def _first(self, gates: Gates) -> tuple[bool, int]:
        """Where a mask begins to matter: in the decoder or not, and which of the sites there."""
        encoder = [n for site, n in self.encoder_sites.items() if site in gates]
        if encoder:
            return False, min(encoder)
        return True, min(n for site, n in self.decoder_sites.items() if site in gates)

    def _chunks(self, visits: Visits, sources: Tensor, masks: int) -> Iterator[_Chunk]:
        """Cut a batch into sentences of similar trees, so many that all masks fit into memory."""
        counts = torch.zeros(len(sources), dtype=torch.long)
        for sentence, useful in zip(visits.sentence, visits.useful, strict=True):
            counts += torch.bincount(torch.from_numpy(sentence[useful]), minlength=len(counts))
        order = counts.argsort(stable=True).tolist()
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (end + 1 - start) * counts[order[end]] * masks <= _NODES:
                end += 1
            yield self._chunk(order[start:end], visits, sources)
            start = end

    def _chunk(self, sentences: list[int], visits: Visits, sources: Tensor) -> _Chunk:
        tree = PrefixTree.of(
            visits,
            sentences,
            vocabulary=self.vocabulary.projection.shape[1],
            device=sources.device,
        )
        chosen = torch.tensor(sentences, device=sources.device)
        tokens = sources[chosen]
        tokens = tokens[:, : int((~self._padding(tokens)).sum(dim=1).max())]
        padding, trace = self._padding(tokens), Trace()
        source = self._encode(self.encoder.embed(tokens), padding, None, trace)
        stores = [
            source.bias.new_empty((len(tree.tokens), 2 * self._width(n))) for n in self._layers
        ]
        x = self.stack.embed(tree.tokens, tree.depth)
        firsts = [0 for _ in self._layers]
        features = self._pass(x, tree, source, stores, firsts, 1, None, trace)
        likely, certificate = None, None
        if self.greedy:
            certificate = Certificate.of(self.vocabulary, features, tree.depth)
        else:
            likely = self.vocabulary.likely(features)
        return _Chunk(chosen, tree, padding, source, trace, stores, likely, certificate)

    # -- masks ------------------------------------------------------------------------------

    def _pass(
        self,
        x: Tensor | Start,
        tree: PrefixTree,
        source: Source,
        stores: list[Tensor],
        firsts: Sequence[int],
        masks: int,
        handler: Handler | None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Run the decoder on every node of a tree under several masks; features [R, E].

        Keys and values go into the stores, per layer from row `firsts` on.
        """
        size = len(tree.begins)
        bias = tree.bias.repeat(masks, 1, 1, 1) if masks > 1 else tree.bias
        shared = torch.arange(size, device=bias.device).repeat(masks)
        reads = None if len(source.bias) == len(shared) else shared

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            part = stores[layer][firsts[layer] : firsts[layer] + len(keys)]
            width = keys.shape[1]
            part[:, :width], part[:, width:] = keys, values
            heads = self.stack.layers[layer].self_attn.num_heads
            shape = (masks * size, tree.nodes, heads, width // heads)
            padded = [tree.padded(rows, masks) for rows in (queries, keys, values)]
            per_head = [rows.view(shape).transpose(1, 2) for rows in padded[1:]]
            return tree.unpadded(attention(padded[0], per_head[0], per_head[1], bias))

        def cross(layer: int, queries: Tensor) -> Tensor:
            return tree.unpadded(source.attend(layer, tree.padded(queries, masks), reads))

        return self.stack.run(x, attend, cross, handler, trace)

    def _search_masks(
        self,
        chunk: _Chunk,
        masks: Sequence[Gates],
        filling: Filling,
    ) -> BeamSearch:
        """Search a chunk under masks in the order in which they begin to matter."""
        size = len(chunk.sentences)
        sentence = torch.arange(size, device=self.model.device).repeat(len(masks))
        gates = self._stacked(masks, size)
        memory = self._memory(chunk, masks)
        sources, source_rows, lists = [chunk.source], [], []
        for first, count in self._passes(chunk, masks):
            pairs = slice(first * size, (first + count) * size)
            gating = Gating({site: rows[pairs] for site, rows in gates.items()}, filling)
            in_decoder, place = self._first(masks[first])
            source = chunk.source
            source_rows.append(sentence[pairs])
            if not in_decoder:
                source = self._masked_source(chunk, gating, place, count)
                begin = sum(len(part.bias) for part in sources)
                source_rows[-1] = torch.arange(begin, begin + count * size, device=sentence.device)
                sources.append(source)
            firsts = [int(base[first * size]) for base in memory.bases]
            lists.append(
                self._prefill(chunk, source, memory, firsts, gating, count, place, in_decoder)
            )
        values, tokens = (torch.cat(column) for column in zip(*lists, strict=True))
        first_rows = torch.arange(len(masks), device=sentence.device) * len(chunk.tree.tokens)
        search = self.searches(len(sentence))

        def gate(rows: Tensor) -> Handler:
            return Gating({site: per_pair[rows] for site, per_pair in gates.items()}, filling)

        search_lazily(
            search,
            self.stack,
            self.vocabulary,
            Source.joined(sources),
            memory,
            gate,
            start=self.start,
            sentence=sentence,
            source_row=torch.cat(source_rows),
            known=Known(
                chunk.tree,
                values,
                tokens,
                (first_rows[:, None] + chunk.tree.begins).flatten(),
            ),
        )
        return search

    def _passes(self, chunk: _Chunk, masks: Sequence[Gates]) -> Iterator[tuple[int, int]]:
        """Cut masks into runs, first and number, that begin to matter at the same place."""
        together = max(1, _NODES_AT_ONCE // len(chunk.tree.tokens))
        first = 0
        while first < len(masks):
            count = 1
            while (
                first + count < len(masks)
                and count < together
                and self._first(masks[first + count]) == self._first(masks[first])
            ):
                count += 1
            yield first, count
            first += count

    def _memory(self, chunk: _Chunk, masks: Sequence[Gates]) -> Memory:
        """Make room for keys and values; below a masked layer they are those of the whole model."""
        begins = [place // 2 if in_decoder else -1 for in_decoder, place in map(self._first, masks)]
        stores, starts, bases = [], [], []
        for layer, known in enumerate(chunk.stores):
            base, filled = [], len(known)
            for begin in begins:
                if layer <= begin:
                    base.append(chunk.tree.begins)
                else:
                    base.append(filled + chunk.tree.begins)
                    filled += len(known)
            store = known.new_empty((filled + len(masks) * len(known) // 4, known.shape[1]))
            store[: len(known)] = known
            stores.append(store)
            starts.append(filled)
            bases.append(torch.cat(base))
        return Memory(stores, starts, bases)

    def _prefill(
        self,
        chunk: _Chunk,
        source: Source,
        memory: Memory,
        firsts: Sequence[int],
        gating: Gating,
        masks: int,
        place: int,
        in_decoder: bool,
    ) -> tuple[Tensor, Tensor]:
        """Compute the tree's nodes under some masks; their best continuations."""
        tree, depth = chunk.tree, chunk.tree.depth
        x: Tensor | Start
        if in_decoder:
            residual, contexts = chunk.trace.at[list(self.decoder_sites)[place]]
            layer, cross = divmod(place, 2)
            x = Start(layer, bool(cross), residual.repeat(masks, 1), contexts.repeat(masks, 1))
        else:
            x = self.stack.embed(tree.tokens, depth).repeat(masks, 1)
        counts = torch.diff(tree.begins, append=tree.begins.new_tensor([len(tree.tokens)]))
        counts = counts.repeat(masks)
        wide = {site: rows.repeat_interleave(counts, dim=0) for site, rows in gating.gates.items()}
        handler = Gating(wide, gating.replacements)
        features = self._pass(x, tree, source, memory.stores, firsts, masks, handler)
        if chunk.likely is not None:
            return self.vocabulary.best(
                features, depth.repeat(masks), chunk.likely.repeat(masks, 1)
            )
        assert chunk.certificate
        return chunk.certificate.best(self.vocabulary, features, depth)

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
    """Some rows of a batch, without the padding that none of them needs."""
    index = torch.tensor(list(rows))
    inputs = {name: tensor[index.to(tensor.device)] for name, tensor in batch.inputs.items()}
    width = int(inputs["src_lengths"].max())
    inputs["src_tokens"] = inputs["src_tokens"][:, :width]
    return replace(
        batch, index=batch.index[index.numpy()], inputs=inputs, targets=batch.targets[index]
    )
