"""What many comparisons found, in words: which method ranks first, how surely, and where not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headtool.reports.contents.run import records
from headtool.reports.contents.studies import StudyContents
from headtool.reports.wording.words import count, listed, number, p_value, percent

__all__ = [
    "cautions",
    "conclusions_text",
    "extent",
    "ranking_text",
    "reason_of",
    "variance_text",
    "verdict",
]

Row = Mapping[str, Any]

_UNITS = {
    "family": ("family of models", "families of models"),
    "model": ("model", "models"),
    "task": ("task", "tasks"),
    "replicate": ("training run", "training runs"),
}
_PARTS = {
    "methods": "is the same in all comparisons",
    "family": "depends on the family of models",
    "model": "depends on the model",
    "task": "depends on the task",
    "replicate": "depends on the training seed",
    "rest": "varies between single comparisons",
    "examples": "is chance from the examples",
}
_OF = {"replicate": "the training seed", "examples": "the examples", "family": "the family"}
_FEW = 5  # units


def extent(contents: StudyContents) -> str:
    """How many comparisons there are, of how many models and tasks."""
    seeds = {(run.cell.model, run.cell.replicate) for run in contents.runs}
    parts = [count(len(contents.models), "model")]
    if len(seeds) > len(contents.models):
        parts.append(count(len(seeds), "training run"))
    parts.append(count(len(contents.tasks), "task"))
    return f"{count(len(contents.runs), 'comparison')} ({', '.join(parts)})"


def units_of(contents: StudyContents) -> str:
    """How many units the tests over cells have."""
    design = contents.design
    return count(int(design["units"]), *_UNITS[str(design["levels"])])


def verdict(contents: StudyContents) -> str:
    """The answer in a sentence: which method ranks first, and whether that is more than chance."""
    ranked = contents.study.ranked
    rows = {str(row["method"]): row for row in records(contents.table("study_ranking"))}
    first = rows[ranked[0]]
    beats = _against_random(first)
    if len(ranked) < 2:
        return f"Over {extent(contents)}, {ranked[0]} {beats}."
    tied = [name for name in ranked if rows[name]["mean_rank"] == first["mean_rank"]]
    place = f"mean rank {number(first['mean_rank'])} of {len(ranked)}"
    behind = _behind(contents, ranked[0])
    if len(tied) > 1:
        text = f"{listed(tied)} share the first place over {extent(contents)}, {place}"
        return f"{text}: none is ahead of the other{'s' * (len(tied) > 2)}."
    if not behind:
        text = f"No method is ahead for sure: {ranked[0]} ranks first over {extent(contents)}"
        return f"{text}, {place}, but not beyond chance. It {beats}."
    rest = [name for name in ranked[1:] if name not in behind]
    text = f"{ranked[0]} ranks first over {extent(contents)}, {place}, and is ahead of "
    text += "all others" if not rest else listed(behind)
    text += " beyond chance" if not rest else f" beyond chance, not of {listed(rest)}"
    return f"{text}. It {beats}."


def _against_random(row: Row) -> str:
    cells, better, worse = (int(row[name]) for name in ("cells", "better", "worse"))
    some = "all" if better == cells > 1 else f"{better or 'none'} of the"
    text = f"beats random masks in {some} {count(cells, 'comparison')}"
    return text + (f", and does worse in {worse}" if worse else "")


def _behind(contents: StudyContents, method: str) -> list[str]:
    """Methods that one is ahead of over all cells, beyond chance."""
    found = []
    for row in records(contents.table("study_pairs")):
        pair = (str(row["method_x"]), str(row["method_y"]))
        if method in pair and row["p_units"] <= contents.design["alpha"]:
            ahead, behind = pair if row["rank_difference"] > 0 else pair[::-1]
            if ahead == method:
                found.append(behind)
    return found


def ranking_text(contents: StudyContents) -> list[str]:
    """How far ranks tell the methods apart, in paragraphs."""
    design = contents.design
    if int(design["methods"]) < 2:
        return []
    alpha, blocks = float(design["alpha"]), int(design["blocks"])
    said = []
    if blocks > 1:
        seeds = " (the mean over its seeds)" if len(contents.runs) > blocks else ""
        text = f"Methods are ranked in {count(blocks, 'block')}, each a model on a task{seeds}. "
        if not math.isnan(design["p"]):
            text += (
                f"Friedman's test of no difference gives {p_value(design['p'])}; "
                f"Nemenyi's critical difference is {number(design['critical'])} ranks. "
            )
        else:
            text += f"Nemenyi's critical difference is {number(design['critical'])} ranks. "
        said.append(text + "Both take blocks to be independent.")
    if int(design["units"]) > 1:
        critical = float(design["critical_units"])
        text = (
            f"Claims rest on the {units_of(contents)}, which are taken to be independent while "
            "blocks of one need not be: with the methods permuted within each "
            f"{_UNITS[str(design['levels'])][0]}, the spread of mean ranks has "
            f"{p_value(design['p_units'])}, "
        )
        text += (
            f"and no difference of ranks could be significant at {alpha:g}."
            if math.isinf(critical)
            else f"and ranks must differ by {number(critical)} (level {alpha:g}, all pairs)."
        )
        said.append(text)
    said.append(_pairs_told(contents))
    said.append(_among_all(contents))
    return [line for line in said if line]


def _among_all(contents: StudyContents) -> str:
    """Who ranks first among all methods, where not all are ranked."""
    rows = [row for row in records(contents.table("study_ranking")) if row["rank_among_all"] > 0]
    if len(rows) == int(contents.design["methods"]) or not rows:
        return ""
    first = min(rows, key=lambda row: float(row["rank_among_all"]))
    cells = count(int(contents.design["cells_all"]), "comparison")
    has = "has" if int(contents.design["cells_all"]) == 1 else "have"
    return (
        f"Among all {len(rows)} methods, in the {cells} that {has} them all, {first['method']} has "
        f"the best mean rank, {number(first['rank_among_all'])}."
    )


def _pairs_told(contents: StudyContents) -> str:
    told = [(name, _behind(contents, name)) for name in contents.study.ranked]
    said = [f"{name} is ahead of {listed(behind)}" for name, behind in told if behind]
    if not said:
        return "" if int(contents.design["units"]) < 2 else "No two methods differ beyond chance."
    return f"Beyond chance, {'; '.join(said)}."


def variance_text(contents: StudyContents) -> list[str]:
    """Where differences between methods come from, in paragraphs."""
    rows = records(contents.table("study_variance"))
    known = [row for row in rows if not math.isnan(row["share"])]
    if not known:
        return [f"Where differences come from cannot be told: {rows[0]['reason']}."]
    said = [
        f"{percent(row['share'])} {_PARTS[str(row['part'])]}" + _with(row)
        for row in sorted(known, key=lambda row: -float(row["share"]))
    ]
    text = [f"Of the variance of the differences between methods, {listed(said)}."]
    untold = [
        f"{_OF.get(str(row['part']), 'the ' + str(row['part']))} ({reason_of(row)})"
        for row in rows
        if math.isnan(row["share"]) and row["part"] != "methods"
    ]
    if untold:
        text.append(f"Not to be told here: what depends on {listed(untold)}.")
    few = [
        count(int(row["levels"]), *_UNITS[str(row["part"])])
        for row in known
        if str(row["part"]) in _UNITS and int(row["levels"]) < _FEW
    ]
    if few:
        text.append(
            f"{listed(few).capitalize()} are few: see how wide the intervals of the standard "
            "deviations are."
        )
    return text


def _with(row: Row) -> str:
    """What else is in a part."""
    return f" ({reason_of(row)})" if row["reason"] else ""


def reason_of(row: Row) -> str:
    """Why a part of the variance cannot be told, or what else is in it, as readers name parts.

    Parameters
    ----------
    row
        A row of ``study_variance``.
    """
    return str(row["reason"]).replace("replicate", "training seed")


def conclusions_text(contents: StudyContents) -> list[str]:
    """Which statements hold in all cells, in some, and where cells contradict each other."""
    rows = records(contents.table("study_conclusions"))
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row["where"]), []).append(row)
    said = []
    for where, opening in (
        ("everywhere", "Shown in every comparison that can tell"),
        ("mixed", "Shown in some and the opposite in others"),
        ("somewhere", "Shown in some, and nowhere contradicted"),
    ):
        held = [_stated(row) for row in groups.get(where, ())]
        if held:
            said.append(f"{opening}: {_shortened(held)}.")
    nowhere = groups.get("nowhere", ())
    if nowhere:
        undecided = listed([f"{row['statement']}" for row in nowhere][:_LISTED])
        more = len(nowhere) - _LISTED
        said.append(
            f"Not shown in any comparison, in either direction: {undecided}"
            + (f" and {more} more" if more > 0 else "")
            + "."
        )
    return said


_LISTED = 12


def _shortened(held: Sequence[str]) -> str:
    if len(held) <= _LISTED:
        return listed(held)
    return f"{', '.join(held[:_LISTED])} and {len(held) - _LISTED} more, see the table"


def _stated(row: Row) -> str:
    hold, against, cells = (int(row[name]) for name in ("hold", "contradict", "cells"))
    text = f"{row['statement']} ({hold or against} of {cells}"
    if not hold and against:
        return f"the opposite of {text})"
    return f"{text}, opposite in {against})" if against else f"{text})"


def cautions(contents: StudyContents) -> list[str]:
    """What a reader must keep in mind."""
    said = [f"Left out: {name} ({reason})" for name, reason in contents.left]
    design = contents.design
    units, level = int(design["units"]), str(design["levels"])
    if units < 2:
        said.append("One comparison, or training runs as one: nothing is said of others.")
    elif level in ("task", "replicate"):
        several = "tasks" if level == "task" else "training runs"
        said.append(
            f"All comparisons are of one model: claims hold for other {several} of it at best, "
            "not for other models."
        )
    elif units < _FEW:
        said.append(
            f"{units_of(contents).capitalize()} are few: intervals are wide, and only large "
            "differences can be told."
        )
    unranked = [name for name in contents.study.methods if name not in contents.study.ranked]
    if unranked:
        said.append(f"Not ranked, because not all models have them: {listed(unranked)}.")
    without = len(contents.runs) - int(design["cells"])
    if without:
        said.append(
            f"{count(without, 'comparison').capitalize()} of {len(contents.runs)} "
            f"{'lacks' if without == 1 else 'lack'} one of the ranked methods, and "
            f"{'does' if without == 1 else 'do'} not count in ranks."
        )
    if float(design["smallest_p"]) > float(design["alpha"]):
        said.append(
            "The random masks of these comparisons are too few to tell a method from them in any "
            f"single one: no p-value is below {number(design['smallest_p'])}; more draws would "
            "allow it."
        )
    replacements = {str(run.settings.get("replacement", "zero")) for run in contents.runs}
    if len(replacements) > 1:
        said.append(
            f"Removed heads put out {listed(sorted(replacements))}, depending on the comparison."
        )
    if contents.scaled:
        metrics = sorted({run.metric for run in contents.runs})
        said.append(
            f"The comparisons have several metrics ({listed(metrics)}): areas are shares of what "
            "all heads together are worth."
        )
    return said
