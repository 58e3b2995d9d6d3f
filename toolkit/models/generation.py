"""Searching translations: what both libraries have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite
from headtool.models.base import Batch, ModelAdapter, Row
from headtool.models.gating import Gating

__all__ = ["Filling", "Gates", "Generator", "Search", "generator"]

Gates = Mapping[AttentionSite, Tensor]
"""Gates [H] of the sites where a mask closes any head."""

Filling = Mapping[AttentionSite, Tensor] | None
"""What closed heads put out instead of zero."""


@dataclass(frozen=True)
class Search:
    """How hypotheses are searched; None stands for the model's own setting.

    Attributes
    ----------
    beam
        Hypotheses kept at each step; 1 is greedy decoding.
    length_penalty
        Scores are divided by the length to the power of this.
    max_length
        Most tokens that are generated for a sentence, the end-of-sentence token included.
    """

    beam: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.beam is not None and self.beam < 1:
            raise HeadtoolError(f"--beam must be at least 1, got {self.beam}")
        if self.max_length is not None and self.max_length < 2:
            raise HeadtoolError(f"--max-length must be at least 2, got {self.max_length}")


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


def generator(model: ModelAdapter, search: Search) -> Generator:
    """Return what decodes with a model; its own settings fill what `search` leaves open."""
    from headtool.models.fairseq import FairseqModel
    from headtool.models.huggingface import HuggingFaceModel

    if isinstance(model, FairseqModel):
        from headtool.models.generation_fairseq import FairseqGenerator

        return FairseqGenerator(model, search)
    if isinstance(model, HuggingFaceModel):
        from headtool.models.generation_huggingface import HuggingFaceGenerator

        return HuggingFaceGenerator(model, search)
    raise TypeError(f"{type(model).__name__} has no generator")
