"""Forward passes of a fairseq model over whole sources and whole trees of prefixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from headtool.models.base import ModelAdapter
from headtool.models.fairseq.grids import Grid
from headtool.models.fairseq.prefix_tree import PrefixTree
from headtool.models.fairseq.source import Source, attention
from headtool.models.fairseq.stack import DecoderStack, EncoderStack, Trace
from headtool.models.generation import Gates

__all__ = ["Begin", "Encoded", "Passes", "attend_within", "source_bias"]


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
class Encoded:
    """Sources that were encoded with all heads open.

    Attributes
    ----------
    lengths
        Symbols of each, [B].
    source
        What decoders read of them.
    trace
        Residuals and heads' outputs of the encoder's sites, one source after the other.
    """

    lengths: Tensor
    source: Source
    trace: Trace

    def some(self, sources: Tensor) -> Encoded:
        """Take some of them.

        Parameters
        ----------
        sources
            Which ones.
        """
        lengths = self.lengths[sources]
        first = self.lengths.cumsum(dim=0)[sources] - lengths
        begins = lengths.cumsum(dim=0) - lengths
        places = torch.arange(int(lengths.sum()), device=lengths.device)
        rows = places + (first - begins).repeat_interleave(lengths)
        trace = {site: (x[rows], heads[rows]) for site, (x, heads) in self.trace.at.items()}
        return Encoded(lengths, self.source.some(sources), Trace(trace))


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

    def encode(self, tokens: Tensor) -> Encoded:
        """Encode sources [B, S] with all heads open."""
        real = tokens != int(self.encoder.encoder.padding_idx)
        lengths, trace = real.sum(dim=1), Trace()
        grid = Grid(lengths.tolist(), tokens.device)
        bias = source_bias(grid)

        def attend(layer: int, projected: Tensor) -> Tensor:
            return self.attend_encoder(layer, projected, grid, bias, 1)

        states = self.encoder.run(self.encoder.embed(tokens)[real.flatten()], attend, trace)
        return Encoded(lengths, self.source(states, grid, 1), trace)

    def attend_encoder(
        self, layer: int, projected: Tensor, grid: Grid, bias: Tensor, times: int
    ) -> Tensor:
        """Attend within sources under so many masks; see `attend_within`.

        Parameters
        ----------
        layer
            Number of the layer.
        projected, grid, bias, times
            As for `attend_within`.
        """
        heads = self.encoder.layers[layer].self_attn.num_heads
        return attend_within(projected, grid, heads, bias, times)[0]

    def source(self, states: Tensor, grid: Grid, times: int) -> Source:
        """What decoders read of encoder states [times * R, E].

        Parameters
        ----------
        states
            What the encoder puts out.
        grid
            How its rows are laid out.
        times
            How many masks.
        """
        pairs = []
        for layer, rows in zip(self.decoder.layers, self.decoder.source_keys(states), strict=True):
            keys, values = _by_head(
                grid.spread(rows, times, grid.width), layer.encoder_attn.num_heads
            )
            pairs.append((keys.contiguous(), values.contiguous()))
        bias = source_bias(grid)
        return Source(pairs, bias.repeat(times, 1, 1, 1) if times > 1 else bias)

    def decode(self, tree: PrefixTree, source: Source, keys: list[Tensor], trace: Trace) -> Tensor:
        """Run the decoder on a tree with all heads open.

        Parameters
        ----------
        tree
            The prefixes, X in all.
        source
            What the decoder reads.
        keys
            Filled with the keys and values of each layer, [X, 2 E].
        trace
            Records the pass.

        Returns
        -------
        Tensor
            Features, [X, E].
        """
        grid = Grid(tree.sizes.tolist(), tree.tokens.device)
        bias = tree.bias_of(slice(None), grid)

        def attend(layer: int, projected: Tensor) -> Tensor:
            keys.append(projected[:, -2 * self.widths[layer] :].contiguous())
            heads = self.decoder.layers[layer].self_attn.num_heads
            return attend_within(projected, grid, heads, bias, 1)[0]

        def cross(layer: int, queries: Tensor) -> Tensor:
            return grid.gathered(source.attend(layer, grid.spread(queries, 1)), 1)

        x = self.decoder.embed(tree.tokens, tree.depth)
        return self.decoder.run(x, attend, cross, None, trace)


def attend_within(
    projected: Tensor, grid: Grid, heads: int, bias: Tensor, times: int
) -> tuple[Tensor, Tensor]:
    """Attend within sequences under so many masks.

    Parameters
    ----------
    projected
        Scaled queries, keys and values, [times * R, 3 E].
    grid
        How rows are laid out.
    heads
        How many heads.
    bias
        Added to the scores, broadcastable to [times * B, 1, N, width].
    times
        How many masks.

    Returns
    -------
    contexts
        The heads' outputs, [times * R, E].
    keys
        Keys and values, [times * B, width, 2 E].
    """
    width = projected.shape[1] // 3
    queries = grid.spread(projected[:, :width], times)
    both = grid.spread(projected[:, width:], times, grid.width)
    return grid.gathered(attention(queries, *_by_head(both, heads), bias), times), both


def source_bias(grid: Grid) -> Tensor:
    """Minus infinity at padding, [B, 1, 1, width]."""
    places = torch.arange(grid.width, device=grid.sizes.device)
    zeros = torch.zeros((grid.batch, grid.width), device=places.device)
    return zeros.masked_fill(places >= grid.sizes[:, None], -torch.inf)[:, None, None]


def _by_head(both: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Keys and values [B, H, S, D] of both side by side, [B, S, 2 E]."""
    keys, values = both.view(*both.shape[:2], 2, heads, -1).transpose(1, 3).unbind(2)
    return keys, values
