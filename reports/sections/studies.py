"""What the report of a study shows, put together from its sections."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from headtool.reports.blocks import Cell, Column, DataTable, Section
from headtool.reports.contents.run import records
from headtool.reports.contents.studies import StudyContents
from headtool.reports.findings.procedure import Procedure
from headtool.reports.findings.studies import (
    cautions,
    conclusions_text,
    extent,
    ranking_text,
    reason_of,
    units_of,
    variance_text,
    verdict,
)
from headtool.reports.sections.meanings import explain, explanations
from headtool.reports.sections.page import Page
from headtool.reports.sections.study_cells import cells_section, curves_section, kept_section
from headtool.reports.sections.study_ranking import level_name, ranking_section, without_empty
from headtool.reports.wording.words import listed, percent, sentence

__all__ = ["build_study_page"]

_SHOWN = 0.5  # share of heads removed in the first table

_REFERENCES = (
    "Demšar (2006), Statistical comparisons of classifiers over multiple data sets. Journal of "
    "Machine Learning Research 7.",
    "Friedman (1937), The use of ranks to avoid the assumption of normality implicit in the "
    "analysis of variance. JASA 32.",
    "Nemenyi (1963), Distribution-free multiple comparisons. PhD thesis, Princeton.",
    "Patterson & Thompson (1971), Recovery of inter-block information when block sizes are "
    "unequal. Biometrika 58.",
    "Benjamini & Hochberg (1995), Controlling the false discovery rate. JRSS B 57.",
    "Benjamini & Heller (2008), Screening for partial conjunction hypotheses. Biometrics 64.",
)


def build_study_page(contents: StudyContents, place: Path | None = None) -> Page:
    """Choose and arrange what a study has to show.

    Parameters
    ----------
    contents
        The comparisons.
    place
        Folder that the report goes to, which links start from; None: no links.
    """

    def link(run: object) -> str:
        return links[id(run)]

    links = {id(run): contents.link(run, place) for run in contents.runs}
    sections = [
        section
        for section in (
            ranking_section(contents),
            _conclusions_section(contents),
            _variance_section(contents),
            _budgets_section(contents),
            _reliability_section(contents),
            curves_section(contents, link),
            kept_section(contents, link),
            cells_section(contents, link),
        )
        if section is not None
    ]
    sections = [replace(one, tables=[explain(table) for table in one.tables]) for one in sections]
    methods = explain(_overview(contents))
    return Page(
        title=contents.name or "Methods over several comparisons",
        subtitle=_subtitle(contents),
        created=max((run.comparison.created for run in contents.runs), default="").partition("T")[
            0
        ],
        headline=verdict(contents),
        methods=methods,
        opening=[verdict(contents), *ranking_text(contents), *variance_text(contents)],
        verdicts=[],
        warnings=[sentence(line) for line in cautions(contents)],
        sections=sections,
        columns=explanations([methods, *(t for s in sections for t in s.tables)]),
        procedure=Procedure(_procedure(contents), _REFERENCES),
        origin=_origin(contents),
        command=contents.command,
        data={},
        answer_first=True,
    )


def _subtitle(contents: StudyContents) -> str:
    by = f"the share of {contents.measure}" if contents.scaled else contents.measure
    return f"{listed(contents.study.methods)} over {extent(contents)}, by {by}"


def _overview(contents: StudyContents) -> DataTable:
    """A row for each method, the best rank first."""
    rows = records(contents.table("study_ranking"))
    budgets = contents.table("study_budgets")
    left = budgets[budgets["share"] == _SHOWN].set_index("method")["value"].to_dict()
    columns = [
        Column("method", is_number=False),
        Column("mean rank", best="smallest"),
        Column("better than random by", best="largest"),
        Column(level_name(contents)),
        Column("beats random in", best="largest"),
        Column(f"left at {percent(_SHOWN)}", best=_best(contents)),
        Column("self-agreement", best="largest"),
        Column("passes to score", best="smallest"),
        Column("seconds", best="smallest"),
    ]
    cells = [
        [
            Cell(str(row["method"])),
            Cell.number(row["mean_rank"]),
            Cell.number(row["area"]),
            Cell.interval(row["low"], row["high"]),
            Cell(f"{int(row['better'])} of {int(row['cells'])}", float(row["better"])),
            Cell.number(left.get(row["method"], math.nan)),
            *(Cell.number(row[name]) for name in ("self_agreement", "passes", "seconds")),
        ]
        for row in rows
    ]
    return without_empty(DataTable("study-overview", "The methods at a glance", columns, cells))


def _best(contents: StudyContents) -> str:
    """Whether more of what is left is better."""
    ways = {bool(run.settings.get("higher_is_better", True)) for run in contents.runs}
    return "largest" if contents.scaled or ways == {True} else "smallest"


def _conclusions_section(contents: StudyContents) -> Section:
    columns = [Column("statement", is_number=False)]
    columns += [Column("comparisons"), Column("shown in"), Column("opposite in")]
    columns += [Column("where", is_number=False)]
    cells = [
        [
            Cell(str(row["statement"])),
            *(Cell.count(row[name]) for name in ("cells", "hold", "contradict")),
            Cell(str(row["where"])),
        ]
        for row in records(contents.table("study_conclusions"))
    ]
    table = DataTable("study-conclusions", "Every statement", columns, cells)
    return Section(
        "conclusions",
        "What holds everywhere, and what only somewhere",
        text=conclusions_text(contents),
        tables=[table],
    )


def _variance_section(contents: StudyContents) -> Section | None:
    rows = records(contents.table("study_variance"))
    columns = [Column("part", is_number=False), Column("levels"), Column("share")]
    columns += [Column("sd"), Column("interval"), Column("note", is_number=False)]
    cells = [
        [
            Cell(_part_name(str(row["part"]))),
            Cell.count(row["levels"]),
            Cell("–") if math.isnan(row["share"]) else Cell.share(row["share"]),
            Cell.number(row["sd"]),
            Cell.interval(row["low"], row["high"]),
            Cell(reason_of(row) or "–"),
        ]
        for row in rows
    ]
    table = DataTable("study-variance", "Parts of the variance", columns, cells)
    return Section(
        "variance",
        "Where differences between methods come from",
        text=variance_text(contents),
        tables=[without_empty(table)],
    )


def _part_name(part: str) -> str:
    return {"replicate": "training seed"}.get(part, part)


def _budgets_section(contents: StudyContents) -> Section:
    rows = records(contents.table("study_budgets"))
    shares = list(dict.fromkeys(float(row["share"]) for row in rows))
    methods = list(dict.fromkeys(str(row["method"]) for row in rows))
    found = {(str(row["method"]), float(row["share"])): row for row in rows}
    columns = [Column("method", is_number=False)]
    for share in shares:
        columns += [
            Column(f"{percent(share)} removed", best=_best(contents)),
            Column("least to most"),
        ]
    cells = []
    for method in methods:
        line = [Cell("random masks" if method == "random" else method)]
        for share in shares:
            row = found[method, share]
            line += [Cell.number(row["value"]), Cell.interval(row["least"], row["most"])]
        cells.append(line)
    what = "Share of what all heads are worth" if contents.scaled else contents.measure
    caption = f"{what[:1].upper()}{what[1:]} that is left, mean over {units_of(contents)}"
    table = DataTable("study-budgets", caption, columns, cells)
    return Section("budgets", "What is left at given shares", tables=[without_empty(table)])


def _reliability_section(contents: StudyContents) -> Section:
    rows = records(contents.table("study_ranking"))
    titles = {
        "self-agreement": "self_agreement",
        "agreement of seeds": "seed_agreement",
        "layers over seeds": "seed_layers",
        "CPR": "cpr",
        "CMD": "cmd",
        "passes to score": "passes",
        "seconds": "seconds",
    }
    smallest = ("CMD", "passes to score", "seconds")
    columns = [Column("method", is_number=False)]
    columns += [
        Column(title, best="smallest" if title in smallest else "largest") for title in titles
    ]
    cells = [
        [Cell(str(row["method"])), *(Cell.number(row[name]) for name in titles.values())]
        for row in rows
    ]
    table = without_empty(
        DataTable("study-reliability", "Reliability and cost of the methods", columns, cells)
    )
    text = [
        "Self-agreement is tau-b between the rankings on the two halves of a comparison's "
        "examples; agreement of seeds is tau-b between training runs of a model, whose heads have "
        "no counterparts unless they were fine-tuned from one pretrained model, and that of layers "
        "Spearman's rho. Passes and seconds are medians, to score all heads once."
    ]
    return Section("reliability", "Stability and cost", text=text, tables=[table])


def _procedure(contents: StudyContents) -> tuple[str, ...]:
    alpha = float(contents.design["alpha"])
    return (
        "Every comparison was read as it was saved, nothing was computed again.",
        "An area is the mean distance of a method's curve to that of common random masks over "
        "the shares removed; it is positive where the method is better.",
        "Methods were ranked by it in each model and task, the mean over training seeds, and means "
        f"were taken over {units_of(contents)}, with Student's t intervals.",
        "Mean ranks were compared by Friedman's and Nemenyi's tests, and by permuting the methods "
        "unit by unit.",
        "The variance of the differences between methods was divided by a mixed model (REML), with "
        "the part of the examples known from the bootstrap in each comparison.",
        f"Claims about single comparisons are corrected by Benjamini-Hochberg over methods, or "
        f"pairs, and comparisons (level {alpha:g}).",
    )


def _origin(contents: StudyContents) -> list[tuple[str, str]]:
    rows = []
    for run in contents.runs:
        model, name = run.settings.get("model", {}), run.cell.id
        sha = str(model.get("sha256", ""))[:12]
        seen = f"{model.get('spec', '')} ({sha}) on {', '.join(run.cell.data)}"
        rows.append((name, f"{seen}; {run.comparison.command}" if run.comparison.command else seen))
    return rows
