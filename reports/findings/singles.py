"""What a run found about single heads: verdicts of tests, the largest effects, the first ranks."""

from __future__ import annotations

import math

from headtool.heads import head_name
from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import VERDICTS, alpha_of, margin_of, signed
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import given, is_or_are, listed, names, number

__all__ = ["effect_finding", "rank_finding", "verdict_finding"]

_TOP = 3


def verdict_finding(contents: Contents) -> Finding | None:
    """How many heads are needed, removable, harmful or undecided, by the tests of the run."""
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
    # Nothing is better than no divergence, so that any worsening would be significant.
    worse = "worse by more than the margin" if contents.metric == "kl" else "significantly worse"
    meaning = {
        "needed": f"a needed head is one whose closing makes {metric}{whole} {worse}",
        "removable": "a removable one costs less than the margin"
        + ("" if math.isnan(margin) else f" of {number(margin)}"),
        "harmful": "without a harmful one the model is significantly better",
        "undecided": "for an undecided one the data cannot tell",
    }
    if "tests" not in contents.tables:
        detail = (
            "Heads were tested one after another until each verdict was clear (anytime-valid "
            f"tests; margin {number(margin)}); the claims are about the mean on these examples."
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


def rank_finding(contents: Contents) -> Finding | None:
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


def effect_finding(contents: Contents) -> Finding | None:
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
        else "Use headtool test on this run to see whether these changes are more than chance.",
    )
