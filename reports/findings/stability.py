"""How stable rankings are over examples, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import STABLE
from headtool.reports.contents.reach import default_budget
from headtool.reports.contents.run import Contents
from headtool.reports.wording.words import count, listed, number, percent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["stability_finding"]


def stability_finding(contents: Contents) -> Finding | None:
    """How alike a method ranks heads on halves of its examples, and which heads always stay."""
    table = contents.table("subsamples")
    known = table[table["tau_b"].notna()].sort_values("tau_b", ascending=False, kind="stable")
    if known.empty:
        return None
    halves, budget = int(table["subsamples"].iloc[0]), default_budget(contents)
    overlap = contents.table("subsample_overlap")
    overlap = overlap[overlap["budget"] == budget].set_index("method")
    most, least = known.iloc[0], known.iloc[-1]
    headline = (
        "Between random halves of the examples, "
        f"rankings by {most['method']} agree with a tau-b of {number(most['tau_b'])}"
    )
    if len(known) > 1:
        headline += f", those by {least['method']} with {number(least['tau_b'])}"
        headline += " and the others in between" if len(known) > 2 else ""
    stays = [
        f"{name} {int(overlap.loc[name, 'stable_kept'])} of {int(overlap.loc[name, 'kept'])}"
        for name in known["method"]
        if name in overlap.index
    ]
    if stays:
        share = percent(float(overlap["share"].iloc[0]))
        headline += (
            f"; with {share} of the heads removed, so many of the kept heads stay on at least "
            f"{percent(STABLE)} of {halves} halves: {listed(stays)}"
        )
    return Finding("stability", f"{headline}.", _detail(known, overlap, halves))


def _detail(known: pd.DataFrame, overlap: pd.DataFrame, halves: int) -> str:
    size = count(int(known["examples"].iloc[0]), "example")
    text = (
        f"Every method scored the heads again on {halves} random halves of the selection examples "
        f"({size} each). Agreement is that of two halves without a common example, averaged over "
        f"{count(int(known['pairs'].iloc[0]), 'such pair')}; the intervals allow for all of them "
        "coming from the same examples. A ranking from all examples is steadier than one from half "
        "of them. "
    )
    said = []
    for name in known["method"]:
        if name not in overlap.index:
            continue
        row = overlap.loc[name]
        said.append(
            f"{name} {number(row['jaccard'])} (random heads of the same layers "
            f"{number(row['expected_within_layers'])})"
        )
    if not said:
        return text.strip()
    text += f"Jaccard index of the heads kept on two such halves: {listed(said)}. "
    tied = [
        f"{name} {number(overlap.loc[name, 'tied'])}"
        for name in known["method"]
        if name in overlap.index and overlap.loc[name, "tied"] >= 1
    ]
    if tied:
        text += (
            "Heads tied across the cut are chosen by their position, on every half alike, and so "
            f"look steadier than they are (mean number): {listed(tied)}. "
        )
    bounds = [
        f"{number(overlap.loc[name, 'false_kept'])} of the "
        f"{number(overlap.loc[name, 'stable_kept'])} that {name} keeps"
        for name in known["method"]
        if name in overlap.index
        and overlap.loc[name, "false_kept"] < overlap.loc[name, "stable_kept"]
    ]
    text += (
        "Stable heads can be there by chance: heads that half of the examples would select no more "
        "often than a head picked at random. Their expected number is bounded if examples are "
        "drawn independently (the table has the bound at every budget)"
    )
    unbounded = (
        "is at least as large as the number that it bounds, and says something of smaller sets "
        "only."
    )
    if not bounds:
        return f"{text}; with so many heads kept the bound {unbounded}"
    text += f": at most {listed(bounds)}."
    if len(bounds) < len(said):
        text += f" For the other methods the bound {unbounded}"
    return text
