"""What a model's tokens are: their ids, what they stand for, and their place in a text."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

from headtool.heads import Kind
from headtool.models.examples import Batch, Row

__all__ = ["Cut", "Pieces", "Span", "align", "is_punctuation", "trimmed", "unmarked"]

Span = tuple[int, int]
"""First character and end of a token in a text."""

M = TypeVar("M", covariant=True)


@dataclass(frozen=True)
class Cut:
    """A text as a model reads it.

    Attributes
    ----------
    row
        The tokenised example.
    ids
        Its token ids, special ones included.
    spans
        Per token, the characters of the text that it covers; an empty span for special tokens, and
        for tokens of white space alone.
    """

    row: Row
    ids: tuple[int, ...]
    spans: tuple[Span, ...]


class Pieces(ABC, Generic[M]):
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
    prefix
        Ids of the special tokens that come before a text.
    """

    model: M
    max_length: int
    wordwise: bool
    unknown: int
    prefix: Sequence[int] = ()

    @abstractmethod
    def ids(self, batch: Batch, kind: Kind) -> Tensor:
        """Return token ids at the positions of one kind of self-attention, [B, T].

        Parameters
        ----------
        batch
            The batch.
        kind
            The kind of self-attention.
        """

    @abstractmethod
    def special(self, kind: Kind) -> list[int]:
        """Ids that stand for no text. The unknown token is not among them: it stands for some."""

    @abstractmethod
    def surface(self, token: int, kind: Kind) -> str:
        """Return the text that a token stands for, without its marks.

        Parameters
        ----------
        token
            Its id.
        kind
            The kind of self-attention, which decides the side of a translation model.
        """

    @abstractmethod
    def size(self, kind: Kind) -> int:
        """Return a number above all token ids."""

    @abstractmethod
    def numbers(self, symbols: Sequence[str], kind: Kind) -> list[int]:
        """Return the ids of tokens; -1 for those not in the vocabulary.

        Parameters
        ----------
        symbols
            Tokens in the notation of the model's own vocabulary.
        kind
            The kind of self-attention, which decides the side of a translation model.
        """

    @abstractmethod
    def row(self, ids: Sequence[int]) -> Row:
        """Make an example of token ids, special ones included; it has no target to speak of."""

    @abstractmethod
    def cut(self, text: str) -> Cut | None:
        """Tokenise a text; None where its tokens cannot be found in it."""

    @property
    def embedded(self) -> int:
        """How many ids the decoder has an embedding for; by default all of them."""
        return self.size("dec-self")

    def unmasked(self, row: Row) -> Row:
        """Put back the tokens that a masked language model is to guess."""
        return row


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
    >>> from headtool.models.pieces import align
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


def unmarked(symbol: str) -> str:
    """Take off the marks of sentencepiece and subword-nmt."""
    return symbol.replace("\N{LOWER ONE EIGHTH BLOCK}", "").removesuffix("@@")


def trimmed(text: str, start: int, end: int) -> Span:
    """Leave out white space at both ends of a span: some tokenizers count the space before a word.

    Parameters
    ----------
    text
        The text.
    start, end
        First character of the span, and its end.

    Examples
    --------
    >>> from headtool.models.pieces import trimmed
    >>> trimmed("a cat ", 1, 6)
    (2, 5)
    """
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    end -= len(part) - len(part.rstrip())
    return (start, end) if start < end else (0, 0)


def is_punctuation(surface: str) -> bool:
    """Whether all characters are punctuation in Unicode's sense (categories P), and there is one.

    Examples
    --------
    >>> from headtool.models.pieces import is_punctuation
    >>> is_punctuation("..."), is_punctuation("it's"), is_punctuation("+"), is_punctuation("")
    (True, False, False, False)
    """
    return bool(surface) and all(unicodedata.category(c).startswith("P") for c in surface)
