"""What a run found, in plain words: the report's opening paragraph and a text for each section.

A pure function from the run's tables. Every claim is one of the tables' own: "needed" is a verdict
of the tests, "beats" is an adjusted p-value below the level of the run.
"""

from __future__ import annotations

import math

from headtool.heads import head_name
from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import (
    VERDICTS,
    alpha_of,
    ceiling_of,
    interval,
    margin_of,
    signed,
)
from headtool.reports.contents.run import Contents, records
from headtool.reports.findings.replicates import replicate_finding
from headtool.reports.findings.roles import surviving
from headtool.reports.findings.sets import additivity, kept_heads, together, winner
from headtool.reports.findings.stability import stability_finding
from headtool.reports.wording.words import (
    count,
    given,
    is_or_are,
    listed,
    names,
    number,
    p_value,
    sentence,
)

__all__ = ["findings"]

_TOP = 3


def findings(contents: Contents) -> list[Finding]:
    """Say what the run found, the most important first; topics without a table are left out."""
    found = (
        _heads(contents),
        _important(contents),
        _untested(contents),
        together(contents),
        winner(contents),
        surviving(contents),
        _agreement(contents),
        stability_finding(contents),
        replicate_finding(contents),
        kept_heads(contents),
        _data(contents),
        additivity(contents),
        _failures(contents),
    )
    return [finding for finding in found if finding is not None]


def _heads(contents: Contents) -> Finding | None:
    tests = contents.tables.get("tests", contents.tables.get("sequential"))
    if tests is None:
        return None
    short = names(contents.data)
    main = contents.data[0] if contents.data else str(tests["data"].iloc[0])
    rows = tests[tests["data"] == main]
    counts = rows["verdict"].value_counts()
    total, metric = len(rows), contents.measure
    model = names([contents.model])[contents.model]
    amounts = {verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS}
    parts = [
        f"{amount or 'none'} {is_or_are(amount or 1)} {verdict}"
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
    if "tests" not in contents.tables:
        detail = (
            "Heads were tested one after another until each verdict was clear (anytime-valid "
            f"tests; margin {given(margin)}); the claims are about the mean on these examples."
        )
        return Finding("heads", headline, detail)
    explained = "; ".join(meaning[v] for v in VERDICTS if counts.get(v, 0) or v == "needed")
    detail = (
        f"{explained[0].upper()}{explained[1:]}. "
        f"The level is {given(alpha_of(contents))}{_corrected(contents, main)}. "
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


def _corrected(contents: Contents, spec: str) -> str:
    used = contents.described("tests").get(spec)
    if not isinstance(used, dict):
        return " after correction for the number of heads"
    return f" (test: {used.get('test')}; correction over all heads: {used.get('correction')})"


def _important(contents: Contents) -> Finding | None:
    """The first heads of each ranking, for a run that holds scores and nothing that tests them."""
    if "scores" not in contents.tables or contents.tables.keys() & {"tests", "curves"}:
        return None
    scores = contents.table("scores")
    said = []
    for method in contents.methods:
        top = scores[scores["method"] == method].nsmallest(_TOP, "rank")
        heads = [head_name(row) for row in records(top)]
        said.append(f"{listed(heads)} by {method}")
    ending = (
        ""
        if contents.tables.keys() & {"ablation"}
        else " No test says whether the model needs them."
    )
    return Finding("important", f"The most important heads are {listed(said)}.{ending}")


def _untested(contents: Contents) -> Finding | None:
    """The largest effects, for a run of ablations without tests."""
    if contents.tables.keys() & {"tests", "sequential"} or "ablation" not in contents.tables:
        return None
    rows = contents.table("ablation")
    rows = rows[rows["metric"] == contents.metric]
    rows = rows.assign(gain=signed(contents, rows["delta"])).dropna(subset=["gain"])
    if rows.empty:
        return None
    rows = rows.sort_values("gain", kind="stable")
    ends = [f"{number(row['delta'])} ({head_name(row)})" for row in (rows.iloc[0], rows.iloc[-1])]
    doing = "Leaving one head of a site" if contents.all_but_one else "Closing one head"
    return Finding(
        "heads",
        f"{doing} changes {contents.measure} by {ends[0]} to {ends[1]}.",
        ""
        if contents.all_but_one
        else "Whether these changes are more than chance, headtool test tells from the same run.",
    )


def _agreement(contents: Contents) -> Finding | None:
    if contents.kind == "compare" and len(contents.methods) == 1:
        return Finding(
            "agreement",
            "",
            "Only one method has scores, so there is no agreement between methods to report.",
        )
    pairs = contents.table("agreement")
    if pairs.empty:
        return None
    pairs = pairs.dropna(subset=["tau_b"])
    if pairs.empty:
        return Finding(
            "agreement", "", "Whether the rankings agree is undefined: they have ties only."
        )
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
    alpha = alpha_of(contents)
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
            "How far each method agrees with itself when it scores other examples, a guide to the "
            f"noise in the rankings: tau-b {listed(own)}. "
        )
    detail += (
        "Heads of one layer resemble each other, which makes methods agree that tell no more than "
        f"layers apart. {_beyond(beyond, len(pairs))} beyond that (tau-b, heads permuted within "
        f"layers, p < {given(alpha)}, not corrected)."
    )
    return Finding("agreement", headline, detail)


def _beyond(amount: int, pairs: int) -> str:
    if pairs == 1:
        return "The two methods agree" if amount else "The two methods do not agree detectably"
    verb = "agrees" if amount == 1 else "agree"
    return f"{amount or 'None'} of the {pairs} pairs of methods {verb}"


def _strength(tau: float) -> str:
    for least, words in ((0.7, "agree closely"), (0.4, "agree moderately"), (0.2, "agree weakly")):
        if tau >= least:
            return words
    return "hardly agree" if tau > -0.2 else "contradict each other"


def _data(contents: Contents) -> Finding | None:
    pairs = contents.table("correlations")
    if pairs.empty:
        return None
    short, alpha = names(contents.data), alpha_of(contents)
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
                f"{title} {number(pair[name])} ({interval(pair, name)}; within layers "
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
            detail += f". {sentence(pair['note'])} " if pair["note"] else "; not disattenuated. "
        else:
            detail += f", Pearson's r without the noise {number(pair['disattenuated'])}. "
    return Finding("data", headline, detail.replace("..", ".").strip())


def _failures(contents: Contents) -> Finding | None:
    failures = contents.table("failures")
    if failures.empty:
        return None
    methods = list(dict.fromkeys(failures["method"].astype(str)))
    return Finding(
        "failures",
        f"{listed(methods)} failed and {is_or_are(len(methods))} missing from all that follows.",
    )
