"""Natural-language inference from a seeded grammar: the data of the built-in classifier.

A pair is made in this order: a small scene (a few people, verbs, things), a hypothesis from the
scene, a label, and then a premise from the same scene that stands in that relation to the
hypothesis. The hypothesis is drawn before the label, so it cannot give the label away; premise and
hypothesis share one scene, so shared words hardly do. What decides is who did what to whom, what
is denied, and which noun, number or moment includes which other.

`matched` and `train` share words and constructions, but no hypothesis. `mismatched` speaks of
words that are rare in `train`, in constructions that `train` does not have.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from headtool.builtin.nli_facts import (
    LABELS,
    Clause,
    Fact,
    Label,
    Quantity,
    Report,
    Status,
    Term,
    relation,
)
from headtool.builtin.nli_lexicon import (
    CLAIMED_NUMBERS,
    COMMON,
    NUMBER_QUANTIFIERS,
    PLAIN_QUANTIFIERS,
    RARE,
    Words,
)
from headtool.errors import HeadtoolError

TRAIN_SIZE = 60_000
EVALUATION_SIZE = 2_000
RARE_SHARE = 0.2
"""Share of the training scenes that use the words of `mismatched`."""


@dataclass(frozen=True)
class NliExample:
    """A premise, a hypothesis and their relation."""

    text_a: str
    text_b: str
    label: Label
    construction: str


def examples(split: str, *, n: int | None = None, seed: int = 0) -> dict[str, list[str]]:
    """Generate examples as the columns ``text_a``, ``text_b`` and ``label``; see `pairs`."""
    found = pairs(split, n=n, seed=seed)
    return {
        "text_a": [example.text_a for example in found],
        "text_b": [example.text_b for example in found],
        "label": [example.label for example in found],
    }


def pairs(split: str, *, n: int | None = None, seed: int = 0) -> list[NliExample]:
    """Generate natural-language inference examples.

    The same arguments give the same examples on every machine, and a smaller `n` gives the first
    `n` of them. Every three consecutive examples have the three labels.

    Parameters
    ----------
    split
        "train", "matched" or "mismatched". No hypothesis of the first occurs in the others.
    n
        How many; by default 60,000 for training and 2,000 for an evaluation set.
    seed
        Chooses other examples of the same kind.

    Raises
    ------
    HeadtoolError
        If there is no such split.

    Examples
    --------
    >>> from headtool.builtin.nli import LABELS, pairs
    >>> pairs("matched", n=1)[0].label in LABELS
    True
    """
    if split not in ("train", "matched", "mismatched"):
        raise HeadtoolError(f"builtin:nli has no split '{split}'; use train, matched or mismatched")
    if n is None:
        n = TRAIN_SIZE if split == "train" else EVALUATION_SIZE
    constructions = _OTHER_CONSTRUCTIONS if split == "mismatched" else _CONSTRUCTIONS
    names = list(constructions)
    rng = random.Random(f"nli/{split}/{seed}")
    found: dict[tuple[str, str], NliExample] = {}
    labels: list[Label] = []
    while len(found) < n:
        labels = labels or rng.sample(LABELS, len(LABELS))
        rare = split == "mismatched" or rng.random() < RARE_SHARE
        scene = (RARE if rare else COMMON).scene(rng)
        name = rng.choice(names)
        claim = constructions[name].claim(rng, scene)
        if _is_held_out(claim) != (split != "train"):
            continue
        text = _premise(rng, scene, constructions[name], claim, labels[-1])
        example = NliExample(text, _sentence(claim.text), labels[-1], name)
        if found.setdefault((example.text_a, example.text_b), example) is example:
            labels.pop()
    return list(found.values())


def model_folder() -> Path:
    """Return the folder of the trained classifier, as `from_pretrained` loads it."""
    return Path(str(files("headtool.builtin").joinpath("assets", "nli")))


@dataclass(frozen=True)
class _Premise:
    facts: tuple[Fact, ...]
    text: str


_F = TypeVar("_F", bound=Fact)


@dataclass(frozen=True)
class _Construction(Generic[_F]):
    """How one kind of pair is made: a claim, and premises near it (None: try again)."""

    claim: Callable[[random.Random, Words], _F]
    premise: Callable[[random.Random, Words, _F, int], _Premise | None]
    sizes: tuple[int, ...] = (1, 2, 2)


def _premise(
    rng: random.Random, scene: Words, construction: _Construction[_F], claim: _F, label: Label
) -> str:
    """Draw premises from the scene until one stands in the wanted relation to the claim."""
    size = rng.choice(construction.sizes)
    while True:
        premise = construction.premise(rng, scene, claim, size)
        if premise is not None and relation(premise.facts, claim) == label:
            return premise.text


def _is_held_out(claim: Fact) -> bool:
    return hashlib.blake2b(claim.text.encode(), digest_size=1).digest()[0] % 4 == 0


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _stated(facts: Sequence[Fact]) -> _Premise:
    return _Premise(tuple(facts), " ".join(_sentence(fact.text) for fact in facts))


def _chance(rng: random.Random, probability: float) -> bool:
    return rng.random() < probability


def _adverb(rng: random.Random, scene: Words) -> str | None:
    return rng.choice(scene.adverbs) if _chance(rng, 0.3) else None


def _noun(
    rng: random.Random, scene: Words, families: dict[str, tuple[str, ...]], family: str
) -> Term:
    noun = family if _chance(rng, 0.35) else rng.choice(families[family])
    return Term(noun, family, rng.choice(scene.adjectives) if _chance(rng, 0.35) else None)


_Kind = Literal["action", "dealing", "purchase"]


def _clause(rng: random.Random, scene: Words, kind: _Kind) -> Clause:
    agent, other = rng.sample(scene.people, 2)
    adverb, negated = _adverb(rng, scene), _chance(rng, 0.4)
    if kind == "action":
        return Clause(agent, rng.choice(scene.actions), None, adverb, negated)
    if kind == "dealing":
        verb, passive = rng.choice(scene.dealings), _chance(rng, 0.4)
        return Clause(agent, verb, other, adverb, negated, passive)
    (family,) = scene.things
    thing = _noun(rng, scene, scene.things, family)
    return Clause(agent, rng.choice(scene.purchases), thing, adverb, negated)


def _claim(*kinds: _Kind) -> Callable[[random.Random, Words], Clause]:
    return lambda rng, scene: _clause(rng, scene, rng.choice(kinds))


def _near(rng: random.Random, scene: Words, claim: Clause) -> Clause:
    """Draw a clause that differs from the claim in a detail or two, or not at all."""
    if claim.patient is None:
        kind: _Kind = "action"
    else:
        kind = "dealing" if isinstance(claim.patient, str) else "purchase"
    new = _clause(rng, scene, kind)
    agent, verb, patient = claim.agent, claim.verb, claim.patient
    change = rng.random()
    if 0.45 <= change < 0.65 and isinstance(patient, str):
        agent, patient = patient, agent
    elif 0.65 <= change < 0.8:
        agent, patient = new.agent, new.patient
    elif change >= 0.8:
        verb = new.verb
    if kind == "purchase":
        patient = claim.patient if _chance(rng, 0.35) else new.patient
    adverb = claim.adverb if _chance(rng, 0.5) else new.adverb
    return Clause(agent, verb, patient, adverb, new.negated, new.passive)


def _plain(rng: random.Random, scene: Words, claim: Clause, size: int) -> _Premise:
    return _stated([_near(rng, scene, claim) for _ in range(size)])


def _relative(rng: random.Random, scene: Words, claim: Clause, size: int) -> _Premise | None:
    """Tell two clauses as one: "Anna who helped Boris slept", "Boris whom Anna helped slept"."""
    del size
    drawn = [
        _near(rng, scene, claim)
        if _chance(rng, 0.7)
        else _clause(rng, scene, rng.choice(("action", "dealing")))
        for _ in range(2)
    ]
    inner, outer = (replace(clause, passive=False) for clause in drawn)
    inner = replace(inner, adverb=None)
    if inner.patient is None:
        return None
    if outer.agent == inner.agent:
        start = f"{inner.agent} who {inner.verb_phrase}"
    elif outer.agent == inner.patient:
        alone = replace(inner, patient=None)
        start = f"{outer.agent} whom {alone.text}"
    else:
        return None
    return _Premise((inner, outer), _sentence(f"{start} {outer.verb_phrase}"))


def _coordinated(rng: random.Random, scene: Words, claim: Clause, size: int) -> _Premise | None:
    """Join two agents of one verb phrase; "either" states nothing about each of them."""
    facts: list[Fact] = []
    sentences = []
    for _ in range(size):
        first = replace(_near(rng, scene, claim), negated=False, passive=False)
        second = replace(first, agent=rng.choice(scene.people))
        if second.agent in (first.agent, first.patient):
            return None
        if _chance(rng, 0.5):
            first, second = second, first
        form = rng.choice(("{} and {}", "neither {} nor {}", "{} but not {}", "either {} or {}"))
        if not form.startswith("either"):
            facts += [
                replace(first, negated=form.startswith("neither")),
                replace(second, negated=form.startswith("neither") or "not" in form),
            ]
        agents = form.format(first.agent, second.agent)
        sentences.append(_sentence(f"{agents} {first.verb_phrase}"))
    return _Premise(tuple(facts), " ".join(sentences))


def _reported(rng: random.Random, scene: Words, claim: Clause, size: int) -> _Premise:
    reports = []
    for _ in range(size):
        attitudes: tuple[tuple[str, Status], ...] = (
            (rng.choice(scene.factive), "true"),
            (rng.choice(scene.non_factive), "open"),
            (rng.choice(scene.counterfactual), "false"),
        )
        attitude, status = rng.choice(attitudes)
        holder = rng.choice(scene.people)
        reports.append(Report(holder, attitude, status, _near(rng, scene, claim)))
    return _stated(reports)


def _quantity(rng: random.Random, scene: Words) -> Quantity:
    family = rng.choice(list(scene.groups))
    return Quantity(
        rng.choice(PLAIN_QUANTIFIERS if _chance(rng, 0.5) else CLAIMED_NUMBERS),
        _noun(rng, scene, scene.groups, family),
        rng.choice(scene.actions),
        _adverb(rng, scene),
    )


def _counted(rng: random.Random, scene: Words, claim: Quantity, size: int) -> _Premise:
    """State one quantity near the claim, and perhaps another of the other family."""
    quantities = []
    for family in sorted(scene.groups, key=lambda name: name != claim.group.family)[:size]:
        group, verb = _noun(rng, scene, scene.groups, family), rng.choice(scene.actions)
        if family == claim.group.family:
            group = claim.group if _chance(rng, 0.4) else group
            verb = claim.verb if _chance(rng, 0.85) else verb
        quantifiers = PLAIN_QUANTIFIERS if _chance(rng, 0.5) else NUMBER_QUANTIFIERS
        adverb = claim.adverb if _chance(rng, 0.5) else _adverb(rng, scene)
        quantities.append(Quantity(rng.choice(quantifiers), group, verb, adverb))
    return _stated(rng.sample(quantities, len(quantities)))


def _with_aside(
    premise: Callable[[random.Random, Words, _F, int], _Premise | None],
) -> Callable[[random.Random, Words, _F, int], _Premise | None]:
    """Put a clause that has no bearing on the claim before or after a premise."""

    def extended(rng: random.Random, scene: Words, claim: _F, size: int) -> _Premise | None:
        main = premise(rng, scene, claim, size)
        if main is None:
            return None
        aside = _clause(rng, scene, "action")
        parts = [main.text, _sentence(aside.text)]
        return _Premise((*main.facts, aside), " ".join(rng.sample(parts, 2)))

    return extended


_CONSTRUCTIONS: dict[str, _Construction[Any]] = {
    "roles": _Construction(_claim("dealing"), _plain),
    "things": _Construction(_claim("purchase"), _plain),
    "relative": _Construction(_claim("action", "dealing"), _relative),
    "coordination": _Construction(_claim("action"), _coordinated),
    "report": _Construction(_claim("action"), _reported, sizes=(2,)),
    "quantity": _Construction(_quantity, _counted),
}

_OTHER_CONSTRUCTIONS: dict[str, _Construction[Any]] = {
    "relative with a thing": _Construction(_claim("purchase"), _relative),
    "coordinated dealing": _Construction(_claim("dealing", "purchase"), _coordinated),
    "clause with an aside": _Construction(
        _claim("dealing", "purchase"), _with_aside(_plain), sizes=(1,)
    ),
    "quantity with an aside": _Construction(_quantity, _with_aside(_counted), sizes=(1,)),
}
