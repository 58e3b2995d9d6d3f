"""What the sentences of the built-in inference data mean.

A sentence states facts. `relation` decides, from the facts alone, whether a premise entails or
contradicts a hypothesis; the grammar in `headtool.builtin.nli` never asserts a label itself.

Conventions: "the baker" names one person throughout a pair; a group that is mentioned ("all small
dogs") has at least one member; two different verbs, places or adjectives exclude nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Label = Literal["entailment", "neutral", "contradiction"]
ENTAILMENT: Label = "entailment"
NEUTRAL: Label = "neutral"
CONTRADICTION: Label = "contradiction"
LABELS: tuple[Label, ...] = (ENTAILMENT, NEUTRAL, CONTRADICTION)


@dataclass(frozen=True)
class Verb:
    """A verb with the three forms that the grammar uses."""

    base: str
    past: str
    participle: str


@dataclass(frozen=True)
class Term:
    """A noun, perhaps with an adjective; `family` is the noun's hypernym (its own, for one)."""

    noun: str
    family: str
    adjective: str | None = None

    def within(self, other: Term) -> bool:
        """Tell whether everything that is `self` is also `other`."""
        return other.noun in (self.noun, self.family) and other.adjective in (None, self.adjective)

    @property
    def text(self) -> str:
        """The words, without an article."""
        return f"{self.adjective} {self.noun}" if self.adjective else self.noun


@dataclass(frozen=True)
class Clause:
    """A person does something, perhaps to a person (`str`) or a thing (`Term`)."""

    agent: str
    verb: Verb
    patient: str | Term | None = None
    place: str | None = None
    negated: bool = False
    passive: bool = False

    def within(self, other: Clause) -> bool:
        """Tell whether every event that `self` describes is also one that `other` describes."""
        if isinstance(self.patient, Term) and isinstance(other.patient, Term):
            same_patient = self.patient.within(other.patient)
        else:
            same_patient = self.patient == other.patient
        return (
            (self.agent, self.verb) == (other.agent, other.verb)
            and same_patient
            and other.place in (None, self.place)
        )

    def relation(self, claim: Clause) -> Label:
        """Label `claim` given that this clause holds."""
        told = claim.within(self) if self.negated else self.within(claim)
        if not told:
            return NEUTRAL
        return ENTAILMENT if self.negated == claim.negated else CONTRADICTION

    @property
    def predicate(self) -> str:
        """The clause without its subject."""
        if self.passive:
            words = ["was", "not" if self.negated else "", self.verb.participle, "by the", self.agent]
        else:
            words = ["did not", self.verb.base] if self.negated else [self.verb.past]
            if isinstance(self.patient, Term):
                article = "an" if self.patient.text[0] in "aeiou" else "a"
                words += [article, self.patient.text]
            elif self.patient is not None:
                words += ["the", self.patient]
        return " ".join(word for word in (*words, self.place or "") if word)

    @property
    def text(self) -> str:
        """The clause as a sentence."""
        return f"the {self.patient if self.passive else self.agent} {self.predicate}"


@dataclass(frozen=True)
class Report:
    """Somebody holds an attitude to a clause; `status` is what that says about the clause."""

    holder: str
    attitude: str
    status: Literal["true", "open", "false"]
    clause: Clause

    def relation(self, claim: Clause) -> Label:
        """Label `claim` given that this report holds."""
        if self.status == "open":
            return NEUTRAL
        clause = self.clause
        if self.status == "false":
            clause = replace(clause, negated=not clause.negated)
        return clause.relation(claim)

    @property
    def text(self) -> str:
        """The report as a sentence."""
        return f"the {self.holder} {self.attitude} that {self.clause.text}"


@dataclass(frozen=True)
class Quantifier:
    """A range of counts (`low` to `high` members do it), or a share of the group."""

    text: str
    low: float = 0
    high: float = math.inf
    share: Literal["all", "not all"] | None = None


