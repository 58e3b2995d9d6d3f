"""What masked models compute on the prefixes that the whole model's search went through.

All masks run side by side, layer by layer. Up to the first site that a mask touches its states are
those of the whole model, so that it joins the others there: the rows grow as the pass goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headtool.attention.gating import Gating
from headtool.heads import AttentionSite
from headtool.models.fairseq.grids import Grid
from headtool.models.fairseq.passes import Begin, Encoded, Passes, attend_within, source_bias
from headtool.models.fairseq.prefix_tree import PrefixTree
from headtool.models.fairseq.shortlist import Shortlist
from headtool.models.fairseq.source import Source, widened
from headtool.models.fairseq.stack import Trace
from headtool.models.generation import Filling, Gates

__all__ = ["MaskOrder", "Recorded", "Verified", "blocks", "verify"]


@dataclass(frozen=True)
class Recorded:
    """Some sentences of a batch, and what the whole model left behind on them.

    Attributes
    ----------
    sentences
        Their places in the batch, [B].
    lengths
        Symbols of each source.
    tree
        The prefixes that the whole model's search found useful, X of them.
    source
        What the whole model's decoder reads.
    trace
        Residuals and heads' outputs of each site, sentence after sentence.
    keys
        Keys and values of each layer, [X, 2 E].
    shortlist
        Its favourite continuations.
    """

    sentences: Tensor
    lengths: Sequence[int]
    tree: PrefixTree
    source: Source
    trace: Trace
    keys: list[Tensor]
    shortlist: Shortlist

    @classmethod
    def of(
        cls,
        passes: Passes,
        encoded: Encoded,
        sentences: Tensor,
        tree: PrefixTree,
        look: Callable[[Tensor, Tensor], Shortlist],
    ) -> Recorded:
        """Run the whole model on a tree of prefixes.

        Parameters
        ----------
        passes
            The model.
        encoded
            The sources of the batch.
        sentences
            Places of the tree's sentences in the batch.
        tree
            The tree.
        look
            Makes the shortlist of features [X, E] at positions [X].
        """
        own = encoded.some(sentences)
        keys: list[Tensor] = []
        features = passes.decode(tree, own.source, keys, own.trace)
        return cls(
            sentences,
            own.lengths.tolist(),
            tree,
            own.source,
            own.trace,
            keys,
            look(features, tree.depth),
        )


class MaskOrder:
    """M masks in the order in which they begin to matter.

    Parameters
    ----------
    passes
        The model.
    masks
        The masks, none of which leaves all heads open.
    filling
        What closed heads put out; None for zero.

    Attributes
    ----------
    order
        Numbers of the masks.
    begins
        Where they begin to matter.
    gates
        Gates [M, H] of every site that any of them gates.
    """

    def __init__(self, passes: Passes, masks: Sequence[Gates], filling: Filling) -> None:
        places = [passes.begin(gates) for gates in masks]
        self.order = sorted(range(len(masks)), key=places.__getitem__)
        self.begins = [places[number] for number in self.order]
        self.filling = filling
        self.gates: dict[AttentionSite, Tensor] = {}
        self._first: dict[AttentionSite, int] = {}
        chosen = [masks[number] for number in self.order]
        for site in [*passes.encoder.sites, *passes.decoder_sites]:
            using = [row for row, gates in enumerate(chosen) if site in gates]
            if using:
                like = chosen[using[0]][site]
                self.gates[site] = torch.stack(
                    [gates.get(site, torch.ones_like(like)) for gates in chosen]
                )
                self._first[site] = using[0]

    def __len__(self) -> int:
        return len(self.order)

    @property
    def in_encoder(self) -> int:
        """How many begin in the encoder; they are the first."""
        return sum(not begin.in_decoder for begin in self.begins)

    def joining(self, begin: Begin) -> int:
        """How many begin at a place."""
        return self.begins.count(begin)

    def shared_to(self, row: int) -> int:
        """The last layer of the decoder whose keys and values are the whole model's."""
        return self.begins[row].decoder_layer

    def close(self, site: AttentionSite, contexts: Tensor, masks: range) -> None:
        """Gate the heads' outputs [masks * R, E] under some of the masks, in place.

        Parameters
        ----------
        site
            Where they are.
        contexts
            The outputs.
        masks
            Which of the masks the rows are of.
        """
        first = max(self._first.get(site, len(self)), masks.start)
        if first < masks.stop:
            each = len(contexts) // len(masks)
            part = contexts[(first - masks.start) * each :]
            rows = self.gates[site][first : masks.stop].repeat_interleave(each, dim=0)
            per_head = part.view(len(part), 1, site.n_heads, site.head_dim)
            changed = Gating({site: rows}, self.filling)(site, per_head)
            assert changed is not None
            part.copy_(changed.view(part.shape))


@dataclass(frozen=True)
class Verified:
    """What masks make of the prefixes of B sentences, R in all.

    Attributes
    ----------
    grid
        How the prefixes of a sentence are laid out.
    features
        What the decoder puts out, [M * R, E].
    keys
        Keys and values of each layer under the masks for which they are not the whole model's,
        which are the first ones: [masks * B, width, 2 E].
    source
        What the decoder reads under masks of the encoder, a row for each of them and sentence;
        None if there are none.
    """

    grid: Grid
    features: Tensor
    keys: list[Tensor]
    source: Source | None


