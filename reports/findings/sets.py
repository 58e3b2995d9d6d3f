"""What a run found about sets of heads: how many can go together, and which method chooses best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import (
    MATCHED,
    RULE_OF_THREE,
    alpha_of,
    default_budget,
    interval,
    level_of,
    margin_of,
    signed,
)
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import count, given, is_or_are, listed, number, p_value, percent

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]

_ROUNDING = 1e-9  # a difference of two shares of examples is seldom exact
__all__ = ["additivity_finding", "consensus_finding", "removal_finding", "winner_finding"]


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


def winner_finding(contents: Contents) -> Finding | None:
    """Which methods beat random masks, and which of them beats which."""
    rows = _versus_random(contents)
    if rows.empty:
        return None
    alpha = alpha_of(contents)
    groups = _grouped(rows.sort_values("area", ascending=False, kind="stable"), alpha)
    headline = _against_matched(contents, groups)
    headline += _versus_any(contents)
    tests = contents.table("curve_tests")
    pairs = tests[
        (tests["kind"] == "all") & ~tests["method_y"].astype(str).str.startswith("random")
    ]
    clear = pairs[pairs["p_adjusted"] < alpha]
    if len(pairs):
        headline += " " + _ranking(clear)
    caution = (
        "Matched masks differ from method to method: they show what a method knows beyond how many "
        "heads each layer needs, but only the direct comparison ranks the methods."
    )
    models = len(contents.described("replicates"))
    if models > 1:
        caution += f" Areas are means over the {models} models, and tested over these."
    return Finding("winner", headline, f"{_direct(pairs, clear)} {caution}".strip())


def _versus_random(contents: Contents) -> pd.DataFrame:
    tests = contents.table("curve_tests")
    rows = tests[tests["kind"] == "all"]
    return rows[rows["method_y"] == MATCHED + rows["method_x"].astype(str)]


def _grouped(rows: pd.DataFrame, alpha: float) -> dict[str, list[Row]]:
    """Methods by how they do against random masks.

    ``won`` and ``lost``: better, or worse, than their mean and than all but few of the draws;
    ``lucky`` and ``unlucky``: better, or worse, than the mean, but a random draw could do as well,
    or as badly; ``open``: none of these.
    """
    groups: dict[str, list[Row]] = {
        name: [] for name in ("won", "lucky", "lost", "unlucky", "open")
    }
    for row in records(rows):
        if not row["p_adjusted"] < alpha:
            groups["open"].append(row)
            continue
        better = row["area"] > 0
        sided = (2 * row["draws_beaten"] > row["draws"]) == better
        if sided and row["p_draws_adjusted"] <= alpha:
            groups["won" if better else "lost"].append(row)
        else:
            groups["lucky" if better else "unlucky"].append(row)
    return groups


def _against_matched(contents: Contents, groups: Mapping[str, list[Row]]) -> str:
    """Which methods do better than random masks with as many heads in every layer."""
    won, lucky, lost = groups["won"], groups["lucky"], groups["lost"]
    unlucky = groups["unlucky"]
    masks = "random masks that remove as many heads of every layer"
    if won:
        text = f"{won[0]['method_x']} beats {masks} by {_size(contents, won[0])}"
        if won[1:]:
            also = [f"{row['method_x']} (by {number(row['area'])})" for row in won[1:]]
            text += f"; {listed(also)} {_do(also)} so as well"
        if groups["open"]:
            names_open = [str(row["method_x"]) for row in groups["open"]]
            text += f"; {listed(names_open)} {_do(names_open)} not, as far as these data can tell"
        text += "."
    elif lucky:
        text = f"No method is shown to beat {masks}."
    else:
        top = max((*groups["open"], *lost, *unlucky), key=lambda row: float(row["area"]))
        text = (
            f"No method does detectably better than {masks}; the largest difference is "
            f"{_size(contents, top)}, for {top['method_x']}."
        )
    if lucky:
        better = [
            f"{row['method_x']} (by {number(row['area'])}; better than {int(row['draws_beaten'])} "
            f"of {int(row['draws'])} draws, adjusted {p_value(row['p_draws_adjusted'])})"
            for row in lucky
        ]
        text += (
            " Better than the average of such masks, though a lucky draw may do as well: "
            f"{listed(better)}."
        )
    if lost:
        names_lost = [str(row["method_x"]) for row in lost]
        text += f" {listed(names_lost)} {_do(names_lost)} worse than such masks."
    if unlucky:
        worse = [str(row["method_x"]) for row in unlucky]
        text += (
            f" {listed(worse)} {_do(worse)} worse than their average, and random draws do as badly."
        )
    return text


def _do(names_: Sequence[str]) -> str:
    return "does" if len(names_) == 1 else "do"


def _size(contents: Contents, row: Row) -> str:
    draws = ""
    if not math.isnan(row["draws_beaten"]):
        draws = f", better than {int(row['draws_beaten'])} of {int(row['draws'])} draws"
    return (
        f"{number(row['area'])} of {contents.measure} on average over the curve "
        f"({level_of(contents)} interval {interval(row)}, adjusted {p_value(row['p_adjusted'])}"
        f"{draws})"
    )


def _versus_any(contents: Contents) -> str:
    """How the methods do against random masks of any heads, layers aside."""
    tests = contents.table("curve_tests")
    rows = tests[(tests["kind"] == "all") & (tests["method_y"] == "random")]
    if rows.empty:
        return ""
    groups = _grouped(rows, alpha_of(contents))
    said = []
    for key, words in (
        ("won", "better"),
        ("lucky", "better than their average only"),
        ("lost", "worse"),
        ("unlucky", "worse than their average only"),
    ):
        chosen = [str(row["method_x"]) for row in groups[key]]
        if chosen:
            said.append(f"{listed(chosen)} {is_or_are(len(chosen))} {words}")
    if groups["open"]:
        rest = [str(row["method_x"]) for row in groups["open"]]
        said.append(f"{listed(rest)} cannot be told apart from them")
    return f" Against random masks of any heads, {'; '.join(said)}."


def _ranking(clear: pd.DataFrame) -> str:
    """Who is better than whom, without numbers."""
    if clear.empty:
        return "Compared with each other, no two methods differ detectably."
    losers: dict[str, list[str]] = {}
    for row in records(clear):
        pair = [str(row["method_x"]), str(row["method_y"])]
        better, worse = pair if row["area"] > 0 else pair[::-1]
        losers.setdefault(better, []).append(worse)
    winners: dict[tuple[str, ...], list[str]] = {}
    for better, beaten in losers.items():
        winners.setdefault(tuple(sorted(beaten)), []).append(better)
    said = [
        f"{listed(better)} {is_or_are(len(better))} better than {listed(beaten)}"
        for beaten, better in winners.items()
    ]
    return f"Compared with each other, {'; '.join(said)}."


def _direct(rows: pd.DataFrame, clear: pd.DataFrame) -> str:
    """How the methods' curves compare with each other, pair by pair."""
    if rows.empty:
        return ""
    if clear.empty:
        top = rows.assign(size=rows["area"].abs()).sort_values("size").iloc[-1]
        x, y = (top["method_x"], top["method_y"])[:: 1 if top["area"] >= 0 else -1]
        return (
            "Compared with each other, no two methods differ detectably; the largest difference is "
            f"{number(abs(top['area']))}, of {x} over {y} (adjusted {p_value(top['p_adjusted'])})."
        )
    ordered = [
        (str(row["method_x"]), str(row["method_y"]), row)
        if row["area"] > 0
        else (str(row["method_y"]), str(row["method_x"]), row)
        for _, row in clear.iterrows()
    ]
    said = [
        f"{x} is better than {y} by {number(abs(row['area']))} "
        f"(adjusted {p_value(row['p_adjusted'])})"
        for x, y, row in ordered
    ]
    rest = len(rows) - len(clear)
    text = f"Compared with each other, {listed(said)}"
    if rest:
        others = "pair" if rest == 1 else f"{count(rest, 'pair')}"
        text += f"; the other {others} cannot be told apart"
    return text + "."


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
