"""Translations of transformers models, as ``generate`` searches them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from headtool.models.base import Batch, Row
from headtool.models.generation import Generator, Search
from headtool.models.huggingface import HuggingFaceModel

__all__ = ["HuggingFaceGenerator"]


class HuggingFaceGenerator(Generator):
    """Decodes with a transformers model and its own generation settings."""

    def __init__(self, model: HuggingFaceModel, search: Search) -> None:
        self.model = model
        settings = cast(Any, model.module).generation_config
        longest = settings.max_new_tokens or (settings.max_length or 21) - 1
        self.search = Search(
            search.beam or settings.num_beams or 1,
            search.length_penalty
            if search.length_penalty is not None
            else float(settings.length_penalty or 1.0),
            search.max_length or longest,
        )

    def source_length(self, row: Row) -> int:
        """Tokens of the source, special ones included."""
        return len(row["input_ids"])

    def decode(self, batch: Batch) -> list[list[int]]:
        """Return the best hypotheses as generated, without padding."""
        sources = {k: v for k, v in batch.inputs.items() if not k.startswith("decoder")}
        options: dict[str, Any] = {"num_beams": self.search.beam}
        if self.search.beam and self.search.beam > 1:
            options["length_penalty"] = self.search.length_penalty
        generated = cast(Any, self.model.module).generate(
            **sources, **options, max_new_tokens=self.search.max_length
        )
        return [ids[1:] for ids in generated.tolist()]

    def texts(self, hypotheses: Sequence[Sequence[int]]) -> list[str]:
        """Decode without the special tokens."""
        return list(
            self.model.tokenizer.batch_decode(
                [list(ids) for ids in hypotheses], skip_special_tokens=True
            )
        )
