"""Translations of fairseq models, as ``fairseq-generate`` searches them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from headtool.models.base import Batch, Row
from headtool.models.fairseq import FairseqModel
from headtool.models.generation import Generator, Search

__all__ = ["FairseqGenerator"]

_BEAM, _LENGTH_PENALTY, _MAX_LENGTH = 5, 1.0, 201  # fairseq-generate: --max-len-b 200, and the end


class FairseqGenerator(Generator):
    """Decodes with a fairseq model."""

    def __init__(self, model: FairseqModel, search: Search) -> None:
        self.model = model
        longest = int(cast(Any, model.module).max_decoder_positions())
        self.search = Search(
            search.beam or _BEAM,
            _LENGTH_PENALTY if search.length_penalty is None else search.length_penalty,
            min(search.max_length or _MAX_LENGTH, longest),
        )

    def source_length(self, row: Row) -> int:
        """Symbols of the source, end-of-sentence included."""
        return len(row["source"])

    def decode(self, batch: Batch) -> list[list[int]]:
        """Return the best hypotheses without their end-of-sentence."""
        from fairseq.sequence_generator import SequenceGenerator

        assert self.search.beam
        assert self.search.max_length
        generator = SequenceGenerator(
            [self.model.module],
            self.model.target_dictionary,
            beam_size=self.search.beam,
            len_penalty=self.search.length_penalty,
            max_len_a=0,
            max_len_b=self.search.max_length - 1,
        )
        sources = {name: batch.inputs[name] for name in ("src_tokens", "src_lengths")}
        finished = generator.generate([self.model.module], {"net_input": sources})
        return [best[0]["tokens"].tolist()[:-1] for best in finished]

    def texts(self, hypotheses: Sequence[Sequence[int]]) -> list[str]:
        """Join symbols and undo the segmentation."""
        import torch

        dictionary = self.model.target_dictionary
        return [
            self.model.bpe.decode(dictionary.string(torch.tensor(ids, dtype=torch.long)))
            for ids in hypotheses
        ]
