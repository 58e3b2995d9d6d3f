"""What the whole model wrote, read by the decoder under masks: how far each mask writes the same.

A masked pass starts at the first block that its mask changes. What is written otherwise goes on
from there, all of it side by side: a search joins when the others have written as much.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from headtool.attention.patching import answering
from headtool.models.generation import Gates
from headtool.models.huggingface.encodings import Encodings
from headtool.models.huggingface.growing_cache import GrowingCache
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.huggingface.plans import Plan
from headtool.models.huggingface.rows import blocks_of, taken
from headtool.models.huggingface.shared_search import Best
from headtool.models.huggingface.source_reader import best_after

__all__ = ["Begun", "BegunReader", "Drafts"]

Layers = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, [R, heads, T, D] each."""

_LOGITS = 2**25  # of one pass: 128 MB in float32

_TOKENS = 4_096  # of one pass


@dataclass(frozen=True)
class Begun:
    """Greedy searches of P pairs of a mask and a sentence that have written something.

    Attributes
    ----------
    owners, places
        Numbers of their masks, and of their sentences.
    texts, given
        What they have written, [P, n], and how many tokens that is, [P].
    read, crossed
        Keys and values of what they read of it, and of their sources.
    """

    owners: list[int]
    places: list[int]
    texts: Tensor
    given: Tensor
    read: Layers
    crossed: Layers

    @classmethod
    def together(cls, parts: Sequence[Begun]) -> Begun:
        """Put several side by side."""
        most = max(part.texts.shape[1] for part in parts)
        texts = [
            nn.functional.pad(part.texts, (0, most - part.texts.shape[1]), value=-1)
            for part in parts
        ]
        return cls(
            [owner for part in parts for owner in part.owners],
            [place for part in parts for place in part.places],
            torch.cat(texts),
            torch.cat([part.given for part in parts]),
            _joined([part.read for part in parts]),
            _joined([part.crossed for part in parts]),
        )

    @property
    def cells(self) -> int:
        """Numbers that are kept of what they read."""
        return sum(part.numel() for layer in (*self.read, *self.crossed) for part in layer)


