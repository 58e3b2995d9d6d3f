"""Tokens of fairseq models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor

from headtool.heads import Kind
from headtool.models.examples import Batch, Row
from headtool.models.fairseq.network import FairseqNetwork
from headtool.models.pieces import Cut, Pieces, align, unmarked

__all__ = ["WORDWISE", "FairseqPieces"]

WORDWISE = ("none", "subword_nmt", "fastbpe")
"""Segmentations that want words, and not running text."""


class FairseqPieces(Pieces[FairseqNetwork]):
    """Tokens of a fairseq model; see `Pieces`."""

    def __init__(self, model: FairseqNetwork) -> None:
        self.model = model
        self.max_length = int(cast(Any, model.module).max_positions()[0])
        self.wordwise = model.bpe.name in WORDWISE
        self.unknown = int(model.source_dictionary.unk())

    def _dictionary(self, kind: Kind) -> Any:
        decoder = kind != "enc-self"
        return self.model.target_dictionary if decoder else self.model.source_dictionary

    def ids(self, batch: Batch, kind: Kind) -> Tensor:
        """Return token ids, [B, T]; see `Pieces.ids`."""
        return batch.inputs["prev_output_tokens" if kind == "dec-self" else "src_tokens"]

    def special(self, kind: Kind) -> list[int]:
        """Return the ids of special tokens; see `Pieces.special`."""
        dictionary = self._dictionary(kind)
        return [i for i in range(dictionary.nspecial) if i != dictionary.unk()]

    def surface(self, token: int, kind: Kind) -> str:
        """Return what a token stands for; see `Pieces.surface`."""
        return unmarked(self._dictionary(kind)[token])

    def size(self, kind: Kind) -> int:
        """Return how many ids there are; see `Pieces.size`."""
        return len(self._dictionary(kind))

    def numbers(self, symbols: Sequence[str], kind: Kind) -> list[int]:
        """Return the ids of symbols; see `Pieces.numbers`."""
        known = self._dictionary(kind).indices
        return [known.get(symbol, -1) for symbol in symbols]

    def row(self, ids: Sequence[int]) -> Row:
        """Return an example of these ids; see `Pieces.row`."""
        return {"source": list(ids), "target": [self.model.target_dictionary.eos()]}

    def cut(self, text: str) -> Cut | None:
        """Return a text as the model reads it; see `Pieces.cut`."""
        symbols = self.model.bpe.encode(text).split()
        spans = align([unmarked(symbol) for symbol in symbols], text)
        if spans is None:
            return None
        dictionary = self.model.source_dictionary
        ids = [*map(dictionary.index, symbols), dictionary.eos()]
        return Cut(self.row(ids), tuple(ids), (*spans, (0, 0)))
