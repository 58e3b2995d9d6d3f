"""Searching translations: what both libraries have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor

from headtool.attention.gating import Gating
from headtool.heads import AttentionSite
from headtool.models.base import Batch, ModelAdapter, Row
from headtool.searching import Search

__all__ = ["Filling", "Gates", "Generator"]

Gates = Mapping[AttentionSite, Tensor]
"""Gates [H] of the sites where a mask closes any head."""

Filling = Mapping[AttentionSite, Tensor] | None
"""What closed heads put out instead of zero."""


class Generator(ABC):
    """Decodes sentences with one model and one way to search.

    Attributes
    ----------
    model
        The model.
    search
        The settings, every field filled in.
    """

    model: ModelAdapter
    search: Search

    @abstractmethod
    def source_length(self, row: Row) -> int:
        """Tokens of an example's source side."""

    @abstractmethod
    def decode(self, batch: Batch) -> list[list[int]]:
        """Return the best hypothesis of each sentence as token ids."""

    def decode_masks(
        self, batch: Batch, masks: Sequence[Gates], filling: Filling
    ) -> list[list[list[int]]]:
        """Return what `decode` does with all heads open and under each mask, [1 + masks, B]."""
        rows = [self.decode(batch)]
        for gates in masks:
            with self.model.intercept(Gating(gates, filling), batch):
                rows.append(self.decode(batch))
        return rows

    @abstractmethod
    def texts(self, hypotheses: Sequence[Sequence[int]]) -> list[str]:
        """Detokenise hypotheses."""
