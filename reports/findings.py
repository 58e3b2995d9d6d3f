"""What a run found, in plain words: the report's opening paragraph and a text for each section.

A pure function from the run's tables. Every claim is one of the tables' own: "needed" is a verdict
of the tests, "beats" is an adjusted p-value below the level of the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headtool.analysis.equivalence import VERDICTS
from headtool.reports.contents import Contents
from headtool.reports.words import count, given, listed, names, number, p_value, percent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Finding", "default_budget", "findings", "margin_of", "matched"]

_MATCHED = "random-matched:"


@dataclass(frozen=True)
class Finding:
    """One finding: `topic` names its section, `headline` opens the report, `detail` the section."""

    topic: str
    headline: str
    detail: str = ""


def findings(contents: Contents) -> list[Finding]:
    """Say what the run found, the most important first; topics without a table are left out."""
    found = (
        _heads(contents),
        _together(contents),
        _winner(contents),
        _agreement(contents),
        _kept(contents),
        _data(contents),
        _additivity(contents),
        _failures(contents),
    )
    return [finding for finding in found if finding is not None]


def matched(method: str) -> str:
    """Name of the random masks that remove as many heads of every layer as a method does."""
    return _MATCHED + method


def default_budget(contents: Contents) -> int | None:
    """The number of removed heads that static figures show: the budget nearest to one half."""
    table = contents.tables.get("kept")
    if table is None:
        return None
    budgets = table.loc[table["budget"] > 0, ["budget", "share"]].drop_duplicates("budget")
    if budgets.empty:
        return int(table["budget"].iloc[0])
    return int(budgets["budget"].loc[(budgets["share"] - 0.5).abs().idxmin()])


def _alpha(contents: Contents) -> float:
    value = contents.settings.get("alpha", 0.05)
    return float(value) if isinstance(value, int | float) else 0.05


def margin_of(contents: Contents) -> float:
    """Margin of the verdicts on the main data set, in the metric's unit; NaN if unknown."""
    used = contents.described("tests").get(contents.data[0]) if contents.data else None
    default = used.get("margin") if isinstance(used, dict) else None
    given_margin = contents.settings.get("margin")
    value = default if given_margin is None else given_margin
    return float(value) if isinstance(value, int | float) else math.nan


def _level(contents: Contents) -> str:
    return percent(1 - _alpha(contents))


def _interval(row: Any, name: str = "", *, words: bool = True) -> str:
    low, high = (row["low"], row["high"]) if not name else (row[f"{name}_low"], row[f"{name}_high"])
    if math.isnan(low) or math.isnan(high):
        return "no interval"
    return f"{number(low)} to {number(high)}" if words else f"[{number(low)}, {number(high)}]"


def _heads(contents: Contents) -> Finding | None:
    tests = contents.tables.get("tests", contents.tables.get("sequential"))
    if tests is None:
        return None
    short = names(contents.data)
    main = contents.data[0] if contents.data else str(tests["data"].iloc[0])
    rows = tests[tests["data"] == main]
    counts = rows["verdict"].value_counts()
    total, metric = len(rows), contents.metric
    model = names([contents.model])[contents.model]
    amounts = {verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS}
    parts = [
        f"{amount or 'none'} {_is(amount or 1)} {verdict}"
        for verdict, amount in amounts.items()
        if amount or verdict in ("needed", "removable")
    ]
    headline = (
        f"Of the {total} heads of {model}, taken one at a time on {short.get(main, main)}, "
        f"{listed(parts)}."
    )
    margin = margin_of(contents)
    examples = contents.examples(main)
    on = f" on {examples} examples" if examples else ""
    whole = "" if math.isnan(contents.whole) else f" (whole model: {number(contents.whole)}{on})"
    meaning = {
        "needed": f"a needed head is one whose closing makes {metric}{whole} significantly worse",
        "removable": "a removable one costs less than the margin"
        + ("" if math.isnan(margin) else f" of {given(margin)}"),
        "harmful": "without a harmful one the model is significantly better",
        "undecided": "for an undecided one the data cannot tell",
    }
    explained = "; ".join(meaning[v] for v in VERDICTS if counts.get(v, 0) or v == "needed")
    detail = (
        f"{explained[0].upper()}{explained[1:]}. "
        f"The level is {given(_alpha(contents))}{_corrected(contents, main)}. "
    )
    undecided = rows[rows["verdict"] == "undecided"]
    if len(undecided) and "mde" in rows and undecided["mde"].notna().any():
        detail += (
            "Of the undecided heads, half have a minimum detectable effect above "
            f"{number(float(undecided['mde'].median()))}. "
        )
    for spec in contents.data[1:]:
        other = tests.loc[tests["data"] == spec, "verdict"].value_counts()
        if len(other):
            named = [f"{other.get(v, 0)} {v}" for v in VERDICTS if other.get(v, 0)]
            detail += f"On {short.get(spec, spec)}: {listed(named)}. "
    return Finding("heads", headline, detail.strip())


