"""Data of ``builtin:mt``: English fables and their translation into Velic, an invented language.

One seeded synchronous grammar writes both sides, so the translation is a function of the source
sentence. What makes it a task for attention:

- agreement over distance: Velic articles, adjectives, pronouns and verbs agree in gender and number
  with a noun that may stand clauses away, and English shows no gender; the object of a negated verb
  is in the genitive;
- reordering: the Velic verb ends its clause (but opens a question), English prepositions are
  postpositions, owners stand before what they own, adjectives after their noun, subordinate clauses
  before the main clause, and an object clause inside it;
- ambiguity: what a verb means depends on its particle (``turn ... off``), and the sense of nouns
  such as ``crane`` on the verb of their clause;
- function words without counterpart: English ``do``, Velic ``sha``, ``ya`` and ``ka``, which close
  relative clauses, fronted clauses and questions.

The noisy set has longer sentences whose source lost words, changed their order and misspelled them;
the reference is the translation of the undamaged source.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeVar

from headtool.builtin import mt_lexicon as words
from headtool.errors import HeadtoolError, unknown

__all__ = ["SOURCE_LANG", "SPLITS", "TARGET_LANG", "examples", "model_folder"]

SOURCE_LANG, TARGET_LANG = "src", "tgt"
SPLITS = {"train": 20_000, "test": 1_000, "noisy": 1_000}
"""Sizes of the splits unless ``n`` says otherwise."""

_ADJECTIVE, _RELATIVE, _SUBORDINATE, _QUESTION, _NEGATION = 0.35, 0.18, 0.3, 0.12, 0.2
_DROP = _SWAP = _TYPO = 0.03
_T = TypeVar("_T")


def model_folder() -> Path:
    """Return the folder of the shipped checkpoint (``checkpoint.pt``) and its dictionaries."""
    return Path(str(resources.files("headtool.builtin").joinpath("assets", "mt")))


def examples(split: str, *, n: int | None = None, seed: int = 0) -> dict[str, list[str]]:
    """Write sentence pairs of one split.

    Splits share no source sentence, whatever their size and seed: a checksum of the sentence
    decides which split it may enter. Within a split every source sentence is different.

    Parameters
    ----------
    split
        ``train``, ``test`` or ``noisy``.
    n
        Number of pairs; 20,000 for ``train`` and 1,000 for the others when not given. A smaller
        number gives the first pairs of a larger one.
    seed
        Another seed gives other sentences.

    Returns
    -------
    dict of str to list of str
        The columns ``source`` and ``target``: lower-case words with single spaces.

    Raises
    ------
    HeadtoolError
        Unknown split, or ``n`` below 1.
    """
    if split not in SPLITS:
        raise unknown("split of builtin:mt", split, SPLITS)
    if n is not None and n < 1:
        raise HeadtoolError(f"the number of examples must be at least 1, got {n}")
    rng = random.Random(f"builtin:mt/{split}/{seed}")
    writer = _Writer(rng, ornate=split == "noisy")
    pairs: dict[str, str] = {}
    while len(pairs) < (n or SPLITS[split]):
        source, target = writer.sentence()
        if not _belongs(source, split):
            continue
        if split == "noisy":
            source = _damaged(source, rng)
        pairs.setdefault(" ".join(source), " ".join(target))
    return {"source": list(pairs), "target": list(pairs.values())}


def _belongs(source: Sequence[str], split: str) -> bool:
    part = zlib.crc32(" ".join(source).encode()) % 8
    return split == {0: "test", 1: "noisy"}.get(part, "train")


def _damaged(source: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """Drop, swap and misspell words until the sentence changed and is not another split's."""
    known, _ = words.vocabulary()
    while True:
        result = [word for word in source if rng.random() >= _DROP]
        for i in range(len(result) - 1):
            if rng.random() < _SWAP:
                result[i], result[i + 1] = result[i + 1], result[i]
        for i, word in enumerate(result):
            if len(word) > 3 and rng.random() < _TYPO:
                at = 1 + int(rng.random() * (len(word) - 2))
                typo = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
                result[i] = word if typo in known else typo
        if result != list(source) and _belongs(result, "noisy"):
            return tuple(result)


