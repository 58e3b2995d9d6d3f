"""A comparison on a terminal: what a reader wants first, from the tables of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from headtool.analysis.equivalence import VERDICTS
from headtool.heads import head_name
from headtool.reports.terminal.replacements import agreement_lines
from headtool.reports.terminal.replicates import replicate_tables
from headtool.reports.terminal.roles import survival_tables
from headtool.reports.terminal.stability import stability_tables
from headtool.reports.terminal.tables import plain_table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import short
from headtool.schema import TABLES

if TYPE_CHECKING:
    from headtool.analysis.comparison import Comparison

__all__ = ["comparison_tables", "curve_tables", "head_table"]

_PLACE = ["kind", "layer", "head"]
_STATUS = {
    "consensus-kept": "kept by all methods",
    "disputed": "kept by some",
    "consensus-removed": "kept by none",
}
_NAMED = 12  # heads that a line names
_ROUNDING = 1e-12  # a difference below this is zero
_SHOWN_SHARES = (0.1, 0.2, 0.5)
_FEW = "; methods that leave the race early are placed by few examples"


def comparison_tables(comparison: Comparison, *, verdict: str = "") -> Iterator[RenderableType]:
    """Yield what a terminal shows of ``headtool compare``.

    Parameters
    ----------
    comparison
        The comparison.
    verdict
        The answer in one sentence, which comes first; empty leaves it out.
    """
    if verdict:
        yield Text(f"{visible(verdict)}\n", style="bold")
    yield _title("comparison", comparison)
    yield from _failures(comparison)
    yield from _verdicts(comparison)
    yield from _correlations(comparison)
    yield from _agreement(comparison)
    yield from _stability(comparison)
    yield from _curves(comparison)
    yield from _faithfulness(comparison)
    yield from _replacements(comparison)
    yield from _kept(comparison)
    if len(comparison.role_survival):
        yield from survival_tables(comparison.role_survival)


def curve_tables(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield what a terminal shows of ``headtool curve``."""
    yield _title("curves", comparison)
    yield from _failures(comparison)
    yield from _curves(comparison)
    yield from _faithfulness(comparison)
    yield from _replacements(comparison)


def head_table(comparison: Comparison) -> pd.DataFrame:
    """One row per head: effect and verdict on the first data set, every method's score and rank.

    Returns
    -------
    DataFrame
        The table ``heads_compared`` of `headtool.schema`.
    """
    first = comparison.tests[comparison.tests["data"] == comparison.settings["data"][0]]
    table: pd.DataFrame = first[list(TABLES["heads_compared"].names)].set_index(_PLACE)
    for method, rows in comparison.scores.groupby("method", sort=False):
        scored = rows.set_index(_PLACE)
        table[f"score.{method}"] = scored["score"]
        table[f"rank.{method}"] = scored["rank"]
    return table.reset_index()


def _title(what: str, comparison: Comparison) -> Text:
    settings = comparison.settings
    first = settings["data"][0]
    whole = settings["whole"][first][settings["metric"]]
    select = settings["selection_source"]
    one = "another half of " if settings["select_data"] is None else ""
    return Text.assemble(
        (what, "bold"),
        f"  {visible(settings['model']['spec'])} on {visible(first)}: {settings['metric']} "
        f"{short(math.nan if whole is None else whole)} on "
        f"{settings['sources'][first]['examples']} examples; heads scored on "
        f"{one}{visible(select['spec'])}, {select['examples']} examples",
    )


def _failures(comparison: Comparison) -> Iterator[Text]:
    for row in comparison.failures.to_dict("records"):
        yield Text(f"{visible(row['method'])} failed: {visible(row['error'])}", style="red")


def _verdicts(comparison: Comparison) -> Iterator[Text]:
    """How many heads are needed, removable, harmful and undecided, and which are needed."""
    for spec, rows in comparison.tests.groupby("data", sort=False):
        counts = rows["verdict"].value_counts()
        needed = rows[rows["verdict"] == "needed"].sort_values("p", kind="stable")
        margin = comparison.settings["tests"][spec]["margin"]
        names = f": {_names(needed)}" if len(needed) else ""
        yield Text.assemble(
            ("heads one at a time", "bold"),
            f"  {visible(str(spec))}: "
            + ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in VERDICTS)
            + f" (margin {short(margin)})",
        )
        yield Text(f"  needed{names}" if names else "  none is needed by itself", style="dim")


