"""The meaning of the sentences in the built-in inference data.

Sentences state facts. `relation` decides from the facts alone whether a premise entails or
contradicts a hypothesis; the grammar in `headtool.builtin.nli` never asserts a label itself.

Conventions: a name is one person throughout a pair; a group that is mentioned ("all small dogs")
has at least one member; different verbs, nouns, adjectives or adverbs exclude nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Label = Literal["entailment", "neutral", "contradiction"]
Status = Literal["true", "open", "false"]
ENTAILMENT: Label = "entailment"
NEUTRAL: Label = "neutral"
CONTRADICTION: Label = "contradiction"
LABELS: tuple[Label, ...] = (ENTAILMENT, NEUTRAL, CONTRADICTION)


@dataclass(frozen=True)
class Verb:
    """A verb in the three forms that the grammar uses."""

    base: str
    past: str
    participle: str


@dataclass(frozen=True)
class Term:
    """A noun, perhaps with an adjective; `family` is its hypernym (a hypernym is its own)."""

    noun: str
    family: str
    adjective: str | None = None

    def within(self, other: Term) -> bool:
        """Tell whether everything that `self` describes is described by `other` as well."""
        return other.noun in (self.noun, self.family) and other.adjective in (None, self.adjective)

    @property
    def text(self) -> str:
        """The words, without an article."""
        return _spaced(self.adjective, self.noun)


@dataclass(frozen=True)
class Clause:
    """Somebody did, or did not do, something: alone, to a person (`str`) or to a thing."""

    agent: str
    verb: Verb
    patient: str | Term | None = None
    adverb: str | None = None
    negated: bool = False
    passive: bool = False

    def within(self, other: Clause) -> bool:
        """Tell whether every event that `self` describes is described by `other` as well."""
        if isinstance(self.patient, Term) and isinstance(other.patient, Term):
            patient_within = self.patient.within(other.patient)
        else:
            patient_within = self.patient == other.patient
        return (
            (self.agent, self.verb) == (other.agent, other.verb)
            and patient_within
            and other.adverb in (None, self.adverb)
        )

    def relation(self, claim: Clause) -> Label:
        """Label `claim` given that this clause is true."""
        known = claim.within(self) if self.negated else self.within(claim)
        return _label(known, agrees=self.negated == claim.negated)

    @property
    def verb_phrase(self) -> str:
        """The active clause without its subject."""
        verb = f"did not {self.verb.base}" if self.negated else self.verb.past
        patient = self.patient
        if isinstance(patient, Term):
            patient = _spaced("an" if patient.text[0] in "aeiou" else "a", patient.text)
        return _spaced(verb, patient, self.adverb)

    @property
    def text(self) -> str:
        """The clause in words."""
        if not self.passive or not isinstance(self.patient, str):
            return _spaced(self.agent, self.verb_phrase)
        was = "was not" if self.negated else "was"
        return _spaced(self.patient, was, self.verb.participle, "by", self.agent, self.adverb)


@dataclass(frozen=True)
class Report:
    """Somebody's attitude to a clause; `status` is what the attitude says about its truth."""

    holder: str
    attitude: str
    status: Status
    clause: Clause

    @property
    def implied(self) -> Clause | None:
        """The clause that is true if this report is; None if there is none."""
        if self.status == "open":
            return None
        return replace(self.clause, negated=self.clause.negated != (self.status == "false"))

    @property
    def text(self) -> str:
        """The report in words."""
        return f"{self.holder} {self.attitude} that {self.clause.text}"


@dataclass(frozen=True)
class Quantifier:
    """A range of counts (from `low` to `high` members did it) or a share of the group."""

    text: str
    low: float = 0
    high: float = math.inf
    share: Literal["all", "not all"] | None = None


@dataclass(frozen=True)
class Quantity:
    """How many of a group did something."""

    quantifier: Quantifier
    group: Term
    verb: Verb
    adverb: str | None = None

    def relation(self, claim: Quantity) -> Label:
        """Label `claim` given that this quantity is true."""
        group_shrinks, group_grows = claim.group.within(self.group), self.group.within(claim.group)
        if self.verb != claim.verb or not (group_shrinks or group_grows):
            return NEUTRAL
        event_grows = claim.adverb in (None, self.adverb)
        event_shrinks = self.adverb in (None, claim.adverb)
        share, claimed = self.quantifier.share, claim.quantifier
        if share and claimed.share:
            carried = (
                group_shrinks and event_grows if share == "all" else group_grows and event_shrinks
            )
            return _label(carried, agrees=share == claimed.share)
        if share == "not all":
            return NEUTRAL
        if share == "all":
            low, high = (1.0 if event_grows else 0.0), math.inf
        elif claimed.share:
            nobody = self.quantifier.high == 0 and event_shrinks
            return _label(nobody, agrees=claimed.share == "not all")
        else:
            low = self.quantifier.low if group_grows and event_grows else 0
            high = self.quantifier.high if group_shrinks and event_shrinks else math.inf
        if claimed.low <= low and high <= claimed.high:
            return ENTAILMENT
        return CONTRADICTION if high < claimed.low or claimed.high < low else NEUTRAL

    @property
    def text(self) -> str:
        """The quantity in words."""
        return _spaced(self.quantifier.text, self.group.text, self.verb.past, self.adverb)


Fact = Clause | Report | Quantity


def relation(premise: Sequence[Fact], claim: Fact) -> Label | None:
    """Label a claim given everything that a premise states.

    Parameters
    ----------
    premise
        The stated facts.
    claim
        The hypothesis: a clause or a quantity.

    Returns
    -------
    The label, or None if the premise contradicts or repeats itself.
    """
    facts = [fact.implied if isinstance(fact, Report) else fact for fact in premise]
    stated = [fact for fact in facts if fact is not None]
    if any(
        _single(fact, other) != NEUTRAL for fact in stated for other in stated if fact is not other
    ):
        return None
    found = {_single(fact, claim) for fact in stated} - {NEUTRAL}
    return found.pop() if found else NEUTRAL


def _spaced(*words: str | None) -> str:
    return " ".join(word for word in words if word)


def _label(known: bool, *, agrees: bool) -> Label:
    if not known:
        return NEUTRAL
    return ENTAILMENT if agrees else CONTRADICTION


def _single(fact: Fact, claim: Fact) -> Label:
    if isinstance(fact, Clause) and isinstance(claim, Clause):
        return fact.relation(claim)
    if isinstance(fact, Quantity) and isinstance(claim, Quantity):
        return fact.relation(claim)
    return NEUTRAL