class Drafts:
    """Reads what the whole model wrote of some sentences of a batch.

    Parameters
    ----------
    model
        The model.
    plan
        How to search.
    encodings
        The sources.
    written
        What the whole model wrote of each of B; or anything else that masks may write.
    """

    def __init__(
        self,
        model: HuggingFaceNetwork,
        plan: Plan,
        encodings: Encodings,
        written: Mapping[int, Sequence[int]],
    ) -> None:
        self.model, self.module, self.plan = model, cast(Any, model.module), plan
        self.encodings = encodings
        self.row = {place: row for row, place in enumerate(written)}
        self.lengths = torch.tensor(list(map(len, written.values())), device=model.device)
        self.count = max(1, int(self.lengths.max()))
        self.width = encodings.width(list(written))
        rows = [[*ids, *[-1] * (self.count - len(ids))] for ids in written.values()]
        self.tokens = torch.tensor(rows, device=model.device)
        real = torch.where(self.tokens < 0, model.pad_id, self.tokens)
        self.texts = torch.cat([plan.prompt[list(written)], real], dim=1)
        self.blocks = {**blocks_of(model, "dec-self"), **blocks_of(model, "cross")}
        self.outputs: dict[nn.Module, Any] = {}
        self.crossed: Layers = []
        with contextlib.ExitStack() as stack:
            for block in set(self.blocks.values()):
                stack.callback(block.register_forward_hook(self._keep).remove)
            logits, self.read, self.crossed = self._run(
                [{}], [0] * len(written), list(written), 0, 1
            )
        self.vocabulary = logits.shape[-1]
        self.order = {block: number for number, block in enumerate(self.outputs)}

    @property
    def at_once(self) -> int:
        """How many pairs to read in one pass."""
        width = self.texts.shape[1]
        return max(1, min(_LOGITS // (width * self.vocabulary), _TOKENS // width))

    def first(self, gates: Gates) -> int:
        """Return the number of the first block of the decoder that a mask changes."""
        if any(site.kind == "enc-self" for site in gates):
            return 0
        return min((self.order[self.blocks[site]] for site in gates if self.blocks), default=0)

    def accepted(
        self, masks: Sequence[Gates], owners: Sequence[int], places: Sequence[int]
    ) -> tuple[Tensor, Tensor, Begun]:
        """Read drafts under masks that change the same block first.

        Parameters
        ----------
        masks
            Gates of each mask.
        owners, places
            Numbers of R pairs' masks, and of their sentences.

        Returns
        -------
        accepted
            How many tokens of its draft each pair writes, [R].
        tied
            Where it is a tie what follows, [R].
        begun
            The others that do not write all of it.
        """
        index = self._index(places)
        logits, read, crossed = self._run(
            masks, owners, places, self.first(masks[owners[0]]), self.count
        )
        expected, lengths = self.tokens[index], self.lengths[index]
        values, tokens = self._ranked(self.texts[index], logits)
        close = values[..., 0] - values[..., 1] < self.plan.rule.tolerance
        off = (close | (tokens != expected)) & (expected >= 0)
        known = torch.where(off.any(dim=1), off.int().argmax(dim=1), lengths)
        at = known.clamp(max=self.count - 1)[:, None]
        tied = (off & close).gather(1, at).squeeze(1)
        rows = ((known < lengths) & ~tied).nonzero().squeeze(1)
        chosen = rows.tolist()
        texts = expected[rows].scatter(1, at[rows], tokens[rows].gather(1, at[rows]))
        below = len(self.read) - len(read)
        begun = Begun(
            [owners[row] for row in chosen],
            [places[row] for row in chosen],
            texts,
            known[rows] + 1,
            [*_rows(self.read[:below], index[rows]), *_rows(read, rows)],
            _rows(crossed, rows) if crossed else _rows(self.crossed, index[rows]),
        )
        return known, tied, begun

    def _index(self, places: Sequence[int]) -> Tensor:
        return torch.tensor([self.row[place] for place in places], device=self.model.device)

    def _keep(self, block: nn.Module, args: Any, output: Any) -> None:
        self.outputs[block] = output

    def _ranked(self, texts: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The two highest scores at each step, [R, count, 2], and the token of the first."""
        before = texts.shape[1] - self.count
        if self.plan.plain:
            values, tokens = best_after(self.plan, texts, logits.flatten(0, 1), 2)
            shape = (*logits.shape[:2], 2)
            return values.view(shape), tokens.view(shape)[..., 0]
        steps = [
            best_after(self.plan, texts[:, : before + step], logits[:, step], 2)
            for step in range(self.count)
        ]
        values, tokens = (torch.stack(part, dim=1) for part in zip(*steps, strict=True))
        return values, tokens[..., 0]

    def _run(
        self,
        masks: Sequence[Gates],
        owners: Sequence[int],
        places: Sequence[int],
        first: int,
        count: int,
    ) -> tuple[Tensor, Layers, Layers]:
        """Read drafts from a block on: the last logits [R, count, V], and what was read from there.

        Keys and values of the source are left out where they are the whole model's.
        """
        from transformers import DynamicCache, EncoderDecoderCache

        index = self._index(places)
        order = self.order.items() if first else ()
        own = not self.crossed or any(
            site.kind == "enc-self" for owner in set(owners) for site in masks[owner]
        )
        states = self.encodings.states(masks, owners, places) if own else None
        crossing = DynamicCache() if own else GrowingCache(_rows(self.crossed, index))
        cache: Any = EncoderDecoderCache(DynamicCache(), crossing)
        more = {"logits_to_keep": count} if self.module._supports_logits_to_keep() else {}
        with contextlib.ExitStack() as stack:
            for block, number in order:
                if number < first:
                    output = self.outputs[block]
                    known = taken(output, index, len(self.texts)) if number == first - 1 else output
                    stack.enter_context(answering(block, known))
            stack.enter_context(self.encodings.gated(masks, owners))
            out = self.module(
                decoder_input_ids=self.texts[index, :-1],
                use_cache=True,
                return_dict=True,
                past_key_values=cache,
                **reading(self.encodings, states, places, self.width),
                **more,
            )
        return (
            out.logits[:, -count:],
            _held(cache.self_attention_cache),
            (_held(cache.cross_attention_cache) if own else []),
        )


class BegunReader:
    """Reads for searches that have begun, from where each goes on; see `Reader`.

    Parameters
    ----------
    module
        The model.
    plan
        How to search.
    begun
        The P searches.
    encodings
        The sources.
    gate
        Gates the rows of a forward pass by the numbers of their searches.
    """

    def __init__(
        self,
        module: Any,
        plan: Plan,
        begun: Begun,
        encodings: Encodings,
        gate: Callable[[Tensor], AbstractContextManager[None]],
    ) -> None:
        self.module, self.plan, self.begun = module, plan, begun
        self.encodings, self.gate = encodings, gate
        self.places = torch.tensor(begun.places, device=begun.given.device)
        self.held = self.places[:0]  # searches that are read for, in the order of the cache
        self.cache: GrowingCache | None = None
        self.crossed: Layers = []

    def start(self, count: int) -> Best:
        """Return what is written first; see `Reader`.

        Parameters
        ----------
        count
            How many continuations.
        """
        return self._given(torch.arange(len(self.places), device=self.places.device), 0, count)

    def go_on(self, searches: Tensor, places: Tensor, written: Tensor, count: int) -> Best:
        """Read one more token where it is not known what follows; see `Reader`.

        Parameters
        ----------
        searches, places, written, count
            Searches that go on, rows that are continued, what is written, and how many
            continuations.
        """
        step = written.shape[1]
        values, tokens = self._given(searches, step, count)
        rows = (self.begun.given[searches] <= step).nonzero().squeeze(1)
        if len(rows):
            self._hold(searches[rows], step)
            rows = torch.searchsorted(searches, self.held)
            values[rows], tokens[rows] = self._read(written[rows], count)
        return values, tokens

    def _given(self, searches: Tensor, step: int, count: int) -> Best:
        """What is known to follow, as if it were certain."""
        texts = self.begun.texts
        values = torch.full((len(searches), count), -torch.inf, device=texts.device)
        values[:, 0] = 0.0
        column = min(step, texts.shape[1] - 1)  # behind the last, everything is read
        return values, texts[searches, column, None].expand(-1, count).clamp(min=0).clone()

    def _hold(self, searches: Tensor, step: int) -> None:
        """Let go of searches that are done, and take in those that go on from here."""
        stay = torch.isin(self.held, searches).nonzero().squeeze(1)
        new = searches[self.begun.given[searches] == step]
        if len(stay) == len(self.held) and not len(new):
            return
        before = self.begun.read[0][0].shape[2] - self.begun.texts.shape[1]
        joining = [
            (keys[new, :, : before + step], values[new, :, : before + step])
            for keys, values in self.begun.read
        ]
        crossing = _rows(self.begun.crossed, new)
        if len(stay):
            crossing = _joined([_rows(self.crossed, stay), crossing])
        if self.cache is None or not len(stay):
            self.cache = GrowingCache(joining)
        elif len(new):
            self.cache.joined(stay, joining)
        else:
            self.cache.continued(stay)
        self.crossed = crossing
        self.held = torch.cat([self.held[stay], new])

    def _read(self, written: Tensor, count: int) -> Best:
        from transformers import EncoderDecoderCache

        assert self.cache is not None
        places = self.places[self.held]
        cache: Any = EncoderDecoderCache(self.cache, GrowingCache(self.crossed))
        with self.gate(self.held):
            out = self.module(
                decoder_input_ids=written[:, -1:],
                use_cache=True,
                return_dict=True,
                past_key_values=cache,
                **reading(self.encodings, None, places.tolist(), self.crossed[0][0].shape[2]),
            )
        texts = torch.cat([self.plan.prompt[places], written], dim=1)
        return best_after(self.plan, texts, out.logits[:, -1], count)


def reading(
    encodings: Encodings, states: Tensor | None, places: Sequence[int], width: int
) -> dict[str, Any]:
    """What a pass of the decoder is given of its sources.

    Parameters
    ----------
    encodings
        The sources.
    states
        The encoder's states of the rows; None where their keys and values are known, so that only
        the shape is asked for.
    places
        Numbers of the rows' sentences.
    width
        Columns of the sources that are read; what is behind them is padding.
    """
    if states is None:
        like = encodings.whole
        states = like.new_zeros(1).expand(len(places), *like.shape[1:])
    real = encodings.inputs(places).get("attention_mask")
    return {
        "encoder_outputs": (states[:, :width],),
        "attention_mask": None if real is None else real[:, :width],
    }


def _rows(layers: Layers, index: Tensor) -> Layers:
    return [(keys[index], values[index]) for keys, values in layers]


def _joined(parts: Sequence[Layers]) -> Layers:
    """Rows of several, one after the other; the narrower ones are padded behind."""
    width = max(part[0][0].shape[2] for part in parts)

    def wide(side: Sequence[Tensor]) -> Tensor:
        return torch.cat([nn.functional.pad(one, (0, 0, 0, width - one.shape[2])) for one in side])

    return [
        (wide([keys for keys, _ in same]), wide([values for _, values in same]))
        for same in zip(*parts, strict=True)
    ]


def _held(cache: Any) -> Layers:
    return [(layer.keys, layer.values) for layer in cache.layers if layer.is_initialized]
