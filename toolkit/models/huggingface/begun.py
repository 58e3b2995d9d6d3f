"""Greedy searches that have begun: a search joins when the others have written as much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headtool.models.huggingface.encodings import Encodings
from headtool.models.huggingface.growing_cache import GrowingCache, Layers
from headtool.models.huggingface.plans import Plan
from headtool.models.huggingface.shared_search import Best
from headtool.models.huggingface.source_reader import best_after

__all__ = ["Begun", "BegunReader", "reading", "rows_of"]


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
            As for `Reader.go_on`.
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
        crossing = rows_of(self.begun.crossed, new)
        if len(stay):
            crossing = _joined([rows_of(self.crossed, stay), crossing])
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


def rows_of(layers: Layers, index: Tensor) -> Layers:
    """Take rows of keys and values.

    Parameters
    ----------
    layers
        Those of each layer.
    index
        Numbers of the rows.
    """
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
