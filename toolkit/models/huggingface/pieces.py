"""Tokens of transformers models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor

from headtool.heads import Kind
from headtool.models.examples import Batch, Row
from headtool.models.huggingface.checking import check_ids
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.pieces import Cut, Pieces, Span, align, trimmed, unmarked

__all__ = ["HuggingFacePieces"]


class HuggingFacePieces(Pieces[HuggingFaceNetwork]):
    """Tokens of a transformers model; see `Pieces`."""

    def __init__(self, model: HuggingFaceNetwork) -> None:
        self.model = model
        self.prefix = model.prefix
        self.tokenizer = model.tokenizer
        self.max_length = model.max_length
        self.wordwise = False
        unknown = self.tokenizer.unk_token_id
        named = {
            getattr(self.tokenizer, f"{name}_token_id")
            for name in ("bos", "eos", "sep", "cls", "pad", "mask")
        }
        # GPT-2 has one special token for everything, the unknown included.
        self.unknown = -1 if unknown is None or unknown in named else int(unknown)
        ids = {*self.tokenizer.all_special_ids, model.pad_id} - {self.unknown}
        if model.config.is_encoder_decoder:
            ids.add(int(model.config.decoder_start_token_id))
        self._special = sorted(ids)

    def ids(self, batch: Batch, kind: Kind) -> Tensor:
        """Return token ids, [B, T]; see `Pieces.ids`."""
        both = self.model.task == "seq2seq"
        return batch.inputs["decoder_input_ids" if both and kind == "dec-self" else "input_ids"]

    def special(self, kind: Kind) -> list[int]:
        """Return the ids of special tokens; see `Pieces.special`."""
        return self._special

    def surface(self, token: int, kind: Kind) -> str:
        """Return what a token stands for; see `Pieces.surface`."""
        return str(self.tokenizer.decode([token])).strip().removeprefix("##")

    def size(self, kind: Kind) -> int:
        """Return how many ids there are; see `Pieces.size`."""
        return 1 + int(max([len(self.tokenizer), *self._special]))

    @property
    def embedded(self) -> int:
        """How many ids have an embedding; a tokenizer may have more tokens of its own."""
        embeddings = cast(Any, self.model.module).get_input_embeddings()
        return min(self.size("dec-self"), int(embeddings.num_embeddings))

    def unmasked(self, row: Row) -> Row:
        """Take masked tokens from the labels; see `Pieces.unmasked`."""
        if self.model.task != "masked-lm":
            return row
        pairs = zip(row["input_ids"], row["labels"], strict=True)
        return {**row, "input_ids": [t if label == -100 else label for t, label in pairs]}

    def numbers(self, symbols: Sequence[str], kind: Kind) -> list[int]:
        """Return the ids of symbols; see `Pieces.numbers`."""
        vocabulary = self.tokenizer.get_vocab()
        return [vocabulary.get(symbol, -1) for symbol in symbols]

    def row(self, ids: Sequence[int]) -> Row:
        """Return an example of these ids; see `Pieces.row`."""
        return self._untargeted({"input_ids": list(ids)})

    def _untargeted(self, row: dict[str, Any]) -> Row:
        task = self.model.task
        if task in ("classification", "regression"):
            row["target"] = 0 if task == "classification" else 0.0
        elif task in ("masked-lm", "token-classification"):
            row["labels"] = [-100] * len(row["input_ids"])
        elif task == "question-answering":
            row |= {"labels": [0, 0], "first": 0, "last": len(row["input_ids"]) - 1, "none": 0}
        elif task == "seq2seq":
            row["labels"] = row["input_ids"][-1:]
        return row

    def cut(self, text: str) -> Cut | None:
        """Return a text as the model reads it; see `Pieces.cut`."""
        fast = bool(self.tokenizer.is_fast)
        encoded = dict(self.tokenizer(text, return_offsets_mapping=fast, verbose=False))
        encoded.pop("attention_mask", None)
        check_ids(self.model.spec, self.model.module, [encoded["input_ids"]])
        spans: list[Span] | None
        if fast:
            offsets = encoded.pop("offset_mapping")
            spans = [trimmed(text, int(start), int(end)) for start, end in offsets]
        else:
            prefix, suffix = self.model.prefix, self.model.suffix
            symbols = self.tokenizer.tokenize(text)
            spans = align([unmarked(symbol) for symbol in symbols], text)
            if spans is not None:
                spans = [*[(0, 0)] * len(prefix), *spans, *[(0, 0)] * len(suffix)]
        if spans is None or len(spans) != len(encoded["input_ids"]):
            return None
        return Cut(self._untargeted(encoded), tuple(encoded["input_ids"]), tuple(spans))
