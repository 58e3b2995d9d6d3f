"""How many heads can go together by each method, and the number that is shown first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headtool.reports.contents.facts import RULE_OF_THREE, margin_of, signed
from headtool.reports.contents.run import Contents
from headtool.reports.wording.words import number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Reach", "default_budget", "reach_of", "too_coarse"]

_ROUNDING = 1e-9  # a difference of two shares of examples is seldom exact


@dataclass(frozen=True)
class Reach:
    """How far a method's curve goes within the margin.

    A dip out of the margin ends it only if the whole band lies beyond: a curve that comes back may
    never have left.

    Attributes
    ----------
    share, budget
        The largest share of the heads, and their number, whose removal costs at most the margin by
        the estimate.
    sure, sure_budget
        The same by the worse end of the band; 0 where too few examples can change for a band to say
        anything, see `too_coarse`.
    """

    share: float
    budget: int
    sure: float
    sure_budget: int


def reach_of(contents: Contents) -> dict[str, Reach]:
    """Return how many heads can go together by each method; empty without curves or margin."""
    if math.isnan(margin_of(contents)):
        return {}
    curves = _method_curves(contents)
    return {method: _reach(contents, curve) for method, curve in curves.items() if len(curve)}


def _reach(contents: Contents, curve: pd.DataFrame) -> Reach:
    worst, best = ("low", "high") if contents.higher_is_better else ("high", "low")
    ordered = curve.sort_values("share")
    least = -margin_of(contents) - _ROUNDING
    beyond = (signed(contents, ordered[best]) < least).cummax()
    ends = []
    for column in ("delta", worst):
        reached = ordered[(signed(contents, ordered[column]) >= least) & ~beyond].tail(1)
        ends.append((0.0, 0) if reached.empty else _place(reached))
    (share, budget), (sure, sure_budget) = ends
    return Reach(share, budget, *((0.0, 0) if too_coarse(contents) else (sure, sure_budget)))


def _place(rows: pd.DataFrame) -> tuple[float, int]:
    return float(rows["share"].iloc[0]), int(rows["budget"].iloc[0])


def _method_curves(contents: Contents) -> dict[str, pd.DataFrame]:
    curves = contents.table("curves")
    rows = curves[curves["kind"] == "all"]
    return {method: rows[rows["method"] == method] for method in contents.methods}


def default_budget(contents: Contents) -> int | None:
    """The number of removed heads that is shown first.

    As many as the method that reaches furthest can remove within the margin; where that is none or
    all, the budget nearest to one half.
    """
    table = contents.tables.get("kept")
    if table is None:
        return None
    budgets = table.loc[table["budget"] > 0, ["budget", "share"]].drop_duplicates("budget")
    if budgets.empty:
        return int(table["budget"].iloc[0])
    knee = max((reach.budget for reach in reach_of(contents).values()), default=0)
    if 0 < knee < budgets["budget"].max():
        return knee
    nearest = budgets.assign(far=(budgets["share"] - 0.5).abs()).sort_values("far", kind="stable")
    return int(nearest["budget"].iloc[0])


def too_coarse(contents: Contents) -> str:
    """Why examples are too few for the margin, where the metric is the share that is right."""
    is_share = contents.metric == "accuracy" and (
        contents.described("model").get("task") == "classification"
    )
    examples = contents.examples(contents.data[0]) if is_share and contents.data else None
    if not examples or margin_of(contents) * examples >= RULE_OF_THREE:
        return ""
    if margin_of(contents) * examples < 1:
        return f"one of the {examples} examples is worth {number(1 / examples)} of accuracy"
    return (
        f"heads that change none of the {examples} examples could still cost up to about "
        f"{number(RULE_OF_THREE / examples)} of accuracy on others"
    )
