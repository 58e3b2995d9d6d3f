"""What a run found on relations: how far methods agree, and whether data sets do."""

from __future__ import annotations

import math

from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import alpha_of, ceiling_of, interval, why_uncorrected
from headtool.reports.contents.run import Contents
from headtool.reports.wording.words import (
    count,
    given,
    listed,
    names,
    number,
    p_value,
    sentence,
)

__all__ = ["agreement_finding", "data_finding"]


def agreement_finding(contents: Contents) -> Finding | None:
    """How far the methods agree on the order of the heads."""
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
            "agreement", "", "Whether the rankings agree is undefined: all heads are tied."
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
        "Heads of one layer resemble each other, so methods can agree merely because they tell "
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


def data_finding(contents: Contents) -> Finding | None:
    """Whether the same heads matter on other data."""
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
        else f"; at most about {number(ceiling)} can be expected, given the noise"
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
            detail += (
                f". {sentence(pair['note'])} "
                if pair["note"]
                else f"; Pearson's r is not corrected for noise: {why_uncorrected(pair)}. "
            )
        else:
            detail += (
                f"; corrected for this noise, Pearson's r is {number(pair['disattenuated'])}. "
            )
    return Finding("data", headline, detail.replace("..", ".").strip())
