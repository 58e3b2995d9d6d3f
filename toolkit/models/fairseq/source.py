"""What decoders read of the source, and attention to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Source", "attention", "single_attention", "widened"]

_LANES = 16  # a softmax over a multiple of so many keys is several times as fast: no remainder


@dataclass(frozen=True)
class Source:
    """What decoders read of the source.

    Attributes
    ----------
    keys
        Keys and values [B, H, S, D] of each layer.
    bias
        Minus infinity at padding, [B, 1, 1, S].
    """

    keys: list[tuple[Tensor, Tensor]]
    bias: Tensor

    def some(self, rows: Tensor | slice) -> Source:
        """Take some rows."""
        return Source([(keys[rows], values[rows]) for keys, values in self.keys], self.bias[rows])

    def trimmed(self, width: int) -> Source:
        """Leave out positions from a width on, which hold padding only."""
        keys = [(keys[:, :, :width], values[:, :, :width]) for keys, values in self.keys]
        return Source(keys, self.bias[..., :width])

    @classmethod
    def joined(cls, sources: Sequence[Source]) -> Source:
        """Put the rows of several one after the other, all padded to the longest."""
        if len(sources) == 1:
            return sources[0]
        width = max(source.bias.shape[3] for source in sources)

        def wide(tensor: Tensor, value: float, dim: int) -> Tensor:
            missing = width - tensor.shape[dim]
            where = (0, missing) if dim == 3 else (0, 0, 0, missing)
            return functional.pad(tensor, where, value=value)

        keys = [
            (
                torch.cat([wide(source.keys[layer][0], 0.0, 2) for source in sources]),
                torch.cat([wide(source.keys[layer][1], 0.0, 2) for source in sources]),
            )
            for layer in range(len(sources[0].keys))
        ]
        return cls(keys, torch.cat([wide(source.bias, -torch.inf, 3) for source in sources]))

    def attend(self, layer: int, queries: Tensor, rows: Tensor | None = None) -> Tensor:
        """Attend from queries to the source.

        Parameters
        ----------
        layer
            The layer of the decoder.
        queries
            Scaled queries, [B, T, E], or [R, 1, E] with `rows`.
        rows
            The source of each of R queries; None: queries are batched as the source is.
        """
        keys, values = self.keys[layer]
        bias = self.bias
        if rows is not None:
            keys, values = keys.index_select(0, rows), values.index_select(0, rows)
            bias = bias.index_select(0, rows)
        return attention(queries, keys, values, bias)


def widened(width: int) -> int:
    """Round a number of keys up to one that attention is fast on."""
    return -(-width // _LANES) * _LANES


def single_attention(
    queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor, heads: int
) -> Tensor:
    """Attend from one position each, by few large products.

    The query of every head meets the keys of all, with zeros where the others are: more to
    multiply, but all at once.

    Parameters
    ----------
    queries
        Scaled queries, [R, E].
    keys
        Shape [R, E, S].
    values
        Shape [R, S, E].
    bias
        Added to the scores, [R, 1, S].
    heads
        How many heads.

    Returns
    -------
    Tensor
        Shape [R, E].
    """
    size, width = queries.shape
    own = torch.eye(heads, device=queries.device).repeat_interleave(width // heads, dim=1)
    scores = torch.baddbmm(bias, queries[:, None] * own, keys)
    everyone = torch.bmm(scores.softmax(dim=2), values).view(size, heads, heads, -1)
    return everyone.diagonal(dim1=1, dim2=2).transpose(1, 2).reshape(size, width)


def attention(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """Attend from queries to keys.

    Parameters
    ----------
    queries
        Scaled queries, [B, T, E].
    keys, values
        Shape [B, H, S, D].
    bias
        Added to the scores, broadcastable to [B, 1, T, S].

    Returns
    -------
    Tensor
        Shape [B, T, E].
    """
    size, heads, _, width = keys.shape
    per_head = queries.view(size, -1, heads, width).transpose(1, 2)
    result = functional.scaled_dot_product_attention(
        per_head, keys, values, attn_mask=bias, scale=1.0
    )
    return result.transpose(1, 2).reshape(queries.shape)
