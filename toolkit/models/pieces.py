"""What a model's tokens are: their ids, what they stand for, and their place in a text."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.models.base import Batch, ModelAdapter, Row

__all__ = ["Cut", "Pieces", "Span", "align", "is_punctuation", "pieces_of"]

Span = tuple[int, int]
Side = Literal["source", "target"]

_WORDWISE = ("none", "subword_nmt", "fastbpe")
"""fairseq's segmentations that want words, and not running text."""


@dataclass(frozen=True)
class Cut:
    """A text as a model reads it.

    Attributes
    ----------
    row
        The tokenised example.
    spans
        Per token, the characters of the text that it covers; an empty span for special tokens, and
        for tokens of white space alone.
    """

    row: Row
    spans: tuple[Span, ...]


class Pieces(ABC):
    """Tokens of one model.

    Attributes
    ----------
    model
        The model.
    max_length
        Most tokens of an input, special ones included.
    wordwise
        Whether text goes in as words with spaces between them.
    unknown
        Id of the token for what is not in the vocabulary; -1 if there is none.
    """

    model: ModelAdapter
    max_length: int
    wordwise: bool
    unknown: int

    @abstractmethod
    def ids(self, batch: Batch, kind: Kind) -> Tensor:
        """Token ids at the positions of one kind of self-attention, [B, T]."""

    @abstractmethod
    def special(self, kind: Kind) -> list[int]:
        """Ids that stand for no text. The unknown token is not among them: it stands for some."""

    @abstractmethod
    def surface(self, token: int, kind: Kind) -> str:
        """Return the text that a token stands for, without its marks."""

    @abstractmethod
    def size(self, kind: Kind) -> int:
        """Return a number above all token ids."""

    @abstractmethod
    def numbers(self, symbols: Sequence[str], kind: Kind) -> list[int]:
        """Ids of tokens in the notation of the model's own vocabulary; -1 for those not in it."""

    @abstractmethod
    def row(self, ids: Sequence[int]) -> Row:
        """Make an example of token ids, special ones included; it has no target to speak of."""

    @abstractmethod
    def cut(self, text: str) -> Cut | None:
        """Tokenise a text; None where its tokens cannot be found in it."""


def pieces_of(model: ModelAdapter) -> Pieces:
    """Return what is known of a model's tokens.

    Raises
    ------
    HeadtoolError
        If the model is of a library whose tokenizers are not known here.
    """
    if model.library == "transformers":
        return _HuggingFacePieces(model)
    if model.library == "fairseq":
        return _FairseqPieces(model)
    raise HeadtoolError(
        f"the tokens of {model.library} models are not known; roles need a model of transformers "
        "or fairseq"
    )


class _HuggingFacePieces(Pieces):
    def __init__(self, model: ModelAdapter) -> None:
        from headtool.models.huggingface import HuggingFaceModel

        assert isinstance(model, HuggingFaceModel)
        self.model = self._model = model
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
        both = self.model.task == "seq2seq"
        return batch.inputs["decoder_input_ids" if both and kind == "dec-self" else "input_ids"]

    def special(self, kind: Kind) -> list[int]:
        return self._special

    def surface(self, token: int, kind: Kind) -> str:
        return str(self.tokenizer.decode([token])).strip().removeprefix("##")

    def size(self, kind: Kind) -> int:
        return 1 + int(max([len(self.tokenizer), *self._special]))

    def numbers(self, symbols: Sequence[str], kind: Kind) -> list[int]:
        vocabulary = self.tokenizer.get_vocab()
        return [vocabulary.get(symbol, -1) for symbol in symbols]

    def row(self, ids: Sequence[int]) -> Row:
        return self._untargeted({"input_ids": list(ids)})

    def _untargeted(self, row: dict[str, Any]) -> Row:
        task = self.model.task
        if task in ("classification", "regression"):
            row["target"] = 0 if task == "classification" else 0.0
        elif task == "masked-lm":
            row["labels"] = [-100] * len(row["input_ids"])
        elif task == "seq2seq":
            row["labels"] = row["input_ids"][-1:]
        return row

    def cut(self, text: str) -> Cut | None:
        fast = bool(self.tokenizer.is_fast)
        encoded = dict(self.tokenizer(text, return_offsets_mapping=fast, verbose=False))
        encoded.pop("attention_mask", None)
        spans: list[Span] | None
        if fast:
            offsets = encoded.pop("offset_mapping")
            spans = [_trimmed(text, int(start), int(end)) for start, end in offsets]
        else:
            prefix, suffix = self._model.prefix, self._model.suffix
            symbols = self.tokenizer.tokenize(text)
            spans = align([_unmarked(symbol) for symbol in symbols], text)
            if spans is not None:
                spans = [*[(0, 0)] * len(prefix), *spans, *[(0, 0)] * len(suffix)]
        if spans is None or len(spans) != len(encoded["input_ids"]):
            return None
        return Cut(self._untargeted(encoded), tuple(spans))