def _is(amount: int) -> str:
    return "is" if amount == 1 else "are"


def _corrected(contents: Contents, spec: str) -> str:
    used = contents.described("tests").get(spec)
    if not isinstance(used, dict):
        return " after correction for the number of heads"
    return f" (test: {used.get('test')}; correction over all heads: {used.get('correction')})"


def _signed(contents: Contents, delta: pd.Series) -> pd.Series:
    return delta if contents.higher_is_better else -delta


def _reach(contents: Contents, curve: pd.DataFrame, column: str) -> tuple[float, int]:
    """Up to which share and budget a curve stays within the margin, without a break."""
    ordered = curve.sort_values("share")
    inside = _signed(contents, ordered[column]) >= -margin_of(contents)
    reached = ordered[inside.cummin()]
    if reached.empty:
        return 0.0, 0
    last = reached.iloc[-1]
    return float(last["share"]), int(last["budget"])


def _method_curves(contents: Contents) -> dict[str, pd.DataFrame]:
    curves = contents.table("curves")
    rows = curves[(curves["kind"] == "all") & (curves["draw"] == -1)]
    return {method: rows[rows["method"] == method] for method in contents.methods}


def _together(contents: Contents) -> Finding | None:
    curves = {m: c for m, c in _method_curves(contents).items() if len(c)}
    margin, metric = margin_of(contents), contents.metric
    if not curves or math.isnan(margin):
        return None
    reach = {method: _reach(contents, curve, "delta") for method, curve in curves.items()}
    best = max(reach, key=lambda method: reach[method][0])
    share, budget = reach[best]
    edge = "low" if contents.higher_is_better else "high"
    sure = _reach(contents, curves[best], edge)[0]
    if budget == 0:
        headline = (
            f"Removed together, even the first step costs more than {given(margin)} of {metric}, "
            "whichever method chooses the heads."
        )
    else:
        headline = (
            f"Removed together, {budget} of them ({percent(share)}) can go in the order of {best} "
            f"before {metric} is worse by more than {given(margin)}."
        )
    each = listed([f"{percent(reach[m][0])} for {m}" for m in curves])
    detail = (
        f"The largest share that can be removed before the estimate leaves the margin of "
        f"{given(margin)}: {each}. "
        + (
            f"The {_level(contents)} band of {best} stays inside it up to {percent(sure)}. "
            if sure
            else f"The {_level(contents)} band of {best} leaves it at the first step. "
        )
        + "Heads were chosen on other examples than those shown here."
    )
    return Finding("curves", headline, detail)


def _versus_random(contents: Contents) -> pd.DataFrame:
    tests = contents.table("curve_tests")
    rows = tests[tests["kind"] == "all"]
    return rows[rows["method_y"] == _MATCHED + rows["method_x"].astype(str)]


