"""The built-in model whose heads' work is known, its data, and the truth about its heads.

A text names three things, says eight syllables, asks about the things in some order, and says the
syllables again::

    Peru cow plum ke lo da ni ... colour purple capital Lima sound moo ke lo da ni ...

What can be known of the next word is the answer to a question, and every syllable of the second
round but the first. Both are the work of heads by construction (`headtool.builtin.planting`):

=================  ===============================================================================
kind               heads
=================  ===============================================================================
necessary          a head that looks at the previous token, and an induction head that looks for
                   what followed the current token before, and copies it; neither works without
                   the other
interchangeable    two heads that answer the questions; either does it alone
harmful            a head that wants to say the current token again, which is never right
constant           a head of large constant output that nothing reads
idle               six heads of large weights that have hardly an effect, good or bad
=================  ===============================================================================

Any set of heads with both necessary and one of the interchangeable heads is sufficient, whether
the others put out zero or their means. (Their outputs on other texts are wrong answers.)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headtool.errors import HeadtoolError
from headtool.heads import Head

__all__ = [
    "ANSWERS",
    "HEADS",
    "KINDS",
    "LAYERS",
    "QUESTIONS",
    "SYLLABLES",
    "TOLERANCE",
    "PlantedKind",
    "Truth",
    "examples",
    "planted_seed",
    "truth",
]

PlantedKind = Literal["necessary", "interchangeable", "harmful", "constant", "idle"]
KINDS: tuple[PlantedKind, ...] = ("necessary", "interchangeable", "harmful", "constant", "idle")

LAYERS, HEADS = 3, 4

QUESTIONS: dict[str, dict[str, str]] = {
    "capital": {"Peru": "Lima", "Cuba": "Havana", "Norway": "Oslo", "Egypt": "Cairo"},
    "sound": {"cow": "moo", "cat": "meow", "dog": "woof", "duck": "quack"},
    "colour": {"plum": "purple", "lemon": "yellow", "lime": "green", "cherry": "red"},
}
"""By question, its things with their answers."""

ANSWERS = {thing: answer for pairs in QUESTIONS.values() for thing, answer in pairs.items()}

SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou")[:40]

TOLERANCE = 0.05
"""Loss in nats per token, of about 1.5 that the heads are worth, within which heads suffice."""

_SIZE = 256
_SYLLABLES = 8
_SPEC = "builtin:planted"


@dataclass(frozen=True)
class Truth:
    """What the heads of a planted model do.

    Attributes
    ----------
    seed
        The model's seed.
    heads
        By name of its work, the head: ``previous-token``, ``induction``, ``answer-1``,
        ``answer-2``, ``repeating``, ``constant``, ``idle-1`` and so on.
    """

    seed: int
    heads: Mapping[str, Head]

    def kind(self, head: Head) -> PlantedKind:
        """Return what kind of head one is."""
        work = next(work for work, found in self.heads.items() if found == head)
        return _KIND_OF[work.partition("-")[0]]

    def of_kind(self, kind: PlantedKind) -> frozenset[Head]:
        """Return the heads of a kind."""
        return frozenset(head for head in self.heads.values() if self.kind(head) == kind)

    @property
    def necessary(self) -> frozenset[Head]:
        """The heads without which the model gets worse, whatever else it has."""
        return self.of_kind("necessary")

    @property
    def smallest_sufficient(self) -> tuple[frozenset[Head], ...]:
        """The smallest sets of heads that do what all heads together do."""
        alternatives = sorted(self.of_kind("interchangeable"), key=str)
        return tuple(self.necessary | {head} for head in alternatives)

    @property
    def members(self) -> frozenset[Head]:
        """The heads of any smallest sufficient set."""
        return frozenset().union(*self.smallest_sufficient)

    def suffices(self, kept: frozenset[Head]) -> bool:
        """Whether some heads do what all heads together do."""
        return any(smallest <= kept for smallest in self.smallest_sufficient)


_KIND_OF: dict[str, PlantedKind] = {
    "previous": "necessary",
    "induction": "necessary",
    "answer": "interchangeable",
    "repeating": "harmful",
    "constant": "constant",
    "idle": "idle",
}


def truth(seed: int = 0) -> Truth:
    """Say what the heads of a planted model do, and where they are.

    The previous-token head is in the first layer and the induction head in a later one; all
    others are anywhere.

    Parameters
    ----------
    seed
        The model's seed.

    Examples
    --------
    >>> from headtool.builtin.planted import truth
    >>> known = truth(0)
    >>> len(known.heads), len(known.members), len(known.smallest_sufficient)
    (12, 4, 2)
    """
    rng = random.Random(f"{_SPEC}/places/{seed}")
    places = [Head("dec-self", layer, index) for layer in range(LAYERS) for index in range(HEADS)]
    previous = rng.choice(places[:HEADS])
    induction = rng.choice(places[HEADS:])
    rest = [place for place in places if place not in (previous, induction)]
    rng.shuffle(rest)
    others = ["answer-1", "answer-2", "repeating", "constant"]
    others += [f"idle-{number}" for number in range(1, len(rest) - len(others) + 1)]
    found = {"previous-token": previous, "induction": induction}
    return Truth(seed, found | dict(zip(others, rest, strict=True)))


def examples(split: str = "", *, n: int = _SIZE, seed: int = 0) -> dict[str, list[str]]:
    """Generate texts as the column ``text``; the same arguments give the same texts everywhere.

    Parameters
    ----------
    split
        There is one set only, without a name.
    n
        How many texts.
    seed
        Chooses other texts of the same kind.
    """
    if split:
        raise HeadtoolError(f"{_SPEC} has one set only, no split '{split}'")
    rng = random.Random(f"{_SPEC}/{seed}")
    return {"text": [_text(rng) for _ in range(n)]}


def _text(rng: random.Random) -> str:
    said = rng.sample(SYLLABLES, _SYLLABLES)
    asked = rng.sample(sorted(QUESTIONS), len(QUESTIONS))
    things = {question: rng.choice(sorted(QUESTIONS[question])) for question in asked}
    named = rng.sample(list(things.values()), len(things))
    answers = [word for question in asked for word in (question, ANSWERS[things[question]])]
    return " ".join([*named, *said, *answers, *said])


def planted_seed(spec: str) -> int | None:
    """Read the seed of ``builtin:planted`` or ``builtin:planted?seed=3``; None for other models.

    Raises
    ------
    HeadtoolError
        If what follows the name is no seed.

    Examples
    --------
    >>> from headtool.builtin.planted import planted_seed
    >>> planted_seed("builtin:planted?seed=3"), planted_seed("builtin:planted")
    (3, 0)
    """
    name, question, setting = spec.partition("?")
    if name != _SPEC:
        return None
    if not question:
        return 0
    key, _, value = setting.partition("=")
    if key != "seed" or not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise HeadtoolError(f"{spec!r} is no planted model; write {_SPEC} or {_SPEC}?seed=3")
    return int(value)
