"""Greedy decoding of hypotheses side by side, each from its own beginning and under its own gates.

A hypothesis that ends makes room for another one, so that there are always many to compute at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headtool.attention.gating import Gating
from headtool.heads import AttentionSite
from headtool.models.fairseq.passes import Passes
from headtool.models.fairseq.scoring import ContinuationScorer
from headtool.models.fairseq.source import Source, single_attention, widened
from headtool.models.generation import Filling

__all__ = ["Beginnings", "Line", "Lines"]

_NUMBERS = ("owner", "depth", "last", "reads", "writing", "tied")

_STALE = 8  # one in so many lines may be finished and still be computed


@dataclass(frozen=True)
class Line:
    """A finished hypothesis.

    Attributes
    ----------
    owner
        Whose it is.
    tokens
        Without the end of sentence.
    tied
        Whether rounding decided something.
    """

    owner: int
    tokens: list[int]
    tied: bool


@dataclass(frozen=True)
class Beginnings:
    """Hypotheses to go on with, K of them.

    Attributes
    ----------
    owner
        Whose they are, [K].
    tokens
        Their first tokens, [K, T].
    depth
        How many of those count, [K].
    last
        The last of them, or the symbol before the first, [K].
    keys
        Keys and values of each layer at the positions before the last token, [K, T, 2 E]; those of
        other positions are ignored. None where there are no such positions.
    source
        What they read, a row for each.
    gates
        Gates of heads, [K, H].
    """

    owner: Tensor
    tokens: Tensor
    depth: Tensor
    last: Tensor
    keys: Sequence[Tensor] | None
    source: Source
    gates: dict[AttentionSite, Tensor]


class Lines:
    """Hypotheses that are being written.

    Parameters
    ----------
    passes, vocabulary
        How they are computed.
    filling
        What closed heads put out; None for zero.
    lines, positions, width
        How many hypotheses, how long ones and sources of how many symbols to make room for; more is
        made when needed, which takes time.
    """

    def __init__(
        self,
        passes: Passes,
        vocabulary: ContinuationScorer,
        filling: Filling,
        *,
        lines: int,
        positions: int,
        width: int,
    ) -> None:
        self.passes, self.vocabulary, self.filling = passes, vocabulary, filling
        self.room = lines, widened(positions), width
        self.count = 0  # those in use come first
        self.numbers: dict[str, Tensor] = {}  # [L] each
        self.tokens = torch.empty(0)
        self.keys: list[Tensor] = []  # per layer, [L, T, 2 E]
        self.source_keys: list[Tensor] = []  # per layer, [L, E, S]: scores are faster that way
        self.source_values: list[Tensor] = []  # per layer, [L, S, E]
        self.bias = torch.empty(0)
        self.gates: dict[AttentionSite, Tensor] = {}

    # -- coming and going -------------------------------------------------------------------

    def add(self, new: Beginnings) -> None:
        """Take up hypotheses.

        Parameters
        ----------
        new
            The hypotheses, with gates at the same sites as those that are being written.
        """
        size, (positions, width) = len(new.owner), (new.tokens.shape[1], new.source.bias.shape[3])
        self._reserve(size, positions, width, new)
        rows = slice(self.count, self.count + size)
        self.count += size
        self.numbers["owner"][rows], self.numbers["depth"][rows] = new.owner, new.depth
        self.numbers["last"][rows], self.numbers["writing"][rows] = new.last, 1
        self.numbers["tied"][rows] = 0
        self.tokens[rows, :positions] = new.tokens
        if new.keys is not None:
            for room, keys in zip(self.keys, new.keys, strict=True):
                room[rows, : keys.shape[1]] = keys
        for layer, (keys, values) in enumerate(new.source.keys):
            self.source_keys[layer][rows, :, :width] = keys.transpose(2, 3).flatten(1, 2)
            self.source_values[layer][rows, :width] = values.transpose(1, 2).flatten(2)
        self.numbers["reads"][rows] = (new.source.bias[:, 0, 0] == 0).sum(dim=1)
        self.bias[rows] = -torch.inf
        self.bias[rows, :, :width] = new.source.bias[:, 0]
        for site, gates in self.gates.items():
            gates[rows] = new.gates[site]

    def _reserve(self, size: int, positions: int, width: int, new: Beginnings) -> None:
        """Make room for more lines, and for longer ones."""
        if not self.numbers:
            self.numbers = dict.fromkeys(_NUMBERS, new.owner[:0])
            self.tokens, self.bias = new.tokens[:0, :0], new.source.bias[:0, 0, :, :0]
            self.keys = [self.bias.new_empty((0, 0, 2 * each)) for each in self.passes.widths]
            for keys, values in new.source.keys:
                each = keys.shape[1] * keys.shape[3]
                self.source_keys.append(keys.new_empty((0, each, 0)))
                self.source_values.append(values.new_empty((0, 0, each)))
        if not self.count:
            self.gates = {
                site: gates.new_empty((len(self.tokens), gates.shape[1]))
                for site, gates in new.gates.items()
            }
        lines, longest = len(self.tokens), self.tokens.shape[1]
        if self.count + size > lines:
            lines = max(self.count + size, 3 * lines // 2, self.room[0])
        if positions > longest:
            longest = widened(max(positions, 3 * longest // 2, self.room[1]))
        if width > self.bias.shape[2]:
            width = max(width, self.room[2])
        width = max(width, self.bias.shape[2])
        if (lines, longest, width) == (*self.tokens.shape, self.bias.shape[2]):
            return
        self.numbers = {name: _grown(rows, (lines,)) for name, rows in self.numbers.items()}
        self.tokens = _grown(self.tokens, (lines, longest))
        self.keys = [_grown(room, (lines, longest)) for room in self.keys]
        self.source_keys = [
            _grown(room, (lines, room.shape[1], width)) for room in self.source_keys
        ]
        self.source_values = [_grown(room, (lines, width)) for room in self.source_values]
        self.bias = _grown(self.bias, (lines, 1, width))
        self.gates = {site: _grown(rows, (lines,)) for site, rows in self.gates.items()}

    def _tidy(self) -> None:
        """Move lines that are being written into the places of finished ones."""
        writing = self.numbers["writing"][: self.count] > 0
        left = int(writing.sum())
        if self.count - left <= left // _STALE:
            return
        free = (~writing[:left]).nonzero().squeeze(1)
        moved = left + writing[left:].nonzero().squeeze(1)
        longest = 1 + int(self.numbers["depth"][: self.count].max())
        width = int(self.numbers["reads"][: self.count].max())
        for rows in (*self.numbers.values(), self.bias, *self.gates.values()):
            rows[free] = rows[moved]
        for room in (self.tokens, *self.keys):
            room[free, :longest] = room[moved, :longest]
        for keys, values in zip(self.source_keys, self.source_values, strict=True):
            keys[free, :, :width] = keys[moved, :, :width]
            values[free, :width] = values[moved, :width]
        self.count = left

    # -- writing ----------------------------------------------------------------------------

    def write(self, until: int = 0) -> Iterator[Line]:
        """Write until so few lines are left.

        Parameters
        ----------
        until
            How many may be left.

        Yields
        ------
        Line
            What was finished.
        """
        while self.count > until:
            yield from self._step()
            self._tidy()

    def _step(self) -> Iterator[Line]:
        rows = slice(self.count)
        depth, last = self.numbers["depth"][rows], self.numbers["last"][rows]
        longest = 1 + int(depth.max())
        if longest > self.tokens.shape[1]:
            self._longer(longest)
        values, tokens = self.vocabulary.best(self._features(depth, last, longest), depth)
        chosen = tokens[:, 0]
        writing, tied = self.numbers["writing"][rows], self.numbers["tied"][rows]
        tied |= values[:, 0] - values[:, 1] < self.vocabulary.tolerance
        done = (writing > 0) & (chosen == self.vocabulary.end)
        finished = done.nonzero().squeeze(1)
        owners, lengths = self.numbers["owner"][finished].tolist(), depth[finished].tolist()
        found = self.tokens[finished].tolist()
        for owner, length, ids, is_tied in zip(
            owners, lengths, found, tied[finished].tolist(), strict=True
        ):
            yield Line(owner, ids[:length], bool(is_tied))
        writing[finished] = 0
        self.tokens[rows].scatter_(1, depth[:, None], chosen[:, None])
        last.copy_(torch.where(writing > 0, chosen, last))
        depth += writing

    def _longer(self, positions: int) -> None:
        longest = widened(max(positions, 3 * self.tokens.shape[1] // 2))
        self.tokens = _grown(self.tokens, (len(self.tokens), longest))
        self.keys = [_grown(room, (len(self.tokens), longest)) for room in self.keys]

    def _features(self, depth: Tensor, last: Tensor, longest: int) -> Tensor:
        """Run the decoder on the last token of each line."""
        size, stack = len(depth), self.passes.decoder
        longest = min(widened(longest), self.tokens.shape[1])
        places = torch.arange(longest, device=depth.device)
        ahead = (places > depth[:, None])[:, None]
        bias = torch.zeros(ahead.shape, device=depth.device).masked_fill_(ahead, -torch.inf)
        everyone = torch.arange(size, device=depth.device)
        width = widened(int(self.numbers["reads"][:size].max()))
        reads = self.bias[:size, :, :width]

        def attend(layer: int, projected: Tensor) -> Tensor:
            room, heads = self.keys[layer], stack.layers[layer].self_attn.num_heads
            own = room.shape[2] // 2
            room[everyone, depth] = projected[:, own:]
            keys, values = room[:size, :longest, :own], room[:size, :longest, own:]
            return single_attention(projected[:, :own], keys.transpose(1, 2), values, bias, heads)

        def cross(layer: int, queries: Tensor) -> Tensor:
            keys, values = self.source_keys[layer], self.source_values[layer]
            heads = stack.layers[layer].encoder_attn.num_heads
            return single_attention(
                queries, keys[:size, :, :width], values[:size, :width], reads, heads
            )

        gates = {site: rows[:size] for site, rows in self.gates.items()}
        handler = Gating(gates, self.filling) if gates else None
        return stack.run(stack.embed(last, depth), attend, cross, handler)


def _grown(rows: Tensor, shape: Sequence[int]) -> Tensor:
    """Enlarge the first dimensions; what is new is zero."""
    grown = rows.new_zeros((*shape, *rows.shape[len(shape) :]))
    grown[tuple(map(slice, rows.shape))] = rows
    return grown