def _correlations(comparison: Comparison) -> Iterator[Text]:
    for row in comparison.correlations.to_dict("records"):
        yield Text.assemble(
            ("across data", "bold"),
            f"  {visible(row['data_x'])} and {visible(row['data_y'])}: Pearson's r "
            f"{short(row['pearson'])}, Spearman's rho {short(row['spearman'])} (p within layers "
            f"{short(row['spearman_p_within_layers'])}), Kendall's tau-b {short(row['kendall'])}; "
            f"reliability of the effects {short(row['reliability_x'])} and "
            f"{short(row['reliability_y'])}",
        )


def _agreement(comparison: Comparison) -> Iterator[RenderableType]:
    """Kendall's tau-b between methods; on the diagonal each method on other examples."""
    if comparison.agreement.empty:
        return
    methods = comparison.settings["methods"]
    pairs = {
        frozenset((row["method_x"], row["method_y"])): row["tau_b"]
        for row in comparison.agreement.to_dict("records")
    }
    own = comparison.stability.set_index("method")["tau_b"]
    rows = [
        {
            "": method,
            **{
                other: own[method] if other == method else pairs[frozenset((method, other))]
                for other in methods
            },
        }
        for method in methods
    ]
    (total,) = comparison.concordance.to_dict("records")
    yield Text.assemble(
        ("agreement", "bold"),
        f"  tau-b of rankings (diagonal: of a method with itself on other examples); Kendall's W "
        f"{short(total['w'])}, p {short(total['w_p'])}, within layers "
        f"{short(total['w_p_within_layers'])}",
    )
    yield plain_table(pd.DataFrame(rows))


def _curves(comparison: Comparison) -> Iterator[RenderableType]:
    metric, methods = comparison.settings["metric"], comparison.settings["methods"]
    for kind, rows in comparison.curves.groupby("kind", sort=False):
        values = rows.pivot(index="budget", columns="method", values="value")
        shares = rows.drop_duplicates("budget").set_index("budget")["share"]
        matched = [f"random-matched:{method}" in values for method in methods]
        table = pd.DataFrame(
            {"removed": [f"{share:.0%}" for share in shares], "heads": shares.index}
        )
        for method in methods:
            rival = values.get(f"random-matched:{method}")
            table[method] = [
                short(value) if rival is None else f"{short(value)} ({short(rival[budget])})"
                for budget, value in values[method].items()
            ]
        if "random" in values:
            table["random"] = values["random"].to_numpy()
        of = "" if kind == "all" else f" of {visible(str(kind))}"
        brackets = "; in brackets random heads of the same layers" if any(matched) else ""
        yield Text.assemble(
            ("pruning", "bold"), f"  {metric} by share of heads{of} removed{brackets}"
        )
        yield plain_table(table)
        tests = comparison.curve_tests[comparison.curve_tests["kind"] == kind]
        if len(tests):
            several = kind == "all" and len(comparison.settings.get("replicates", {})) > 1
            over = ", mean over the models" if several else ""
            few = "" if comparison.settings.get("draws") else _FEW
            yield Text(
                f"area between curves: mean distance{over}, positive where the first is better. p "
                "corrected tests whether it would hold on other examples; the p beside draws "
                "beaten, whether one random mask would do as well (or as badly), with all methods "
                f"counted{few}.",
                style="dim",
            )
            yield plain_table(_test_table(tests), keys=2)


def _replacements(comparison: Comparison) -> Iterator[RenderableType]:
    """What changes where removed heads put out something else than zero."""
    curves = comparison.replacement_curves
    curves = curves[curves["kind"] == "all"]
    if curves.empty:
        return
    metric = comparison.settings["metric"]
    yield Text.assemble(
        ("replacements", "bold"), f"  {metric} by what removed heads put out, at each budget"
    )
    yield from agreement_lines(comparison.replacement_agreement)
    shares = curves.drop_duplicates("budget").set_index("budget")["share"]
    table = pd.DataFrame({"removed": [f"{share:.0%}" for share in shares], "heads": shares.index})
    for method in comparison.settings["methods"]:
        rows = curves[curves["method"] == method]
        wide = rows.pivot(index="budget", columns="replacement", values="value")
        for name in rows["replacement"].unique():
            table[f"{method}, {name}"] = wide.loc[shares.index, name].to_numpy()
    yield plain_table(table)


