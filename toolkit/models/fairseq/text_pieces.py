"""Tokens of fairseq's language models."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from headtool.heads import Kind
from headtool.models.examples import Batch, Row
from headtool.models.fairseq.pieces import WORDWISE
from headtool.models.fairseq.text_network import UNSCORED, FairseqTextNetwork
from headtool.models.pieces import Cut, Pieces, align, unmarked

__all__ = ["FairseqTextPieces"]


class FairseqTextPieces(Pieces[FairseqTextNetwork]):
    """Tokens of a fairseq language model; see `Pieces`."""

    def __init__(self, model: FairseqTextNetwork) -> None:
        self.model = model
        self.max_length = model.max_length
        self.wordwise = model.bpe.name in WORDWISE
        self.unknown = int(model.dictionary.unk())
        self.prefix = (model.start,)

    def ids(self, batch: Batch, kind: Kind) -> Tensor:
        """Return token ids, [B, T]; see `Pieces.ids`."""
        return batch.inputs["src_tokens"]

    def special(self, kind: Kind) -> list[int]:
        """Return the ids of special tokens; see `Pieces.special`."""
        return [int(one) for one in self.model.special_ids().tolist()]

    def surface(self, token: int, kind: Kind) -> str:
        """Return what a token stands for; see `Pieces.surface`."""
        return self._surface(str(self.model.dictionary[token]))

    def _surface(self, symbol: str) -> str:
        if self.model.bpe.name == "gpt2" and symbol.isdecimal():  # symbols are numbers of pieces
            return self.model.bpe.decode(symbol).strip()
        return unmarked(symbol)

    def size(self, kind: Kind) -> int:
        """Return how many ids there are; see `Pieces.size`."""
        return len(self.model.dictionary)

    def numbers(self, symbols: Sequence[str], kind: Kind) -> list[int]:
        """Return the ids of symbols; see `Pieces.numbers`."""
        known = self.model.dictionary.indices
        return [known.get(symbol, -1) for symbol in symbols]

    def unmasked(self, row: Row) -> Row:
        """Take masked tokens from the targets; see `Pieces.unmasked`."""
        if self.model.task != "masked-lm":
            return row
        pairs = zip(row["tokens"], row["targets"], strict=True)
        return {**row, "tokens": [t if label == UNSCORED else label for t, label in pairs]}

    def row(self, ids: Sequence[int]) -> Row:
        """Return an example of these ids; see `Pieces.row`."""
        row: dict[str, object] = {"tokens": list(ids)}
        task = self.model.task
        if task in ("classification", "regression"):
            row["target"] = 0 if task == "classification" else 0.0
        elif task == "causal-lm":
            row["targets"] = [*list(ids)[1:], self.model.dictionary.eos()]
        else:
            row["targets"] = [UNSCORED] * len(row["tokens"])  # type: ignore[arg-type]
        return row

    def cut(self, text: str) -> Cut | None:
        """Return a text as the model reads it; see `Pieces.cut`."""
        symbols = self.model.bpe.encode(text).split()
        spans = align([self._surface(symbol) for symbol in symbols], text)
        if spans is None:
            return None
        dictionary = self.model.dictionary
        ids = [self.model.start, *map(dictionary.index, symbols)]
        whole = [(0, 0), *spans]
        if self.model.design.family == "roberta":
            ids.append(dictionary.eos())
            whole.append((0, 0))
        return Cut(self.row(ids), tuple(ids), tuple(whole))
