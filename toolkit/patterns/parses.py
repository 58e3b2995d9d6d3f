"""Parsed sentences as one model reads them: words become units of its tokens.

A unit is a word's tokens. Words that share a token are one unit: the words of a multiword token
that cannot be told apart in the text, and words across which the tokenizer drew a token. Arcs
within a unit are left out, and so are words for which the tokenizer has no token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headtool.data.conllu import Sentence, Treebank
from headtool.data.dataset import TextData
from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples, Row
from headtool.models.pieces import Pieces, Span

__all__ = ["Parse", "ParsedExamples", "encode_treebank", "parse_of"]

_MOST_UNKNOWN = 0.5


@dataclass(frozen=True, eq=False)
class Parse:
    """A dependency tree over units of tokens.

    Attributes
    ----------
    units
        Per token the number of its unit, from left to right; -1 for tokens of no word. Shape [T].
    arcs
        Dependent unit, head unit and relation, each distinct triple once.
    lost
        Words without a token.
    """

    units: NDArray[np.int64]
    arcs: tuple[tuple[int, int, str], ...]
    lost: int

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return int(self.units.max(initial=-1)) + 1


@dataclass(frozen=True, eq=False)
class ParsedExamples:
    """A treebank tokenised for one model.

    Attributes
    ----------
    examples
        The sentences that the model can read.
    parses
        Their trees.
    too_long
        Sentences left out because they have more tokens than the model takes.
    unaligned
        Sentences left out because their tokens cannot be found in the text.
    lost
        Words of the others that the tokenizer maps to nothing.
    """

    examples: Examples
    parses: tuple[Parse, ...]
    too_long: int
    unaligned: int
    lost: int


def encode_treebank(
    pieces: Pieces[ModelAdapter], treebank: Treebank, *, batch_tokens: int = 4096
) -> ParsedExamples:
    """Tokenise a treebank for a model and align its words with the tokens.

    Sentences that are too long for the model are left out, never cut: a cut tree is no tree.

    Parameters
    ----------
    pieces
        The model's tokens.
    treebank
        The sentences.
    batch_tokens
        Token budget of a batch, padding included.

    Raises
    ------
    HeadtoolError
        If no sentence is left, or most of the tokens are unknown to the model.
    """
    rows: list[Row] = []
    parses: list[Parse] = []
    texts: list[str] = []
    lengths: list[int] = []
    too_long = unaligned = unknown = 0
    for sentence in treebank.sentences:
        read = sentence.spaced() if pieces.wordwise else sentence
        cut = pieces.cut(read.text)
        if cut is None:
            unaligned += 1
        elif len(cut.spans) > pieces.max_length:
            too_long += 1
        else:
            unknown += cut.ids.count(pieces.unknown)
            rows.append(cut.row)
            parses.append(parse_of(read, cut.spans))
            texts.append(read.text)
            lengths.append(len(cut.spans))
    spec, model = treebank.spec, pieces.model.spec
    if not rows:
        raise HeadtoolError(
            f"{spec} has no sentence that {model} can read: {too_long} are longer than its "
            f"{pieces.max_length} tokens, {unaligned} do not match their tokens"
        )
    if unknown > _MOST_UNKNOWN * sum(lengths):
        raise HeadtoolError(
            f"{unknown / sum(lengths):.0%} of the tokens of {spec} are unknown to {model}; give a "
            "treebank of its language, and for a fairseq model its `bpe`"
        )
    if not any(parse.arcs for parse in parses):
        raise HeadtoolError(
            f"{spec} has no dependency between two words that the tokenizer of {model} tells apart "
            f"({sum(parse.lost for parse in parses)} words have no token); give another treebank"
        )
    data = TextData(spec, "text", {"text": tuple(texts)})
    examples = Examples(data, tuple(rows), np.asarray(lengths, dtype=np.int64), batch_tokens)
    lost = sum(parse.lost for parse in parses)
    return ParsedExamples(examples, tuple(parses), too_long, unaligned, lost)


def parse_of(sentence: Sentence, spans: Sequence[Span]) -> Parse:
    """Group the tokens of a sentence into units and carry its tree over.

    Parameters
    ----------
    sentence
        The sentence.
    spans
        The characters that each token covers.
    """
    words = sentence.words
    group = list(range(len(words)))  # words of one unit have the same group: its first word

    def merge(members: set[int]) -> None:
        groups = {group[word] for word in members}
        for word, old in enumerate(group):
            if old in groups:
                group[word] = min(groups)

    owners: list[set[int]] = [set() for _ in sentence.text]
    for number, word in enumerate(words):
        for place in range(word.start, word.end):
            owners[place].add(number)
    covered = [set().union(*owners[start:end]) for start, end in spans]
    for members in covered:
        if len(members) > 1:
            merge(members)
    order: dict[int, int] = {}
    units = np.full(len(spans), -1, dtype=np.int64)
    for token, members in enumerate(covered):
        if members:
            units[token] = order.setdefault(group[min(members)], len(order))
    unit_of = [order.get(group[number], -1) for number in range(len(words))]
    arcs = {
        (unit, unit_of[word.head], word.relation): None
        for unit, word in zip(unit_of, words, strict=True)
        if word.head >= 0 and min(unit, unit_of[word.head]) >= 0 and unit != unit_of[word.head]
    }
    return Parse(units, tuple(arcs), unit_of.count(-1))
