"""The ways to look at a run's heads: each method's scores and choices, their consensus, effects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headtool.reports.blocks import Choices, View
from headtool.reports.charts.heads import LEVELS, level
from headtool.reports.contents.heads import Heads, places
from headtool.reports.contents.reach import default_budget
from headtool.reports.contents.roles import HeadRoles
from headtool.reports.contents.run import Contents, records
from headtool.reports.sections.series import method_class
from headtool.reports.wording.words import number, percent

__all__ = ["CONSENSUS", "choices_of"]

CONSENSUS = "consensus"


def choices_of(contents: Contents, heads: Heads, roles: HeadRoles) -> Choices | None:
    """What there is to choose from; None for a run without scores, effects or roles.

    Parameters
    ----------
    contents
        The run.
    heads
        The run's heads.
    roles
        The roles of these heads.
    """
    views = _score_views(contents, heads) or _effect_view(contents, heads)
    by_role = [View("roles", "", [-1] * len(heads.places), [], by_role=True)] if roles.known else []
    if not views and not by_role:
        return None
    kept = contents.table("kept")
    pairs = kept[["budget", "share"]].drop_duplicates("budget").sort_values("budget")
    budgets = [
        (int(b), percent(float(s))) for b, s in zip(pairs["budget"], pairs["share"], strict=True)
    ]
    default = default_budget(contents)
    place = next((i for i, (budget, _) in enumerate(budgets) if budget == default), 0)
    if budgets and len(views) > 1:
        views = [*views, _consensus(views, budgets[place][0])]
    return Choices([*views, *by_role], budgets, 0, place)


def _consensus(views: Sequence[View], budget: int) -> View:
    """How many methods keep each head."""
    keeping = {
        number: [sum(stays) for stays in zip(*(view.kept[number] for view in views), strict=True)]
        for number in views[0].kept
    }
    return View(
        CONSENSUS,
        "",
        [_keeping_level(count, len(views)) for count in keeping[budget]],
        [],
        kept={number: [count > 0 for count in counts] for number, counts in keeping.items()},
        keeping=keeping,
    )


def _keeping_level(count: int, methods: int) -> int:
    """Shade of a head that so many of the methods keep."""
    return (LEVELS - 1) * count // methods


def _score_views(contents: Contents, heads: Heads) -> list[View]:
    scores, kept = contents.table("scores"), contents.table("kept")
    views = []
    for method in contents.methods:
        rows = scores[scores["method"] == method]
        by_place = dict(zip(places(rows), records(rows), strict=True))
        values = [float(by_place.get(p, {}).get("score", math.nan)) for p in heads.places]
        finite = [value for value in values if math.isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
        by_budget = {}
        for budget, part in kept[kept["method"] == method].groupby("budget"):
            stays = dict(zip(places(part), part["kept"].astype(bool).tolist(), strict=True))
            # Heads that were not up for removal stay.
            by_budget[int(str(budget))] = [stays.get(p, True) for p in heads.places]
        views.append(
            View(
                method,
                method_class(contents, method),
                [level(value, low, high) for value in values],
                [_with_error(by_place.get(p, {})) for p in heads.places],
                [int(by_place[p]["rank"]) if p in by_place else 0 for p in heads.places],
                by_budget,
            )
        )
    return views


def _with_error(row: Mapping[str, Any]) -> str:
    if not row:
        return "no score"
    error = row["stderr"]
    return number(row["score"]) + ("" if math.isnan(error) else f" ± {number(error)}")


def _effect_view(contents: Contents, heads: Heads) -> list[View]:
    """Effects as the only view, for a run without scores."""
    sign = -1.0 if contents.higher_is_better else 1.0
    values = [sign * float(heads.effects.get(p, {}).get("delta", math.nan)) for p in heads.places]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return []
    extent = math.nan
    low, high = min(finite), max(finite)
    if contents.all_but_one:  # a head that does well alone matters
        values = [-value for value in values]
        low, high = -high, -low
    else:
        extent = max(-low, high)
        low, high = -(extent or 1.0), extent or 1.0  # no effect at all: the middle
    return [
        View(
            f"change of {contents.measure}",
            "",
            [level(value, low, high) for value in values],
            [number(heads.effects.get(p, {}).get("delta", math.nan)) for p in heads.places],
            extent=extent,
        )
    ]