def _winner(contents: Contents) -> Finding | None:
    rows = _versus_random(contents)
    if rows.empty:
        return None
    alpha, metric, level = _alpha(contents), contents.metric, _level(contents)
    rows = rows.sort_values("area", ascending=False, kind="stable")
    won = rows[(rows["area"] > 0) & (rows["p_adjusted"] < alpha)]
    lost = rows[(rows["area"] < 0) & (rows["p_adjusted"] < alpha)]
    level_with = [
        str(m) for m in rows["method_x"] if m not in {*won["method_x"], *lost["method_x"]}
    ]
    top = (won if len(won) else rows).iloc[0]
    size = (
        f"{number(top['area'])} of {metric} on average over the curve "
        f"({level} interval {_interval(top)}, adjusted {p_value(top['p_adjusted'])})"
    )
    if won.empty:
        headline = (
            "No method does detectably better than random masks that remove as many heads of "
            f"every layer; the largest difference is {size}, for {top['method_x']}."
        )
    else:
        headline = (
            f"{top['method_x']} beats random masks that remove as many heads of every layer by "
            f"{size}"
        )
        also = [
            f"{row['method_x']} (by {number(row['area'])})" for _, row in won.iloc[1:].iterrows()
        ]
        others = []
        if also:
            others.append(f"{listed(also)} {'does' if len(also) == 1 else 'do'} so as well")
        if level_with:
            do = "does" if len(level_with) == 1 else "do"
            others.append(f"{listed(level_with)} {do} not, as far as these data can tell")
        headline += "".join(f"; {part}" for part in others) + "."
    if len(lost):
        verb = "does" if len(lost) == 1 else "do"
        headline += f" {listed([*map(str, lost['method_x'])])} {verb} worse than random."
    tests = contents.table("curve_tests")
    pairs = tests[
        (tests["kind"] == "all") & ~tests["method_y"].astype(str).str.startswith("random")
    ]
    clear = pairs[pairs["p_adjusted"] < alpha]
    if len(pairs):
        headline += " " + _ranking(clear)
    return Finding("winner", headline, _direct(pairs, clear))


def _ranking(clear: pd.DataFrame) -> str:
    """Who is better than whom, without numbers."""
    if clear.empty:
        return "Compared with each other, no two methods differ detectably."
    losers: dict[str, list[str]] = {}
    for row in clear.to_dict("records"):
        pair = [str(row["method_x"]), str(row["method_y"])]
        better, worse = pair if row["area"] > 0 else pair[::-1]
        losers.setdefault(better, []).append(worse)
    winners: dict[tuple[str, ...], list[str]] = {}
    for better, beaten in losers.items():
        winners.setdefault(tuple(sorted(beaten)), []).append(better)
    said = [
        f"{listed(better)} {_is(len(better))} better than {listed(beaten)}"
        for beaten, better in winners.items()
    ]
    return f"Compared with each other, {listed(said)}."


def _direct(rows: pd.DataFrame, clear: pd.DataFrame) -> str:
    """How the methods' curves compare with each other, pair by pair."""
    if rows.empty:
        return ""
    if clear.empty:
        top = rows.loc[rows["area"].abs().idxmax()]
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


def _agreement(contents: Contents) -> Finding | None:
    if "scores" not in contents.tables or contents.kind != "compare":
        return None
    if len(contents.methods) < 2:
        return Finding(
            "agreement",
            "",
            "Only one method has scores, so there is no agreement between methods to report.",
        )
    pairs = contents.table("agreement")
    if pairs.empty:
        return None
    ordered = pairs.sort_values("tau_b", ascending=False, kind="stable")
    most, least = ordered.iloc[0], ordered.iloc[-1]
    strength = _strength(float(pairs["tau_b"].median()))
    ends = f"tau-b {number(most['tau_b'])} for {most['method_x']} and {most['method_y']}"
    if len(pairs) > 1:
        ends = (
            f"tau-b from {number(least['tau_b'])} ({least['method_x']} and {least['method_y']}) "
            f"to {number(most['tau_b'])} ({most['method_x']} and {most['method_y']})"
        )
    headline = f"The methods {strength} on the order of the heads ({ends})."
    alpha = _alpha(contents)
    beyond = int((pairs["tau_b_p_within_layers"] < alpha).sum())
    detail = ""
    concordance = contents.table("concordance")
    if len(concordance):
        row = concordance.iloc[0]
        detail = (
            f"Kendall's W over {count(int(row['methods']), 'method')} is {number(row['w'])} "
            f"(within layers {p_value(row['w_p_within_layers'])}). "
        )
    stability = contents.table("stability")
    if len(stability):
        own = [f"{number(row['tau_b'])} for {row['method']}" for _, row in stability.iterrows()]
        detail += (
            "No two methods can be expected to agree better than each does with itself on other "
            f"examples: tau-b {listed(own)}. "
        )
    detail += (
        "Heads of one layer resemble each other, which makes methods agree that tell no more than "
        f"layers apart. {beyond} of the {len(pairs)} pairs of methods "
        f"{'agrees' if beyond == 1 else 'agree'} "
        f"beyond that (tau-b, heads permuted within layers, p < {given(alpha)}, not corrected)."
    )
    return Finding("agreement", headline, detail)


