"""Treebanks in CoNLL-U, read strictly: words, heads and relations, and the text they form."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headtool.data.drawing import Drawn, LimitOrder, check_limit, drawn_rows
from headtool.data.messages import quoted
from headtool.data.textfile import quoted_path, read_lines, user_path
from headtool.errors import HeadtoolError

__all__ = ["Sentence", "Treebank", "Word", "read_treebank"]

_COLUMNS = 10
_FORM, _HEAD, _DEPREL, _MISC = 1, 6, 7, 9
_NUMBER = r"[1-9]\d{0,8}"  # Python refuses to read thousands of digits
_WORD = re.compile(_NUMBER)
_RANGE = re.compile(rf"({_NUMBER})-({_NUMBER})")
_EMPTY = re.compile(rf"(0|{_NUMBER})\.({_NUMBER})")


@dataclass(frozen=True)
class Word:
    """A syntactic word.

    Attributes
    ----------
    form
        As it is written.
    head
        The word that it depends on, counted from 0; -1 for the root of the sentence.
    relation
        Its dependency relation to that word, subtype included.
    start, end
        Its characters in the sentence's text. The words of a multiword token that is not their
        concatenation (French `du` for `de` and `le`) all have the token's characters.
    """

    form: str
    head: int
    relation: str
    start: int
    end: int


@dataclass(frozen=True)
class Sentence:
    """A parsed sentence.

    Attributes
    ----------
    text
        Its tokens with a space between them, but for ``SpaceAfter=No``.
    words
        Its syntactic words.
    line
        The line of the file with its first word, from 1.
    """

    text: str
    words: tuple[Word, ...]
    line: int

    def spaced(self) -> Sentence:
        """Return the sentence with a space between all words that do not share characters."""
        parts: list[str] = []
        words, length, last = [], -1, (-1, -1)
        for word in self.words:
            if (word.start, word.end) != last:
                last = (word.start, word.end)
                parts.append(self.text[word.start : word.end])
                length += 1 + len(parts[-1])
            words.append(replace(word, start=length - len(parts[-1]), end=length))
        return Sentence(" ".join(parts), tuple(words), self.line)


@dataclass(frozen=True)
class Treebank:
    """Parsed sentences.

    Attributes
    ----------
    spec
        The files as the user named them.
    sentences
        The sentences, at least one.
    drawn
        How a limit chose them; None for all.
    """

    spec: str
    sentences: tuple[Sentence, ...]
    drawn: Drawn | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of texts, words, heads and relations; names of files play no part."""
        digest = hashlib.sha256()
        for sentence in self.sentences:
            digest.update(f"{sentence.text}\n".encode())
            for word in sentence.words:
                line = (word.form, word.head, word.relation, word.start, word.end)
                digest.update(("\t".join(map(str, line)) + "\n").encode())
            digest.update(b"\n")
        return digest.hexdigest()


def read_treebank(
    files: Sequence[str],
    *,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    seed: int = 0,
) -> Treebank:
    """Read CoNLL-U files.

    Multiword-token ranges give the text, words give the tree; empty nodes, lemmas, tags, features
    and enhanced dependencies are not used, but their lines must be well formed.

    Parameters
    ----------
    files
        One or more files, read one after the other.
    limit
        Keep only this many sentences.
    limit_order
        ``seeded`` draws them by `seed`, spread over the files; ``first`` takes the first ones.
    seed
        Seed of the draw.

    Raises
    ------
    HeadtoolError
        If a file cannot be read, holds no sentence, or a line breaks the format; the message
        names file and line.

    References
    ----------
    https://universaldependencies.org/format.html
    """
    check_limit(limit, limit_order)
    sentences: list[Sentence] = []
    for file in files:
        path = user_path(file)
        found = list(_sentences(path))
        if not found:
            raise HeadtoolError(f"{quoted_path(path)} holds no sentence; give a CoNLL-U file")
        sentences += found
    spec, count = ",".join(files), len(sentences)
    if limit is None or limit >= count:
        return Treebank(spec, tuple(sentences))
    rows = drawn_rows(count, limit, order=limit_order, seed=seed).tolist()
    drawn = Drawn(limit, limit_order, seed, count)
    return Treebank(spec, tuple(sentences[row] for row in rows), drawn)


def _sentences(path: Path) -> Iterator[Sentence]:
    block: list[tuple[int, str]] = []
    comments = 0
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#") and not block:
            comments += 1
        elif line.strip():
            block.append((number, line))
        else:
            if block:
                yield _Reader(path, block).sentence()
            elif comments:
                raise _fault(path, number, "comments without a sentence below them", "remove them")
            block, comments = [], 0
    if block:
        yield _Reader(path, block).sentence()
    elif comments:
        raise _fault(path, number, "comments without a sentence below them", "remove them")


def _fault(path: Path, line: int, what: str, remedy: str) -> HeadtoolError:
    return HeadtoolError(f"{quoted_path(path)}, line {line}: {what}; {remedy}")


