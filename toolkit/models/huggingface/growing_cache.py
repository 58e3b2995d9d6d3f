"""Keys and values of many rows that grow by one token at a time, written where there is room."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache, DynamicLayer

__all__ = ["GrowingCache", "Layers"]

Layers = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, [R, heads, T, D] each."""

_ROOM = 32  # columns that are added at a time


class _GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer; transformers' own copies all of it to add a token."""

    keys: Tensor
    values: Tensor

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True
        self.count = keys.shape[2]
        self.held = [keys, values]
        self._show()

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the token of each row."""
        if self.count == self.held[0].shape[2]:
            self.held = [nn.functional.pad(one, (0, 0, 0, _ROOM)) for one in self.held]
        for one, new in zip(self.held, (key_states, value_states), strict=True):
            one[:, :, self.count] = new[:, :, 0]
        self.count += 1
        self._show()
        return self.keys, self.values

    def take(self, places: Tensor) -> None:
        """Continue other rows, or rows more than once."""
        self.held = [one[places] for one in self.held]
        self._show()

    def cut(self, rows: int) -> None:
        """Leave out what is behind the first rows."""
        self.held = [one[:rows] for one in self.held]
        self._show()

    def reorder(self, places: Tensor, first: int) -> None:
        """Take the columns from the first on from other rows."""
        for one in self.held:
            one[:, :, first : self.count] = one[places, :, first : self.count]

    def join(self, stay: Tensor, new: tuple[Tensor, Tensor]) -> None:
        """Keep some rows, and append others of as many columns."""
        held = []
        for one, more in zip(self.held, new, strict=True):
            both = one.new_empty((len(stay) + len(more), *one.shape[1:]))
            torch.index_select(one, 0, stay, out=both[: len(stay)])
            both[len(stay) :, :, : self.count] = more
            held.append(both)
        self.held = held
        self._show()

    def _show(self) -> None:
        self.keys, self.values = (one[:, :, : self.count] for one in self.held)


class GrowingCache(DynamicCache):
    """What R rows have read, each from a common column on its own.

    Parameters
    ----------
    layers
        Keys and values of each layer, [P, heads, T, D] each; they may be written to.
    """

    def __init__(self, layers: Layers) -> None:
        super().__init__()
        self.growing = [_GrowingLayer(keys, values) for keys, values in layers]
        self.layers = [*self.growing]
        self.shared = layers[0][0].shape[2]
        self.origins = torch.arange(len(layers[0][0]), device=layers[0][0].device)

    def continued(self, places: Tensor) -> None:
        """Continue some of the rows.

        Parameters
        ----------
        places
            Row that each of the rows to come continues, [R].
        """
        count = len(places)
        origins = self.origins[places]
        same = torch.arange(count, device=places.device)
        if torch.equal(places, same):
            if count < len(self.origins):
                for layer in self.growing:
                    layer.cut(count)
        elif torch.equal(origins, self.origins):
            for layer in self.growing:  # what was there in the beginning is the same
                layer.reorder(places, self.shared)
        else:
            for layer in self.growing:
                layer.take(places)
        self.origins = origins

    def joined(self, stay: Tensor, layers: Layers) -> None:
        """Keep some of the rows, and append others.

        Parameters
        ----------
        stay
            The rows that are kept.
        layers
            Keys and values of what the others have read, as many tokens; of each layer.
        """
        for layer, new in zip(self.growing, layers, strict=True):
            layer.join(stay, new)
        self.shared = layers[0][0].shape[2]
        self.origins = torch.arange(len(stay) + len(layers[0][0]), device=stay.device)
