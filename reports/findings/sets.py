"""What a run found about sets of heads: how many can go together, and which method chooses best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import (
    RULE_OF_THREE,
    default_budget,
    interval,
    level_of,
    margin_of,
    signed,
)
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import given, listed, number, percent

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]

_ROUNDING = 1e-9  # a difference of two shares of examples is seldom exact
__all__ = ["additivity_finding", "consensus_finding", "removal_finding"]


def removal_finding(contents: Contents) -> Finding | None:
    """How many heads can be removed at once."""
    curves = {m: c for m, c in _method_curves(contents).items() if len(c)}
    margin, metric = margin_of(contents), contents.measure
    if not curves or math.isnan(margin):
        return None
    estimated = {m: _reach(contents, curve, "delta") for m, curve in curves.items()}
    edge = "low" if contents.higher_is_better else "high"
    sure = {m: _reach(contents, curve, edge) for m, curve in curves.items()}
    band, limit = f"{level_of(contents)} band", f"the margin of {given(margin)}"
    coarse = _coarse(contents)
    if coarse:
        headline = (
            f"These data cannot resolve {limit}: {coarse}. By the estimate alone, "
            f"{_furthest(estimated)}."
        )
    elif any(budget for _, budget in sure.values()):
        headline = (
            f"Removed together, {_furthest(sure)} before the {band} of {metric} leaves {limit}; "
            f"by the estimate alone, {_furthest(estimated)}."
        )
    elif any(budget for _, budget in estimated.values()):
        headline = (
            f"No heads removed together are shown to cost less than {given(margin)} of {metric}: "
            f"the {band} is not within that margin even at the first step, whichever method "
            f"chooses them. By the estimate alone, {_furthest(estimated)}."
        )
    else:
        step = next(iter(curves.values())).query("share > 0").sort_values("share").head(1)
        size = "".join(f" ({row['budget']} heads)" for row in records(step))
        headline = (
            f"Removed together, even the first step{size} is estimated to cost more than "
            f"{given(margin)} of {metric}, whichever method chooses the heads."
        )
    each, surely = (
        listed([f"{percent(reach[m][0])} for {m}" for m in curves]) for reach in (estimated, sure)
    )
    detail = (
        f"The largest share that can be removed before the estimate leaves {limit}: {each}. "
        + (
            f"Before the {band} leaves it: {surely}. "
            if any(budget for _, budget in sure.values())
            else f"The {band} is not within it even at the first step, for any method. "
        )
        + "The heads were chosen on other examples than those that measure them here."
    )
    return Finding("curves", headline, detail)


def _furthest(reach: Mapping[str, tuple[float, int]]) -> str:
    """How many heads can go by the methods that reach furthest, all of them if they are tied."""
    share, budget = max(reach.values(), key=lambda reached: reached[1])
    if not budget:
        return "none can go, whichever method chooses them"
    best = [method for method, reached in reach.items() if reached[1] == budget]
    tied = f" ({'both' if len(best) == 2 else 'all'} reach equally far)" if len(best) > 1 else ""
    return (
        f"{budget} of the {round(budget / share)} heads ({percent(share)}), chosen by "
        f"{' or '.join(best)}{tied}, can go"
    )


def _coarse(contents: Contents) -> str:
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


def _reach(contents: Contents, curve: pd.DataFrame, column: str) -> tuple[float, int]:
    """Up to which share and budget a curve stays within the margin, without a break."""
    ordered = curve.sort_values("share")
    inside = signed(contents, ordered[column]) >= -margin_of(contents) - _ROUNDING
    reached = ordered[inside.cummin()]
    if reached.empty:
        return 0.0, 0
    last = reached.iloc[-1]
    return float(last["share"]), int(last["budget"])


def _method_curves(contents: Contents) -> dict[str, pd.DataFrame]:
    curves = contents.table("curves")
    rows = curves[curves["kind"] == "all"]
    return {method: rows[rows["method"] == method] for method in contents.methods}


def consensus_finding(contents: Contents) -> Finding | None:
    """How many heads all methods keep, none keeps, or they dispute."""
    budget = default_budget(contents)
    table = contents.table("consensus")
    rows = table[table["budget"] == budget]
    if rows.empty or len(contents.methods) < 2:
        return None
    counts = rows["status"].value_counts()
    kept, removed, disputed = (
        int(counts.get(name, 0)) for name in ("consensus-kept", "consensus-removed", "disputed")
    )
    headline = (
        f"With {percent(float(rows['share'].iloc[0]))} of the heads removed, all methods keep "
        f"{kept} of the {len(rows)}, all remove {removed}, and {disputed} are disputed."
    )
    return Finding("kept", headline)


def additivity_finding(contents: Contents) -> Finding | None:
    """Whether what heads cost together is the sum of what each costs."""
    table, budget = contents.table("additivity"), default_budget(contents)
    rows = table[(table["budget"] == budget) & table["gap"].notna()]
    if rows.empty:
        return None
    apart = rows[rows["low"].gt(0) | rows["high"].lt(0)]
    row = (apart if len(apart) else rows).iloc[0]
    opening = (
        "Single effects do not add up"
        if len(apart)
        else "It stays open whether single effects add up"
    )
    headline = (
        f"{opening}: the {int(row['budget'])} heads that {row['method']} removes "
        f"first change {contents.measure} by {number(row['joint'])} when removed together, and by "
        f"{number(row['sum_of_singles'])} if their single effects are added up "
        f"(difference {number(row['gap'])}, interval {interval(row)})."
    )
    each = "; ".join(
        [
            f"{part['method']} {number(part['joint'])} together, "
            f"{number(part['sum_of_singles'])} as the sum of single effects"
            for _, part in rows.iterrows()
        ]
    )
    share = percent(float(row["share"]))
    detail = f"Change of {contents.measure} with {share} of the heads removed: {each}."
    return Finding("additivity", headline, detail)