def _faithfulness(comparison: Comparison) -> Iterator[RenderableType]:
    """How faithful the most important heads alone are to the whole model."""
    for kind, rows in comparison.faithfulness_areas.groupby("kind", sort=False):
        of = "" if kind == "all" else f" of {visible(str(kind))}"
        yield Text.assemble(
            ("faithfulness", "bold"),
            f"  only the most important heads{of} kept; 1 is the whole model, 0 none of them",
        )
        if (rows["reason"] != "").all():
            yield Text(f"  {visible(rows['reason'].iloc[0])}", style="dim")
            continue
        points = comparison.faithfulness[comparison.faithfulness["kind"] == kind]
        values = points.pivot(index="kept", columns="method", values="faithfulness")
        total = values.index.max()
        inner = sorted({round(total * share) for share in _SHOWN_SHARES} & set(values.index))
        table = []
        for row in rows.to_dict("records"):
            line = {"method": row["method"]}
            line |= {f"{kept} heads": short(values.loc[kept, row["method"]]) for kept in inner}
            for name in ("cpr", "cmd"):
                low, high = short(row[f"{name}_low"]), short(row[f"{name}_high"])
                line[name.upper()] = f"{short(row[name])} [{low}, {high}]"
            table.append(line)
        yield plain_table(pd.DataFrame(table))


def _test_table(tests: pd.DataFrame) -> pd.DataFrame:
    beaten = [
        f"{row['draws_beaten']:.0f} of {row['draws']:.0f} (p {short(row['p_draws_adjusted'])})"
        if row["draws"] > 0
        else ""
        for row in tests.to_dict("records")
    ]
    chosen = tests[["method_x", "method_y", "area", "low", "high", "p_adjusted"]]
    chosen = chosen.assign(**chosen.select_dtypes("number").map(_rounded))
    return chosen.rename(
        columns={"method_x": "first", "method_y": "second", "p_adjusted": "p corrected"}
    ).assign(**{"draws beaten": beaten})


def _kept(comparison: Comparison) -> Iterator[RenderableType]:
    """What stays at the budget nearest to half of the heads."""
    settings, budget = comparison.settings, _half(comparison)
    if budget is None:
        return
    yield Text.assemble(
        ("kept", "bold"),
        f"  {settings['heads'] - budget} of {settings['heads']} heads, {budget} removed",
    )
    votes = comparison.consensus[comparison.consensus["budget"] == budget]
    for status, said in _STATUS.items():
        rows = votes[votes["status"] == status]
        if len(votes):
            named = f": {_names(rows)}" if len(rows) else ""
            yield Text(f"  {said} {len(rows)}{named}", style="dim")
    each = []
    for method in settings["methods"]:
        row: dict[str, object] = {"method": method}
        joint = _at(comparison.additivity, method, budget)
        row["change"] = joint["joint"]
        row["sum of single changes"] = _rounded(joint["sum_of_singles"])
        row["gain from choosing on the same data"] = _at(comparison.optimism, method, budget)[
            "optimism"
        ]
        each.append(row)
    yield Text(
        f"{settings['metric']} without these {budget} heads: all together, and one by one, summed",
        style="dim",
    )
    yield plain_table(pd.DataFrame(each))


def _stability(comparison: Comparison) -> Iterator[RenderableType]:
    """What random halves of the examples say, and models trained again, at the same budget."""
    budget = _half(comparison) or 0
    yield from stability_tables(comparison, budget)
    yield from replicate_tables(comparison, budget)


def _rounded(value: float) -> float:
    """A difference of sums; what rounding leaves of nothing is nothing."""
    return 0.0 if abs(value) <= _ROUNDING else value


def _half(comparison: Comparison) -> int | None:
    """The budget nearest to half of the heads, of those that keep some and remove some."""
    total = comparison.settings["heads"]
    inner = [budget for budget in comparison.settings["budgets"] if 0 < budget < total]
    return min(inner, key=lambda budget: (abs(budget - total / 2), budget), default=None)


def _at(frame: pd.DataFrame, method: str, budget: int) -> dict[str, float]:
    (row,) = frame[(frame["method"] == method) & (frame["budget"] == budget)].to_dict("records")
    return {str(name): value for name, value in row.items()}


def _names(rows: pd.DataFrame) -> str:
    return _listed([head_name(row) for row in rows.to_dict("records")])


def _listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
