"""Beam search that computes only those prefixes that no one has computed yet.

A search asks for the continuations of prefixes. Under a mask it mostly asks for the prefixes that
the whole model's search asked for, so these are computed beforehand, all in one pass (`Known`).
Whatever else the search asks for is computed when it does, step by step, from the keys and values
of the prefix's beginning. The search itself is the same, so its result is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headtool.attention.gating import Handler
from headtool.models.fairseq.beam import BeamSearch
from headtool.models.fairseq.prefix_tree import PrefixTree, Visits
from headtool.models.fairseq.scoring import ContinuationScorer
from headtool.models.fairseq.source import Source
from headtool.models.fairseq.stack import DecoderStack

__all__ = ["Known", "Memory", "Writer", "search_lazily"]

_SLACK = 0.5  # nats by which a prefix may miss being useful to the whole model and still be kept


class Memory:
    """Keys and values of computed prefixes, layer by layer, that grow as searches go on.

    Parameters
    ----------
    stores
        Per layer, ``[X, 2 E]``, keys first.
    starts
        Per layer, how many rows hold what is known from the start; the others are room.
    bases
        Per layer and search, where the known nodes of its tree begin; none where nothing is known.
    """

    def __init__(
        self, stores: list[Tensor], starts: list[int], bases: Sequence[Tensor] = ()
    ) -> None:
        self.stores, self.starts, self.bases = stores, starts, bases
        self.new = 0

    def grow(self, count: int) -> int:
        """Make room for prefixes; the number of the first."""
        first, self.new = self.new, self.new + count
        for layer, (store, start) in enumerate(zip(self.stores, self.starts, strict=True)):
            if len(store) < start + self.new:
                room = store.new_empty((max(1024, self.new), store.shape[1]))
                self.stores[layer] = torch.cat([store, room])
        return first


@dataclass(frozen=True)
class Known:
    """What is known of the prefixes in a tree under the masks of some searches.

    Attributes
    ----------
    tree
        The tree.
    values, tokens
        Best continuations of every node for every search, [Y, C].
    begins
        The row of the first node of each search, [P].
    """

    tree: PrefixTree
    values: Tensor
    tokens: Tensor
    begins: Tensor


@dataclass(frozen=True)
class Writer:
    """What P searches compute prefixes with.

    Attributes
    ----------
    stack, vocabulary
        The decoder.
    source
        What it reads.
    memory
        Keys and values of known prefixes; new ones are added.
    gate
        Makes the handler for rows that belong to some of the searches.
    start
        The symbol before the first.
    sentence, source_row
        Per search: the number of its sentence in the tree, and of its row in `source`; [P].
    known
        What is known beforehand.
    """

    stack: DecoderStack
    vocabulary: ContinuationScorer
    source: Source
    memory: Memory
    gate: Callable[[Tensor], Handler | None]
    start: int
    sentence: Tensor
    source_row: Tensor
    known: Known | None = None

    @property
    def recorded(self) -> int:
        """Codes of prefixes below this are nodes of the tree; the others are in the memory."""
        return self.known.tree.nodes if self.known else 0


def search_lazily(search: BeamSearch, writer: Writer, visits: Visits | None = None) -> None:
    """Run searches side by side to their end.

    Parameters
    ----------
    search
        The searches.
    writer
        What they compute prefixes with.
    visits
        Takes note of every prefix that is computed.
    """
    sentence, known, recorded = writer.sentence, writer.known, writer.recorded
    device = sentence.device
    codes = torch.full(search.scores.shape, 0 if known else -1, device=device)
    beginnings = torch.zeros((*codes.shape, 0), dtype=torch.long, device=device)
    while len(search.ids):
        ids = search.ids
        missing = codes < 0
        if known is None:
            shape = (*codes.shape, writer.vocabulary.count)
            values = torch.full(shape, -torch.inf, device=device, dtype=torch.float32)
            tokens = torch.zeros(shape, dtype=torch.long, device=device)
        else:
            place = known.begins[ids][:, None] + codes.clamp(min=0)
            values, tokens = known.values[place], known.tokens[place]
        wanted = search.needed(values, tokens, missing)
        values.masked_fill_(missing[:, :, None], -torch.inf)
        rows = wanted.nonzero(as_tuple=True)
        if len(rows[0]):
            last = torch.full_like(rows[0], writer.start)
            if search.step_number:
                last = search.paths[rows][:, -1]
            first = recorded + writer.memory.grow(len(last))
            fresh = _Fresh(ids[rows[0]], beginnings[rows], last, first)
            values[rows], tokens[rows] = _compute(writer, fresh)
            codes[rows] = fresh.codes
            if visits is not None:
                useful = search.useful(values, tokens, _SLACK)[rows]
                _note(visits, fresh, sentence, useful)
        step = search.step(values, tokens)
        parents = codes[step.going].gather(1, step.parents)
        longer = step.parents[:, :, None].expand(-1, -1, beginnings.shape[2])
        beginnings = torch.cat(
            [beginnings[step.going].gather(1, longer), parents[:, :, None]], dim=2
        )
        codes = torch.full_like(parents, -1)
        if known is not None:
            numbers = sentence[search.ids][:, None].expand_as(parents)
            found = known.tree.child(numbers, parents.clamp(0, recorded - 1), step.tokens)
            codes = torch.where(parents < recorded, found, -1)


@dataclass(frozen=True)
class _Fresh:
    """Prefixes of one length that must be computed.

    Attributes
    ----------
    owner
        The search of each, [R].
    beginnings
        Codes of the shorter prefixes that each goes through, [R, T]: below the number of the
        tree's nodes, a node; else a prefix in the memory.
    tokens
        Their last symbols, [R].
    first
        Code of the first one; the others follow.
    """

    owner: Tensor
    beginnings: Tensor
    tokens: Tensor
    first: int

    @property
    def codes(self) -> Tensor:
        """Their own codes, [R]."""
        return torch.arange(self.first, self.first + len(self.owner), device=self.owner.device)


def _compute(writer: Writer, fresh: _Fresh) -> tuple[Tensor, Tensor]:
    """Compute prefixes; their best continuations."""
    stack, memory, known = writer.stack, writer.memory, writer.known
    own = fresh.codes
    paths = torch.cat([fresh.beginnings, own[:, None]], dim=1)
    is_new = paths >= writer.recorded
    # Prefixes of one search follow each other, and read one source.
    begins = torch.ones_like(own, dtype=torch.bool)
    begins[1:] = fresh.owner[1:] != fresh.owner[:-1]
    firsts, group = begins.nonzero().squeeze(1), begins.cumsum(dim=0) - 1
    place = torch.arange(len(own), device=own.device) - firsts[group]
    sources, most = writer.source_row[fresh.owner[firsts]], int(place.max()) + 1
    cells = group * most + place

    def attend(layer: int, projected: Tensor) -> Tensor:
        store, shift = memory.stores[layer], memory.starts[layer] - writer.recorded
        width = store.shape[1]
        store[fresh.first + shift : fresh.first + shift + len(own)] = projected[:, -width:]
        index = paths + shift
        if known is not None:
            index = torch.where(is_new, index, memory.bases[layer][fresh.owner][:, None] + paths)
        heads = stack.layers[layer].self_attn.num_heads
        both = store.index_select(0, index.flatten()).view(*index.shape, 2, heads, -1)
        queries = projected[:, :-width].view(len(own), 1, heads, -1)
        weights = (both[:, :, 0] * queries).sum(dim=3, keepdim=True).softmax(dim=1)
        return (both[:, :, 1] * weights).sum(dim=1).flatten(1)

    def cross(layer: int, queries: Tensor) -> Tensor:
        if most == 1:
            return writer.source.attend(layer, queries[:, None], sources)[:, 0]
        grids = queries.new_zeros((len(firsts) * most, queries.shape[1]))
        grids = grids.index_copy_(0, cells, queries).view(len(firsts), most, -1)
        found = writer.source.attend(layer, grids, sources)
        return found.flatten(0, 1).index_select(0, cells)

    depth = torch.full_like(own, fresh.beginnings.shape[1])
    x = stack.embed(fresh.tokens, depth)
    features = stack.run(x, attend, cross, writer.gate(fresh.owner))
    return writer.vocabulary.best(features, depth)


def _note(visits: Visits, fresh: _Fresh, sentence: Tensor, useful: Tensor) -> None:
    depth = fresh.beginnings.shape[1]
    parent = fresh.beginnings[:, -1] if depth else torch.full_like(fresh.tokens, -1)
    visits.sentence.append(sentence[fresh.owner].cpu().numpy())
    visits.parent.append(parent.cpu().numpy())
    visits.token.append(fresh.tokens.cpu().numpy())
    visits.depth.append(torch.full_like(fresh.tokens, depth).cpu().numpy())
    visits.useful.append(useful.cpu().numpy())
