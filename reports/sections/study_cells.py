"""The sections of a study's report on its cells: curves and kept heads of each, side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from markupsafe import Markup

from headtool.analysis.study_cells import RANDOM, StudyRun
from headtool.heads import Kind
from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.heads import LEVELS, SquareCell, head_grid
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.charts.svg import element
from headtool.reports.colours import look_of
from headtool.reports.contents.heads import Place, places
from headtool.reports.contents.run import MEASURES, records
from headtool.reports.contents.studies import StudyContents
from headtool.reports.wording.words import digits, percent

__all__ = ["cells_section", "curves_section", "kept_section", "line_legend"]

Link = Callable[[StudyRun], str]
"""Gives the link to a cell's own report; empty where there is none."""

_SHOWN_SHARE = 0.5
_WIDTH = 150  # pixels of a grid
_FEW = 300  # heads up to which each is named


def line_legend(contents: StudyContents) -> list[tuple[str, str]]:
    """The methods' lines, and that of random masks."""
    lines = [(f"line {look_of(name).css}", name) for name in contents.study.methods]
    return [*lines, ("line random", "random masks")]


def curves_section(contents: StudyContents, link: Link) -> Section:
    """The curves of every cell, small.

    Parameters
    ----------
    contents
        The comparisons.
    link
        Gives the link to a cell's report.
    """
    panels = [
        Panel(_curves(contents, run), title=contents.title(run), link=link(run), css="curve")
        for run in contents.runs
    ]
    caption = (
        "What is left of the metric when the least important heads are removed first, in every "
        "comparison. A title leads to the comparison's own report."
    )
    return Section(
        "curves",
        "Curves by model and task",
        figures=[Figure(panels, caption, css="cells", legend=line_legend(contents))],
        tables=[_results_table(contents, link)],
    )


def _curves(contents: StudyContents, run: StudyRun) -> Markup:
    rows = run.curves
    lines = []
    for method in [RANDOM, *reversed([m for m in contents.study.methods if m in run.methods])]:
        part = rows[rows["method"] == method].sort_values("share")
        if len(part):
            css = "random" if method == RANDOM else look_of(method).css
            points = part["share"].tolist(), part["value"].tolist()
            lines.append(Curve(method, *points, css, dots=False))
    measure = MEASURES.get(run.metric, run.metric)
    whole = None if math.isnan(run.whole) else (run.whole, "whole model")
    return line_chart(
        lines,
        label=f"{contents.title(run)}: {measure} against the share of heads removed",
        x_label="heads removed",
        y_label=measure,
        width=280,
        height=200,
        reference=whole,
        compact=True,
    )


def _results_table(contents: StudyContents, link: Link) -> DataTable:
    """Every method in every cell, with p-values corrected over both."""
    by_cell = {run.cell.id: run for run in contents.runs}
    columns = [Column(title, is_number=False) for title in ("comparison", "method")]
    columns += [Column("area"), Column("interval")]
    columns += [Column("share of all heads' worth")] if contents.scaled else []
    columns += [Column(title) for title in ("rank", "p", "p Holm", "p BH")]
    columns += [Column("claim", is_number=False)]
    cells = []
    for row in records(contents.table("study_results")):
        run = by_cell[str(row["cell"])]
        line = [Cell(contents.title(run), link=link(run)), Cell(str(row["method"]))]
        line += [Cell.number(row["area"]), Cell.interval(row["low"], row["high"])]
        line += [Cell.number(row["advantage"])] if contents.scaled else []
        line += [Cell.number(row["rank"])]
        line += [Cell.p_value(row[name]) for name in ("p", "p_holm", "p_bh")]
        cells.append([*line, Cell(str(row["claim"]))])
    return DataTable("study-results", "Every method in every comparison", columns, cells)


