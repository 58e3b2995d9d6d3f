"""Searching translations and continuations: what all libraries have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from torch import Tensor

from headtool.attention.gating import Gating, Handler
from headtool.heads import AttentionSite
from headtool.models.examples import Batch, Row
from headtool.searching import Search

__all__ = ["Filling", "Gates", "Generator"]

Gates = Mapping[AttentionSite, Tensor]
"""Gates [H] of the sites where a mask closes any head."""

Filling = Mapping[AttentionSite, Tensor] | None
"""What closed heads put out instead of zero."""


class _Model(Protocol):
    """What decoding under masks needs of a model."""

    def intercept(self, handler: Handler, batch: Batch) -> AbstractContextManager[None]:
        """Let `handler` see and change the heads' outputs; see `ModelAdapter.intercept`."""
        ...


class Generator(ABC):
    """Decodes sentences with one model and one way to search.

    Attributes
    ----------
    model
        The model.
    search
        The settings, every field filled in; only `max_length` is None where the model limits
        prompt and continuation together.
    """

    model: _Model
    search: Search

    @abstractmethod
    def source_length(self, row: Row) -> int:
        """Tokens of an example's source side, or of its prompt with the answer."""

    @abstractmethod
    def decode(self, batch: Batch) -> list[list[int]]:
        """Return the best hypothesis of each sentence as token ids."""

    def decode_masks(
        self, batch: Batch, masks: Sequence[Gates], filling: Filling
    ) -> list[list[list[int]]]:
        """Decode with all heads open and under each mask.

        Parameters
        ----------
        batch
            B sentences.
        masks
            Gates of each mask; an empty mapping leaves all heads open.
        filling
            What closed heads put out; None for zero.

        Returns
        -------
        list
            What `decode` returns, [1 + masks, B]: all heads open first.
        """
        rows = [self.decode(batch)]
        for gates in masks:
            with self.model.intercept(Gating(gates, filling), batch):
                rows.append(self.decode(batch))
        return rows

    @abstractmethod
    def texts(self, hypotheses: Sequence[Sequence[int]]) -> list[str]:
        """Detokenise hypotheses."""