def _strength(tau: float) -> str:
    for least, words in ((0.7, "agree closely"), (0.4, "agree moderately"), (0.2, "agree weakly")):
        if tau >= least:
            return words
    return "hardly agree" if tau > -0.2 else "contradict each other"


def _kept(contents: Contents) -> Finding | None:
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


def _data(contents: Contents) -> Finding | None:
    pairs = contents.table("correlations")
    if pairs.empty:
        return None
    short, alpha = names(contents.data), _alpha(contents)
    row = pairs.iloc[0]
    x, y = (short.get(str(row[name]), str(row[name])) for name in ("data_x", "data_y"))
    ceiling = ceiling_of(row)
    limit = (
        ""
        if math.isnan(ceiling)
        else f"; the noise lets no more than {number(ceiling)} be expected"
    )
    same = row["spearman_p_within_layers"] < alpha and row["spearman"] > 0
    opening = (
        f"Largely the same heads matter on {y}"
        if same and row["spearman"] >= 0.7
        else f"Partly the same heads matter on {y}"
        if same
        else f"Whether the same heads matter on {y} as on {x} remains open"
    )
    headline = (
        f"{opening} (Pearson {number(row['pearson'])}, Spearman {number(row['spearman'])}{limit})."
    )
    detail = ""
    for _, pair in pairs.iterrows():
        x, y = (short.get(str(pair[name]), str(pair[name])) for name in ("data_x", "data_y"))
        coefficients = listed(
            [
                f"{title} {number(pair[name])} ({_interval(pair, name)}; within layers "
                f"{p_value(pair[f'{name}_p_within_layers'])})"
                for name, title in (
                    ("pearson", "Pearson"),
                    ("spearman", "Spearman"),
                    ("kendall", "Kendall's tau-b"),
                )
            ]
        )
        detail += (
            f"{x} and {y}: {coefficients}. Split-half reliability is "
            f"{number(pair['reliability_x'])} and {number(pair['reliability_y'])}"
        )
        if math.isnan(pair["disattenuated"]):
            detail += f". {pair['note']}. " if pair["note"] else "; not disattenuated. "
        else:
            detail += f", Pearson's r without the noise {number(pair['disattenuated'])}. "
    return Finding("data", headline, detail.replace("..", ".").strip())


def ceiling_of(row: Any) -> float:
    """The correlation to expect of two noisy measurements of the same thing; NaN if undefined."""
    product = row["reliability_x"] * row["reliability_y"]
    if not (row["reliability_x"] > 0 and row["reliability_y"] > 0):
        return math.nan
    return min(1.0, math.sqrt(product))


def _additivity(contents: Contents) -> Finding | None:
    table, budget = contents.table("additivity"), default_budget(contents)
    rows = table[(table["budget"] == budget) & table["gap"].notna()]
    if rows.empty:
        return None
    apart = rows[rows["low"].gt(0) | rows["high"].lt(0)]
    row = (apart if len(apart) else rows).iloc[0]
    opening = (
        "Single effects do not add up" if len(apart) else "Whether single effects add up stays open"
    )
    headline = (
        f"{opening}: the {int(row['budget'])} heads that {row['method']} removes "
        f"first change {contents.metric} by {number(row['joint'])} together and by "
        f"{number(row['sum_of_singles'])} as a sum of one at a time "
        f"(difference {number(row['gap'])}, interval {_interval(row)})."
    )
    each = listed(
        [
            f"{part['method']} {number(part['joint'])} together and "
            f"{number(part['sum_of_singles'])} as a sum"
            for _, part in rows.iterrows()
        ]
    )
    share = percent(float(row["share"]))
    detail = f"Change of {contents.metric} with {share} of the heads removed: {each}."
    return Finding("additivity", headline, detail)


def _failures(contents: Contents) -> Finding | None:
    failures = contents.table("failures")
    if failures.empty:
        return None
    methods = list(dict.fromkeys(failures["method"].astype(str)))
    return Finding(
        "failures",
        f"{listed(methods)} failed and {_is(len(methods))} missing from all that follows.",
    )
