"""The answer in one sentence: which methods choose best, how many heads can go, how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headtool.reports.contents.facts import alpha_of, margin_of, tested_effects
from headtool.reports.contents.reach import reach_of
from headtool.reports.contents.run import Contents, records
from headtool.reports.findings.winner import against_random
from headtool.reports.wording.words import count, is_or_are, listed, number, percent

__all__ = ["headline"]

_FEW_SETTLED = 0.1
_NAMED = 4  # methods that a sentence names one by one
_UNSURE = ", which the data are too few to confirm"
_NONE_SETTLED = "the data are too few to settle single heads"
_NEITHER = "; the data are too few to confirm that, or to settle single heads"


def headline(contents: Contents) -> str:
    """Return the verdict of a run; empty where it has neither curves nor tests of heads.

    Methods are ranked by random masks that are the same for all of them. Masks that match a
    method's layers differ from method to method, and do not rank.
    """
    parts = [part for part in (_best(contents), _share(contents), _singles(contents)) if part]
    text = "; ".join(parts).replace(f"{_UNSURE}; {_NONE_SETTLED}", _NEITHER)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _best(contents: Contents) -> str:
    """The methods that no other beats, of those that beat random masks."""
    groups = against_random(contents)
    if not groups:
        return ""
    won = [str(row["method_x"]) for row in groups["won"]]
    if len(contents.methods) == 1:
        is_shown = "chooses better than" if won else "is not shown to choose better than lucky"
        return f"{contents.methods[0]} {is_shown} random masks"
    beats = _beats(contents)
    beaten = {loser for losers in beats.values() for loser in losers}
    if won:
        best = [method for method in won if method not in beaten] or won
        which = "best" if len(best) < len(contents.methods) else "equally well"
        return f"{listed(best)} {_choose(best)} {which}{_worse(groups['lost'])}"
    unbeaten = [method for method in beats if method not in beaten]
    losers = [method for method in contents.methods if all(method in beats[m] for m in unbeaten)]
    if unbeaten and losers:
        return (
            f"{listed(unbeaten)} {_choose(unbeaten)} better than {_counted(losers, contents)}, but "
            "no method is shown to choose better than lucky random masks"
        )
    return "no method is shown to choose better than lucky random masks"


def _worse(lost: Sequence[Mapping[str, Any]]) -> str:
    """The methods that choose worse than random masks, if there are any."""
    if not lost:
        return ""
    names = [str(row["method_x"]) for row in lost]
    return f", and {listed(names)} {_choose(names)} worse than random masks"


def _counted(losers: Sequence[str], contents: Contents) -> str:
    """Methods by name, or how many they are where names would be a long list."""
    if len(losers) <= _NAMED:
        return listed(losers)
    return f"{len(losers)} of the {len(contents.methods)} methods"


def _beats(contents: Contents) -> dict[str, set[str]]:
    """By method, the methods whose curves are worse than its own."""
    tests = contents.table("curve_tests")
    pairs = tests[(tests["kind"] == "all") & (tests["p_adjusted"] < alpha_of(contents))]
    found: dict[str, set[str]] = {}
    for row in records(pairs):
        pair = str(row["method_x"]), str(row["method_y"])
        if pair[1] in contents.methods:
            better, worse = pair if row["area"] > 0 else pair[::-1]
            found.setdefault(better, set()).add(worse)
    return found


def _choose(methods: Sequence[str]) -> str:
    return "chooses" if len(methods) == 1 else "choose"


def _share(contents: Contents) -> str:
    """How many heads can go together, by the method that reaches furthest."""
    found = reach_of(contents)
    if not found:
        return ""
    cost = f"{number(margin_of(contents))} of {contents.measure}"
    method, reach = max(found.items(), key=lambda item: item[1].budget)
    if not reach.budget:
        return f"removing even the first heads together costs more than {cost}"
    heads = f"{percent(reach.share)} of the heads ({reach.budget})"
    text = f"{heads} can go for at most {cost} by the estimate"
    if len(found) > 1 and sum(other.budget == reach.budget for other in found.values()) == 1:
        text += f" (chosen by {method})"
    surely = max(found.values(), key=lambda other: other.sure_budget)
    if surely.sure_budget == 0:
        return text + _UNSURE
    return f"{text}, {percent(surely.sure)} for sure"


def _singles(contents: Contents) -> str:
    """How many single heads the data settle."""
    effects = tested_effects(contents)
    if "verdict" not in effects or effects.empty:
        return ""
    rows = effects[effects["data"] == contents.data[0]] if "data" in effects else effects
    counts = rows["verdict"].value_counts()
    settled = len(rows) - int(counts.get("undecided", 0))
    if settled <= _FEW_SETTLED * len(rows):
        return (
            _NONE_SETTLED
            if settled == 0
            else f"the data settle only {settled} of the {len(rows)} heads taken one at a time"
        )
    parts = [
        f"{counts[name]} {is_or_are(int(counts[name]))} {name}"
        for name in ("needed", "harmful", "removable")
        if counts.get(name, 0)
    ]
    return f"of the {count(len(rows), 'head')} one at a time, {listed(parts)}"