def kept_section(contents: StudyContents, link: Link) -> Section | None:
    """How many methods keep each head, cell by cell.

    Parameters
    ----------
    contents
        The comparisons.
    link
        Gives the link to a cell's report.
    """
    panels, shares = [], []
    for run in contents.runs:
        found = _kept(run)
        if found is None:
            continue
        drawing, share = found
        shares.append(share)
        title = f"{contents.title(run)}, {percent(share)} removed"
        panels.append(Panel(drawing, title=title, link=link(run), css="small"))
    if not panels:
        return None
    caption = (
        "Layers down, heads across: the stronger a head's colour, the more of the methods keep it; "
        "heads without colour are removed by all."
    )
    legend = [("scale", "kept by one to kept by all")]
    return Section(
        "heads",
        "Heads that the methods keep, by model and task",
        figures=[Figure(panels, caption, css="multiples", legend=legend)],
    )


def _kept(run: StudyRun) -> tuple[Markup, float] | None:
    """The grids of a cell at the budget nearest to one half, and that share."""
    kept = run.comparison.kept
    kept = kept[kept["method"].isin(run.methods)]
    if kept.empty:
        return None
    share = min(kept["share"].unique().tolist(), key=lambda share: abs(share - _SHOWN_SHARE))
    rows = kept[kept["share"] == share]
    counts: Counter[Place] = Counter()
    for place, stays in zip(places(rows), rows["kept"], strict=True):
        counts[place] += bool(stays)
    kinds = list(dict.fromkeys(kind for kind, _, _ in counts))
    grids = [_grid(counts, kind, len(run.methods)) for kind in kinds]
    if len(grids) == 1:
        return grids[0], share
    named = [
        element("div", element("span", kind), grid) for kind, grid in zip(kinds, grids, strict=True)
    ]
    return element("div", *named, class_="kinds"), share


def _grid(counts: Mapping[Place, int], kind: Kind, methods: int) -> Markup:
    cells = {}
    for (own, layer, head), amount in counts.items():
        if own != kind:
            continue
        step = -1 if not amount else round((amount - 1) / max(1, methods - 1) * (LEVELS - 1))
        label = f"{kind}.{layer}.{head}: kept by {amount} of {methods}"
        css = "removed" if step < 0 else f"kept s{step}"
        cells[layer, head] = SquareCell(css, label if len(counts) <= _FEW else "")
    width = max(head for _, head in cells) + 1
    size = max(4, min(14, _WIDTH // width))
    return head_grid(cells, label=f"heads kept, {kind}", size=size, interactive=False)


def cells_section(contents: StudyContents, link: Link) -> Section:
    """The comparisons, each with a link to its own report.

    Parameters
    ----------
    contents
        The comparisons.
    link
        Gives the link to a cell's report.
    """
    texts = ("comparison", "model", "seed", "task", "metric")
    columns = [Column(title, is_number=False) for title in texts]
    columns += [Column(t) for t in ("methods", "heads", "examples", "whole", "no head", "seconds")]
    columns += [Column("report", is_number=False)]
    by_cell = {run.cell.id: run for run in contents.runs}
    cells = []
    for row in records(contents.table("study_cells")):
        run = by_cell[str(row["cell"])]
        href = link(run)
        examples = row["examples"]
        cells.append(
            [
                Cell(run.cell.id),
                Cell(contents.models[str(row["model"])]),
                Cell(str(row["replicate"]) or "–"),
                Cell(contents.tasks[str(row["task"])]),
                Cell(MEASURES.get(str(row["metric"]), str(row["metric"]))),
                *(Cell.count(row[name]) for name in ("methods", "heads")),
                Cell("–") if examples != examples else Cell.count(float(examples)),
                *(Cell.number(row[name]) for name in ("whole", "none")),
                Cell(digits(row["seconds"]), None),
                Cell("open", link=href) if href else Cell("missing: headtool report makes it"),
            ]
        )
    missing = sum(not link(run) for run in contents.runs)
    text = []
    if missing:
        text = [
            f"{missing} of {len(contents.runs)} comparisons have no report of their own beside "
            "their tables; headtool report RUN makes it."
        ]
    return Section(
        "comparisons",
        "The comparisons",
        text=text,
        tables=[DataTable("study-cells", "Every comparison", columns, cells)],
    )
