"""What a run found about sets of heads: how many can go, who keeps which, do effects add up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import (
    interval,
    level_of,
    margin_of,
)
from headtool.reports.contents.reach import default_budget, reach_of, too_coarse
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import listed, number, percent

if TYPE_CHECKING:
    pass

Row = Mapping[str, Any]

__all__ = ["additivity_finding", "consensus_finding", "removal_finding"]


def removal_finding(contents: Contents) -> Finding | None:
    """How many heads can be removed at once."""
    reach = reach_of(contents)
    margin, metric = margin_of(contents), contents.measure
    if not reach:
        return None
    estimated = {m: (one.share, one.budget) for m, one in reach.items()}
    sure = {m: (one.sure, one.sure_budget) for m, one in reach.items()}
    band, limit = f"{level_of(contents)} band", f"the margin of {number(margin)}"
    coarse = too_coarse(contents)
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
            f"No heads removed together are shown to cost less than {number(margin)} of {metric}: "
            f"the {band} is not within that margin even at the first step, whichever method "
            f"chooses them. By the estimate alone, {_furthest(estimated)}."
        )
    else:
        curves = contents.table("curves").query("kind == 'all' and share > 0")
        step = curves.sort_values("share").head(1)
        size = "".join(f" ({row['budget']} heads)" for row in records(step))
        headline = (
            f"Removed together, even the first step{size} is estimated to cost more than "
            f"{number(margin)} of {metric}, whichever method chooses the heads."
        )
    each, surely = (
        listed([f"{percent(far[m][0])} for {m}" for m in reach]) for far in (estimated, sure)
    )
    detail = (
        f"The largest share that can be removed at an estimate within {limit}, before the whole "
        f"{band} lies beyond it: {each}. "
        + (
            f"At a {band} within it: {surely}. "
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