@dataclass(frozen=True)
class _Phrase:
    """The same words in both languages, and the agreement that they ask of others."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    agreement: str = ""


class _Writer:
    """Writes random sentences; ``ornate`` ones are longer.

    Only ``random()`` is drawn from the generator: Python promises to keep that sequence.
    """

    def __init__(self, rng: random.Random, *, ornate: bool) -> None:
        self._random = rng.random
        self._scale = 1.6 if ornate else 1.0

    def sentence(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Write one sentence in both languages."""
        question = self._chance(_QUESTION)
        tense = self._pick(words.TENSES, even=True)
        main = self._clause(tense, question=question, depth=2)
        source, target = main.source, main.target
        if not question and self._chance(0.15):
            time, velic_time = words.TIMES[tense]
            source, target = (time, *source), (*target, velic_time)
        if self._chance(_SUBORDINATE * self._scale):
            conjunction, velic = self._pick(words.CONJUNCTIONS)
            clause = self._clause(self._pick(words.TENSES, even=True), antecedent=main.agreement)
            source = (*source, conjunction, *clause.source)
            target = (velic, *clause.target, words.FRONTED_END, *target)
        if question:
            target = (*target, words.QUESTION_END)
        return source, target

    def _clause(
        self, tense: str, *, antecedent: str = "", question: bool = False, depth: int = 1
    ) -> _Phrase:
        """Write a clause; the object clause of a verb such as *say* needs ``depth`` 2."""
        kind = self._random()
        if depth > 1 and kind < 0.12 * self._scale:
            table = words.COMPLEMENT
        elif kind < 0.7:
            table = words.TRANSITIVE
        elif kind < 0.82:
            table = words.DITRANSITIVE
        else:
            table = words.INTRANSITIVE
        verb = self._pick(table)
        negated = self._chance(_NEGATION)
        if antecedent and self._chance(0.5):
            name = "they" if antecedent == "p" else "it"
            subject = _Phrase((name,), (words.pronoun(antecedent),), antecedent)
        else:
            subject = self._subject(verb)
        rest = self._arguments(verb, subject, table, negated=negated)

        finite, helper = verb.source(tense, subject.agreement)
        source: tuple[str, ...]
        if question:
            source = (helper, *subject.source, *(("not",) if negated else ()), verb.base)
        elif negated:
            source = (*subject.source, helper, "not", verb.base)
        else:
            source = (*subject.source, *((helper,) if tense == "future" else ()), finite)
        form, velic_helper = verb.target(tense, subject.agreement)
        second = (velic_helper,) if velic_helper else ()
        last = (words.NEGATION, form) if negated else (form,)
        if not question:
            target = (*subject.target, *second, *rest.target, *last)
        elif second:
            target = (*second, *subject.target, *rest.target, *last)
        else:
            target = (*last, *subject.target, *rest.target)
        return _Phrase((*source, *rest.source), target, subject.agreement)

    def _arguments(
        self, verb: words.Verb, subject: _Phrase, table: Sequence[words.Verb], *, negated: bool
    ) -> _Phrase:
        """Write what follows the English verb, which all stands before the Velic verb."""
        source: list[str] = []
        target: list[str] = []
        if table is words.COMPLEMENT:
            tense = self._pick(words.TENSES, even=True)
            clause = self._clause(tense, antecedent=subject.agreement)
            return _Phrase(("that", *clause.source), (words.COMPLEMENT_START, *clause.target))
        if table is not words.INTRANSITIVE:
            owner = "their" if subject.agreement == "p" else "its"
            object_ = self._noun_phrase(
                "gen" if negated else "acc",
                verb.domain,
                owner=owner,
                # The particle of the verb must not look like one of a verb in a relative clause.
                relative=not verb.particle,
                animals=0.35,
            )
            source += object_.source
            target += object_.target
        if table is words.DITRANSITIVE:
            recipient = self._noun_phrase("dat", verb.domain, relative=False, animals=1.0)
            source += ("to", *recipient.source)
            target = [*recipient.target, *target]
        if verb.particle:
            source.append(verb.particle)
        manner, velic_manner = self._pick(words.MANNERS)
        place, velic_place = self._place()
        if self._chance(0.25):
            source.append(manner)
            target.append(velic_manner)
        if self._chance(0.3 * self._scale):
            source += place
            target += velic_place
        return _Phrase(tuple(source), tuple(target))

    def _place(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        preposition, postposition = self._pick(words.PREPOSITIONS)
        place = self._simple("dat", self._pick(words.PLACES))
        return (preposition, *place.source), (*place.target, postposition)

    def _subject(self, verb: words.Verb) -> _Phrase:
        if self._chance(0.1):
            one, two = (self._simple("nom", self._pick(words.ANIMALS)) for _ in range(2))
            return _Phrase(
                (*one.source, "and", *two.source), (*one.target, words.AND, *two.target), "p"
            )
        return self._noun_phrase("nom", verb.domain, animals=0.85)

    def _noun_phrase(
        self, case: str, domain: str, *, animals: float, relative: bool = True, owner: str = ""
    ) -> _Phrase:
        """Write a noun phrase; the verb's ``domain`` decides the sense of a homonym."""
        if self._chance(0.3):
            homonym = self._pick(words.HOMONYMS)
            noun = homonym.animal if domain == "nature" else homonym.thing
        else:
            noun = self._pick(words.ANIMALS if self._chance(animals) else words.THINGS)
        head = self._simple(case, noun, owner=owner)
        source, target = head.source, head.target
        if relative and self._chance(_RELATIVE * self._scale):
            clause = self._relative(head.agreement)
            source, target = (*source, *clause.source), (*target, *clause.target)
        elif self._chance(0.1):
            possessor = self._simple("gen", self._pick(words.ANIMALS))
            source, target = (*source, "of", *possessor.source), (*possessor.target, *target)
        return _Phrase(source, target, head.agreement)

    def _relative(self, agreement: str) -> _Phrase:
        """Write a relative clause on a noun: the noun is its subject or its object."""
        verb = self._pick([verb for verb in words.TRANSITIVE if not verb.particle])
        tense = self._pick(words.TENSES[:2], even=True)
        of_subject = self._chance(0.6)
        other = self._noun_phrase(
            "acc" if of_subject else "nom",
            verb.domain,
            animals=0.5 if of_subject else 1.0,
            relative=False,
        )
        subject = agreement if of_subject else other.agreement
        finite, _ = verb.source(tense, subject)
        velic, _ = verb.target(tense, subject)
        pronoun = words.relative("nom" if of_subject else "acc", agreement)
        english = (finite, *other.source) if of_subject else (*other.source, finite)
        return _Phrase(
            ("that", *english), (pronoun, *other.target, velic, words.RELATIVE_END), agreement
        )

    def _simple(self, case: str, noun: words.Noun, *, owner: str = "") -> _Phrase:
        """Write determiner, adjectives and noun."""
        agreement = "p" if self._chance(0.35) else noun.gender
        adjectives: list[tuple[str, str]] = []
        while len(adjectives) < 2 and self._chance(_ADJECTIVE * self._scale):
            choice = self._pick(words.ADJECTIVES)
            if choice not in adjectives:
                adjectives.append(choice)
        english = [*(word for word, _ in adjectives), noun.source(agreement)]
        kind = self._random()
        if owner and kind < 0.15:
            determiner, velic = owner, words.possessive(agreement)
        elif kind < 0.65:
            determiner, velic = "the", words.definite(case, agreement)
        elif agreement == "p" and kind < 0.85:
            determiner, velic = self._pick(words.NUMERALS)
        else:
            article = "an" if english[0][0] in "aeiou" else "a"
            determiner = "" if agreement == "p" else article
            velic = words.indefinite(case, agreement)
        target = [
            velic,
            noun.target(agreement),
            *(words.adjective(stem, agreement) for _, stem in reversed(adjectives)),
        ]
        return _Phrase(
            tuple(filter(None, (determiner, *english))), tuple(filter(None, target)), agreement
        )

    def _chance(self, probability: float) -> bool:
        return self._random() < probability

    def _pick(self, options: Sequence[_T], *, even: bool = False) -> _T:
        """Choose one; unless ``even``, few are frequent and many rare, as in text."""
        at = self._random()
        return options[int(len(options) * (at if even else at * at))]
