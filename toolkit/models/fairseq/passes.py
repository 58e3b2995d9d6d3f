"""Forward passes of a fairseq model over whole sources and whole trees of prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from headtool.attention.gating import Gating, Handler
from headtool.models.base import ModelAdapter
from headtool.models.fairseq.prefix_tree import PrefixTree
from headtool.models.fairseq.source import Source, self_attention, widened
from headtool.models.fairseq.stack import DecoderStack, EncoderStack, Start, Trace
from headtool.models.generation import Gates

__all__ = ["Begin", "Passes", "Stores"]


@dataclass(frozen=True, order=True)
class Begin:
    """Where a mask begins to matter.

    Attributes
    ----------
    in_decoder
        In the decoder; its encoder is that of the whole model.
    place
        Which of the sites there, in the order of the forward pass. A layer of the encoder has one,
        one of the decoder two: self-attention, then attention to the source.
    """

    in_decoder: bool
    place: int

    @property
    def decoder_layer(self) -> int:
        """The last layer whose keys and values are still those of the whole model."""
        return self.place // 2 if self.in_decoder else 0


@dataclass(frozen=True)
class Stores:
    """Where a pass puts keys and values.

    Attributes
    ----------
    tensors
        Per layer, keys and values, [.., 2 E].
    firsts
        Per layer, the first row to write.
    """

    tensors: list[Tensor]
    firsts: Sequence[int]


class Passes:
    """Runs encoder and decoder.

    Parameters
    ----------
    model
        The model.
    longest
        Most positions of a hypothesis.
    """

    def __init__(self, model: ModelAdapter, longest: int) -> None:
        module = cast(Any, model.module)
        self.encoder = EncoderStack(module.encoder, model.handles)
        self.decoder = DecoderStack(module.decoder, model.handles, longest)
        pairs = zip(self.decoder.self_sites, self.decoder.cross_sites, strict=True)
        self.decoder_sites = [site for pair in pairs for site in pair]

    @staticmethod
    def suit(model: ModelAdapter) -> bool:
        """Whether the model has nothing but what is computed here."""
        module = cast(Any, model.module)
        return DecoderStack.suits(module.decoder) and EncoderStack.suits(module.encoder)

    @property
    def widths(self) -> list[int]:
        """Per layer of the decoder, the heads' total width."""
        attentions = [layer.self_attn for layer in self.decoder.layers]
        return [int(part.num_heads * part.head_dim) for part in attentions]

    def begin(self, gates: Gates) -> Begin:
        """Where a mask that closes any head begins to matter."""
        for in_decoder, sites in ((False, self.encoder.sites), (True, self.decoder_sites)):
            for place, site in enumerate(sites):
                if site in gates:
                    return Begin(in_decoder, place)
        raise ValueError("a mask that closes no head begins nowhere")

    def padding(self, tokens: Tensor) -> Tensor:
        """Which source symbols are padding, [B, S]."""
        return tokens == int(self.encoder.encoder.padding_idx)

    def trimmed(self, tokens: Tensor) -> Tensor:
        """Pad sources no wider than the longest needs and attention likes."""
        width = widened(int((~self.padding(tokens)).sum(dim=1).max()))
        if width <= tokens.shape[1]:
            return tokens[:, :width]
        missing = (0, width - tokens.shape[1])
        return functional.pad(tokens, missing, value=int(self.encoder.encoder.padding_idx))

    def encode(self, tokens: Tensor, trace: Trace | None = None) -> Source:
        """Encode sources with all heads open.

        Parameters
        ----------
        tokens
            Sources, [B, S].
        trace
            Records the pass; None for nothing.
        """
        padding = self.padding(tokens)
        x = self.encoder.embed(tokens)[~padding.flatten()]
        return self._encode(x, padding, None, trace)

    def encode_masked(
        self, place: int, trace: Trace, padding: Tensor, gating: Gating, masks: int
    ) -> Source:
        """Encode sources under masks that begin in an encoder layer; rows are masks x sources.

        Parameters
        ----------
        place
            The site of the encoder where the masks begin to matter.
        trace
            What the whole model's pass left.
        padding
            Which source symbols are padding, [B, S].
        gating
            The gates, a row for every mask and source.
        masks
            How many masks.
        """
        residual, contexts = trace.at[self.encoder.sites[place]]
        start = Start(place, False, residual.repeat(masks, 1), contexts.repeat(masks, 1))
        handler = _widened(gating, (~padding).sum(dim=1).repeat(masks))
        return self._encode(start, padding.repeat(masks, 1), handler, None)

    def _encode(
        self, x: Tensor | Start, padding: Tensor, handler: Handler | None, trace: Trace | None
    ) -> Source:
        bias = torch.zeros(padding.shape, device=padding.device).masked_fill(padding, -torch.inf)
        bias = bias[:, None, None]
        cells = (~padding).flatten().nonzero().squeeze(1)

        def attend(layer: int, projected: Tensor) -> Tensor:
            heads = self.encoder.layers[layer].self_attn.num_heads
            found = self_attention(_grids(projected, cells, padding.shape), heads, bias)
            return found.flatten(0, 1).index_select(0, cells)

        states = self.encoder.run(x, attend, handler, trace)
        pairs = []
        for layer, rows in zip(self.decoder.layers, self.decoder.source_keys(states), strict=True):
            grids = _grids(rows, cells, padding.shape)
            heads = layer.encoder_attn.num_heads
            per_head = grids.view(*padding.shape, 2, heads, -1).transpose(1, 3)
            pairs.append((per_head[:, :, 0].contiguous(), per_head[:, :, 1].contiguous()))
        return Source(pairs, bias)

    def decode(self, tree: PrefixTree, source: Source, stores: Stores, trace: Trace) -> Tensor:
        """Run the decoder on a tree with all heads open.

        Parameters
        ----------
        tree
            The prefixes, X in all.
        source
            What the decoder reads.
        stores
            Where keys and values go.
        trace
            Records the pass.

        Returns
        -------
        Tensor
            Features, [X, E].
        """
        x = self.decoder.embed(tree.tokens, tree.depth)
        return self._decode(x, tree, source, stores, 1, None, trace)

    def decode_masked(
        self,
        begin: Begin,
        trace: Trace,
        tree: PrefixTree,
        source: Source,
        stores: Stores,
        gating: Gating,
        masks: int,
    ) -> Tensor:
        """Run the decoder under masks that begin to matter at one place.

        Parameters
        ----------
        begin
            Where the masks begin to matter.
        trace
            What the whole model's pass left.
        tree
            The prefixes, X in all.
        source
            What the decoder reads: a row for every sentence, or one for every mask and sentence.
        stores
            Where keys and values go.
        gating
            The gates, a row for every mask and prefix.
        masks
            How many masks.

        Returns
        -------
        Tensor
            Features, [masks * X, E].
        """
        # The first self-attention does not read the source: it is that of the whole model.
        place = begin.place if begin.in_decoder else 0
        residual, contexts = trace.at[self.decoder_sites[place]]
        layer, cross = divmod(place, 2)
        x = Start(layer, bool(cross), residual.repeat(masks, 1), contexts.repeat(masks, 1))
        handler = _widened(gating, tree.sizes.repeat(masks))
        return self._decode(x, tree, source, stores, masks, handler, None)

    def _decode(
        self,
        x: Tensor | Start,
        tree: PrefixTree,
        source: Source,
        stores: Stores,
        masks: int,
        handler: Handler | None,
        trace: Trace | None,
    ) -> Tensor:
        size, nodes = len(tree.begins), tree.nodes
        bias = tree.bias.repeat(masks, 1, 1, 1) if masks > 1 else tree.bias
        cells = tree.cells_of(masks)
        # Where masks read one source, all their queries meet it at once.
        sources = len(source.bias)
        readers = cells if sources == masks * size else tree.cells_by_sentence(masks)

        def attend(layer: int, projected: Tensor) -> Tensor:
            first, width = stores.firsts[layer], stores.tensors[layer].shape[1]
            stores.tensors[layer][first : first + len(projected)] = projected[:, -width:]
            heads = self.decoder.layers[layer].self_attn.num_heads
            grids = _grids(projected, cells, (masks * size, nodes))
            found = self_attention(grids, heads, bias)
            return found.flatten(0, 1).index_select(0, cells)

        def cross(layer: int, queries: Tensor) -> Tensor:
            grids = _grids(queries, readers, (sources, masks * size * nodes // sources))
            found = source.attend(layer, grids)
            return found.flatten(0, 1).index_select(0, readers)

        return self.decoder.run(x, attend, cross, handler, trace)


def _grids(rows: Tensor, cells: Tensor, shape: Sequence[int]) -> Tensor:
    """Put rows [R, E] into cells [R] of grids of a shape [B, N], which are zero elsewhere."""
    room = rows.new_zeros((shape[0] * shape[1], rows.shape[1]))
    return room.index_copy_(0, cells, rows).view(*shape, -1)


def _widened(gating: Gating, positions: Tensor) -> Gating:
    """Repeat the gates of each sequence for each of its positions, given their number."""
    wide = {site: rows.repeat_interleave(positions, dim=0) for site, rows in gating.gates.items()}
    return Gating(wide, gating.replacements)