@dataclass(frozen=True)
class Quantity:
    """So many of a group did something."""

    quantifier: Quantifier
    group: Term
    verb: Verb
    place: str | None = None

    def relation(self, claim: Quantity) -> Label:
        """Label `claim` given that this quantity holds."""
        if self.verb != claim.verb:
            return NEUTRAL
        narrower = claim.group.within(self.group)
        wider = self.group.within(claim.group)
        looser = claim.place in (None, self.place)
        stricter = self.place in (None, claim.place)
        if self.quantifier.share == "all" and claim.quantifier.share:
            return _label(narrower and looser, claim.quantifier.share == "all")
        if self.quantifier.share == "not all":
            return _label(
                wider and stricter and claim.quantifier.share is not None,
                claim.quantifier.share == "not all",
            )
        low, high = self.quantifier.low, self.quantifier.high
        if self.quantifier.share == "all":
            if not (looser and (narrower or wider)):
                return NEUTRAL
            low, high = 1, math.inf
        elif claim.quantifier.share:
            none_did = high == 0 and stricter and (narrower or wider)
            return _label(none_did, claim.quantifier.share == "not all")
        else:
            low = low if wider and looser else 0
            high = high if narrower and stricter else math.inf
        if claim.quantifier.low <= low and high <= claim.quantifier.high:
            return ENTAILMENT
        disjoint = high < claim.quantifier.low or claim.quantifier.high < low
        return CONTRADICTION if disjoint else NEUTRAL

    @property
    def text(self) -> str:
        """The quantity as a sentence."""
        words = (self.quantifier.text, self.group.text, self.verb.past, self.place or "")
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Order:
    """`more` exceeds `less` on a scale (or comes before it, on the scale "time").

    `reverse` chooses the converse wording ("shorter", "after"); `negated` denies the fact.
    """

    scale: tuple[str, str]
    more: str
    less: str
    reverse: bool = False
    negated: bool = False

    @property
    def text(self) -> str:
        """The comparison as a sentence."""
        first, second = (self.less, self.more) if self.reverse else (self.more, self.less)
        return f"{first} {'not ' if self.negated else ''}{self.scale[self.reverse]} {second}"


Fact = Clause | Report | Quantity | Order


def relation(premise: Sequence[Fact], hypothesis: Fact) -> Label | None:
    """Label a hypothesis given everything that a premise states.

    Returns
    -------
    "entailment", "neutral" or "contradiction"; None when the premise contradicts itself.
    """
    if isinstance(hypothesis, Order):
        return _order_relation([fact for fact in premise if isinstance(fact, Order)], hypothesis)
    found = {_single(fact, hypothesis) for fact in premise} - {NEUTRAL}
    if len(found) > 1 or _inconsistent(premise):
        return None
    return found.pop() if found else NEUTRAL


def _label(decided: bool, agrees: bool) -> Label:
    if not decided:
        return NEUTRAL
    return ENTAILMENT if agrees else CONTRADICTION


def _single(fact: Fact, claim: Fact) -> Label:
    if isinstance(fact, Quantity) and isinstance(claim, Quantity):
        return fact.relation(claim)
    if isinstance(fact, Clause | Report) and isinstance(claim, Clause):
        return fact.relation(claim)
    return NEUTRAL


def _inconsistent(premise: Sequence[Fact]) -> bool:
    plain: list[Fact] = []
    for fact in premise:
        if isinstance(fact, Report):
            if fact.status == "open":
                continue
            negated = fact.clause.negated != (fact.status == "false")
            plain.append(replace(fact.clause, negated=negated))
        else:
            plain.append(fact)
    return any(_single(a, b) != NEUTRAL for a in plain for b in plain if a is not b)


def _order_relation(premise: Sequence[Order], claim: Order) -> Label | None:
    pairs = {(fact.scale, fact.more, fact.less) for fact in premise}
    while chained := _chains(pairs) - pairs:
        pairs |= chained
    if any(more == less for _, more, less in pairs):
        return None
    if (claim.scale, claim.more, claim.less) in pairs:
        return _label(True, not claim.negated)
    return _label((claim.scale, claim.less, claim.more) in pairs, claim.negated)


def _chains(
    pairs: Iterable[tuple[tuple[str, str], str, str]],
) -> set[tuple[tuple[str, str], str, str]]:
    return {(s, a, d) for s, a, b in pairs for t, c, d in pairs if s == t and b == c}