class _FairseqPieces(Pieces):
    def __init__(self, model: ModelAdapter) -> None:
        from headtool.models.fairseq import FairseqModel

        assert isinstance(model, FairseqModel)
        self.model = self._model = model
        self.max_length = int(cast(Any, model.module).max_positions()[0])
        self.wordwise = model.bpe.name in _WORDWISE
        self.unknown = int(model.source_dictionary.unk())

    def _dictionary(self, kind: Kind) -> Any:
        decoder = kind != "enc-self"
        return self._model.target_dictionary if decoder else self._model.source_dictionary

    def ids(self, batch: Batch, kind: Kind) -> Tensor:
        return batch.inputs["prev_output_tokens" if kind == "dec-self" else "src_tokens"]

    def special(self, kind: Kind) -> list[int]:
        dictionary = self._dictionary(kind)
        return [i for i in range(dictionary.nspecial) if i != dictionary.unk()]

    def surface(self, token: int, kind: Kind) -> str:
        return _unmarked(self._dictionary(kind)[token])

    def size(self, kind: Kind) -> int:
        return len(self._dictionary(kind))

    def numbers(self, symbols: Sequence[str], kind: Kind) -> list[int]:
        known = self._dictionary(kind).indices
        return [known.get(symbol, -1) for symbol in symbols]

    def row(self, ids: Sequence[int]) -> Row:
        return {"source": list(ids), "target": [self._model.target_dictionary.eos()]}

    def cut(self, text: str) -> Cut | None:
        symbols = self._model.bpe.encode(text).split()
        spans = align([_unmarked(symbol) for symbol in symbols], text)
        if spans is None:
            return None
        dictionary = self._model.source_dictionary
        ids = [*map(dictionary.index, symbols), dictionary.eos()]
        return Cut(self.row(ids), (*spans, (0, 0)))


def align(surfaces: Sequence[str], text: str) -> list[Span] | None:
    """Find pieces of a text in it.

    Characters are compared without regard to case, accents, compatibility forms and invisible
    characters, which tokenizers change; white space is not compared at all.

    Parameters
    ----------
    surfaces
        The pieces in order, without the tokenizer's marks.
    text
        The text.

    Returns
    -------
    list or None
        First character and end of each piece, (0, 0) for pieces without visible characters; None
        where the pieces do not make up the text.

    Examples
    --------
    >>> align(["ein", "faches", "", "!"], "Ein-faches !".replace("-", ""))
    [(0, 3), (3, 9), (0, 0), (10, 11)]
    """
    places = [(part, place) for place, c in enumerate(text) for part in _plain(c)]
    spans: list[Span] = []
    done = 0
    for surface in surfaces:
        wanted = _plain(surface)
        found = places[done : done + len(wanted)]
        if "".join(part for part, _ in found) != wanted:
            return None
        spans.append((found[0][1], found[-1][1] + 1) if found else (0, 0))
        done += len(wanted)
    return spans if done == len(places) else None


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(
        c for c in folded if not c.isspace() and unicodedata.category(c) not in ("Mn", "Cf", "Cc")
    )


def _unmarked(symbol: str) -> str:
    """Take off the marks of sentencepiece and subword-nmt."""
    return symbol.replace("\N{LOWER ONE EIGHTH BLOCK}", "").removesuffix("@@")


def _trimmed(text: str, start: int, end: int) -> Span:
    """Leave out white space at both ends; some tokenizers count the space before a word in."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    end -= len(part) - len(part.rstrip())
    return (start, end) if start < end else (0, 0)


def is_punctuation(surface: str) -> bool:
    """Whether all characters are punctuation in Unicode's sense (categories P), and there is one.

    Examples
    --------
    >>> is_punctuation("..."), is_punctuation("it's"), is_punctuation("+"), is_punctuation("")
    (True, False, False, False)
    """
    return bool(surface) and all(unicodedata.category(c).startswith("P") for c in surface)