class _Reader:
    """Reads the lines of one sentence."""

    def __init__(self, path: Path, block: Sequence[tuple[int, str]]) -> None:
        self.path = path
        self.block = block
        self.rows: list[tuple[int, list[str]]] = []  # words: line and columns
        self.tokens: list[tuple[int, int, str, bool]] = []  # first and last word, form, space after
        self.empty = 0  # empty nodes since the last word

    def fault(self, line: int, what: str, remedy: str) -> HeadtoolError:
        return _fault(self.path, line, what, remedy)

    def sentence(self) -> Sentence:
        for number, line in self.block:
            self._take(number, line)
        first = self.block[0][0]
        if not self.rows:
            raise self.fault(first, "a sentence without words", "add some, or remove it")
        last = self.tokens[-1][1]
        if last > len(self.rows):
            raise self.fault(
                self.block[-1][0],
                f"a range of words ends at {last}, but the sentence has {len(self.rows)}",
                "correct the range, or add the words",
            )
        heads = [self._head(number, columns) for number, columns in self.rows]
        self._check_tree(heads)
        text, spans = self._text()
        words = tuple(
            Word(columns[_FORM], head, columns[_DEPREL], *span)
            for (_, columns), head, span in zip(self.rows, heads, spans, strict=True)
        )
        return Sentence(text, words, first)

    def _take(self, number: int, line: str) -> None:
        if line.startswith("#"):
            raise self.fault(
                number,
                "a comment within a sentence",
                "comments stand before its first word, sentences end with an empty line",
            )
        columns = line.split("\t")
        if len(columns) != _COLUMNS:
            raise self.fault(
                number,
                f"{len(columns)} columns instead of {_COLUMNS} in {quoted(line)}",
                "separate ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC by tabs",
            )
        if not all(columns):
            raise self.fault(number, "an empty column", "write _ for what is not given")
        name, done = columns[0], len(self.rows)
        space = "SpaceAfter=No" not in columns[_MISC].split("|")
        covered = self.tokens[-1][1] if self.tokens else 0
        if match := _RANGE.fullmatch(name):
            start, end = int(match[1]), int(match[2])
            if start != done + 1 or end <= start or covered >= start:
                raise self._misplaced(number, name, done)
            self.tokens.append((start, end, columns[_FORM], space))
            self.empty = 0
        elif _WORD.fullmatch(name):
            if int(name) != done + 1:
                raise self._misplaced(number, name, done)
            if covered <= done:
                self.tokens.append((done + 1, done + 1, columns[_FORM], space))
            self.rows.append((number, columns))
            self.empty = 0
        elif match := _EMPTY.fullmatch(name):
            if int(match[1]) != done or int(match[2]) != self.empty + 1:
                raise self._misplaced(number, name, done)
            self.empty += 1
        else:
            raise self.fault(
                number, f"{quoted(name)} is no ID", "write 1, 2, 3, ..., a range 1-2 or 1.1"
            )

    def _misplaced(self, number: int, name: str, done: int) -> HeadtoolError:
        return self.fault(
            number,
            f"ID {quoted(name)} where {done + 1} should come",
            "number the words of a sentence 1, 2, 3, ... and end it with an empty line",
        )

    def _head(self, number: int, columns: Sequence[str]) -> int:
        text = columns[_HEAD]
        if not re.fullmatch(rf"0|{_NUMBER}", text) or int(text) > len(self.rows):
            raise self.fault(
                number,
                f"HEAD {quoted(text)} is no word of the sentence",
                f"write 0 to {len(self.rows)}; a treebank needs a parse",
            )
        if columns[_DEPREL] == "_":
            raise self.fault(number, "no DEPREL", "name the relation; a treebank needs a parse")
        if text == columns[0]:
            raise self.fault(number, f"word {text} is its own head", "correct HEAD")
        return int(text) - 1

    def _check_tree(self, heads: Sequence[int]) -> None:
        """Refuse heads that lead in a circle."""
        reaches: set[int] = {-1}
        for word in range(len(heads)):
            path: list[int] = []
            place = word
            while place not in reaches:
                if place in path:
                    raise self.fault(
                        self.rows[place][0],
                        f"the heads from word {place + 1} lead back to it",
                        "correct HEAD, so that every word leads to the root",
                    )
                path.append(place)
                place = heads[place]
            reaches.update(path)

    def _text(self) -> tuple[str, list[tuple[int, int]]]:
        text, spans = "", []
        for start, end, form, space in self.tokens:
            place = len(text)
            text += form
            parts = [columns[_FORM] for _, columns in self.rows[start - 1 : end]]
            if "".join(parts) == form:
                for part in parts:
                    spans.append((place, place + len(part)))
                    place += len(part)
            else:
                spans += [(place, len(text))] * len(parts)
            text += " " if space else ""
        return text.rstrip(" "), spans