def verify(passes: Passes, known: Recorded, masks: MaskOrder, sentences: slice) -> Verified:
    """Run masks on the prefixes of some sentences.

    Parameters
    ----------
    passes
        The model.
    known
        What the whole model left behind.
    masks
        The masks.
    sentences
        Which sentences.
    """
    source = _encode(passes, known, masks, sentences) if masks.in_encoder else None
    first = int(known.tree.begins[sentences.start])
    grid = Grid(known.tree.sizes[sentences].tolist(), known.tree.tokens.device)
    rows = slice(first, first + grid.rows)
    whole = known.source.some(sentences).trimmed(widened(max(known.lengths[sentences])))
    bias = known.tree.bias_of(sentences, grid)
    if len(bias) > 1:
        bias = bias.repeat(len(masks), 1, 1, 1)
    active, state = 0, known.keys[0].new_empty(0)
    keys: list[Tensor] = []

    def join(site: AttentionSite, contexts: Tensor | None, place: int) -> Tensor:
        """Let masks join that begin at a site, and gate the heads."""
        nonlocal active, state
        count = masks.joining(Begin(True, place))
        if place == 0:
            count += masks.in_encoder - early
        residual, outputs = (part[rows] for part in known.trace.at[site])
        state = _more(state if active else None, residual, count)
        contexts = _more(contexts, outputs, count)
        active += count
        absent = early if place == 0 else 0
        masks.close(site, contexts, range(absent, absent + active))
        return contexts

    # The first self-attention does not read the source: masks of the encoder join after it.
    decoder, in_encoder = passes.decoder, masks.in_encoder
    early = 0 if _touches(masks, passes.decoder_sites[0], in_encoder) else in_encoder
    for number in range(len(decoder.layers)):
        contexts = None
        if active:
            heads = decoder.layers[number].self_attn.num_heads
            own = bias[: active * grid.batch]
            projected = decoder.projected(number, state)
            contexts, both = attend_within(projected, grid, heads, own, active)
            keys.append(both)
        else:
            keys.append(state)
        contexts = join(decoder.self_sites[number], contexts, 2 * number)
        if active:
            state = decoder.leave(number, False, state, contexts)
        if number == 0 and early:
            residual = known.trace.at[decoder.cross_sites[0]][0][rows]
            later = [state] if active else []
            state, active = torch.cat([residual] * early + later), active + early
        contexts = None
        if active:
            contexts = _read(decoder.queries(number, state), number, grid, active, whole, source)
        contexts = join(decoder.cross_sites[number], contexts, 2 * number + 1)
        if active:
            state = decoder.feed_forward(number, decoder.leave(number, True, state, contexts))
    return Verified(grid, decoder.finish(state), keys, source)


def _encode(passes: Passes, known: Recorded, masks: MaskOrder, sentences: slice) -> Source:
    """Run the encoder's masks on the sources of some sentences."""
    encoder = passes.encoder
    first = sum(known.lengths[: sentences.start])
    grid = Grid(known.lengths[sentences], known.tree.tokens.device)
    rows, bias = slice(first, first + grid.rows), source_bias(grid)
    state, active = known.keys[0].new_empty(0), 0
    for number, site in enumerate(encoder.sites):
        contexts = None
        if active:
            projected = encoder.projected(number, state)
            own = bias.repeat(active, 1, 1, 1)
            contexts = passes.attend_encoder(number, projected, grid, own, active)
        count = masks.joining(Begin(False, number))
        residual, outputs = (part[rows] for part in known.trace.at[site])
        state = _more(state if active else None, residual, count)
        contexts = _more(contexts, outputs, count)
        active += count
        if active:
            masks.close(site, contexts, range(active))
            state = encoder.leave(number, state, contexts)
    return passes.source(encoder.finish(state), grid, active)


def _read(
    queries: Tensor, number: int, grid: Grid, masks: int, whole: Source, source: Source | None
) -> Tensor:
    """Attend to the source: the first masks each to their own, the others to the whole model's."""
    parts, own = [], 0
    if source is not None:
        own = len(source.bias) // grid.batch
        found = source.attend(number, grid.spread(queries[: own * grid.rows], own))
        parts.append(grid.gathered(found, own))
    if masks > own:
        others = grid.spread_by_sequence(queries[own * grid.rows :], masks - own)
        parts.append(grid.gathered_by_sequence(whole.attend(number, others), masks - own))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _more(rows: Tensor | None, whole: Tensor, count: int) -> Tensor:
    """Append the whole model's rows so many times; what comes back is no view of them."""
    if rows is None:
        return torch.cat([whole] * count) if count else whole[:0]
    return torch.cat([rows, *([whole] * count)]) if count else rows


def _touches(masks: MaskOrder, site: AttentionSite, count: int) -> bool:
    """Whether any of the first masks gates a site."""
    gates = masks.gates.get(site)
    return gates is not None and bool((gates[:count] != 1).any())


def blocks(sizes: Sequence[int], rows: int, *, similar: bool = False) -> Iterator[slice]:
    """Cut sentences, in order of their sizes, into blocks of at most so many rows.

    Parameters
    ----------
    sizes
        How many rows each sentence has.
    rows
        Most rows of a block; one sentence may have more.
    similar
        Whether a block may hold sentences of several sizes; else it does only if small.
    """
    first = total = 0
    for end, size in enumerate(sizes):
        other = size != sizes[first] and total > rows // 4 and not similar
        if end > first and (total + size > rows or other):
            yield slice(first, end)
            first, total = end, 0
        total += size
    yield slice(first, len(sizes))
