"""The section of a study's report on which method ranks first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.intervals import Interval, interval_chart
from headtool.reports.colours import look_of
from headtool.reports.contents.run import records
from headtool.reports.contents.studies import StudyContents
from headtool.reports.findings.studies import ranking_text, units_of
from headtool.reports.wording.words import number

__all__ = ["level_name", "ranking_section", "without_empty"]


def level_name(contents: StudyContents) -> str:
    """Name the level of intervals."""
    return f"{1 - float(contents.design['alpha']):.0%} interval"


def without_empty(table: DataTable) -> DataTable:
    """Leave out columns in which no row has a value.

    Parameters
    ----------
    table
        The table.
    """
    stay = [i for i in range(len(table.columns)) if any(row[i].text != "–" for row in table.rows)]
    return replace(
        table,
        columns=[table.columns[i] for i in stay],
        rows=[[row[i] for i in stay] for row in table.rows],
    )


def ranking_section(contents: StudyContents) -> Section:
    """Mean ranks with critical differences, areas with intervals, and pairs of methods."""
    rows = records(contents.table("study_ranking"))
    figures = [*_rank_figure(contents), *_area_figure(contents)]
    return Section(
        "ranking",
        "Which method ranks first",
        text=ranking_text(contents),
        figures=figures,
        tables=[
            without_empty(
                DataTable(
                    "study-ranking",
                    "Methods over all comparisons",
                    [
                        Column("method", is_number=False),
                        *map(
                            Column,
                            ("mean rank", "rank among all", "area", "interval"),
                        ),
                        *map(
                            Column,
                            ("comparisons", "first in"),
                        ),
                        *map(Column, ("better in", "worse in", "better in at least")),
                    ],
                    [
                        [
                            Cell(str(row["method"])),
                            Cell.number(row["mean_rank"]),
                            Cell.number(row["rank_among_all"]),
                            Cell.number(row["area"]),
                            Cell.interval(row["low"], row["high"]),
                            *(Cell.count(row[name]) for name in ("cells", "best", "better")),
                            *(Cell.count(row[name]) for name in ("worse", "at_least")),
                        ]
                        for row in rows
                    ],
                )
            ),
            _pairs_table(contents),
        ],
    )


def _critical(contents: StudyContents) -> tuple[float, str]:
    """The difference of ranks that claims take, and what it is called."""
    design = contents.design
    by_unit = float(design["critical_units"])
    if math.isfinite(by_unit):
        return by_unit, f"with {units_of(contents)} as independent"
    return float(design["critical"]), "Nemenyi's, with blocks as independent"


def _rank_figure(contents: StudyContents) -> list[Figure]:
    rows = [row for row in records(contents.table("study_ranking")) if row["mean_rank"] > 0]
    if len(rows) < 2:
        return []
    critical, how = _critical(contents)
    half = critical / 2
    lines = [
        Interval(
            str(row["method"]),
            row["mean_rank"],
            row["mean_rank"] - half,
            row["mean_rank"] + half,
            look_of(str(row["method"])).css,
            number(row["mean_rank"]),
        )
        for row in rows
    ]
    caption = "Mean ranks, 1 for the best. "
    if math.isfinite(critical):
        caption += (
            f"Bars are half the critical difference of {number(critical)} to either side ({how}): "
            "two methods whose bars do not overlap differ beyond chance."
        )
    return [
        Figure(
            _two_widths(lines, "Mean ranks of the methods", "mean rank", line=1.0),
            caption,
            css="ranks",
        )
    ]


def _area_figure(contents: StudyContents) -> list[Figure]:
    rows = [row for row in records(contents.table("study_ranking")) if row["cells"]]
    if not rows:
        return []
    lines = [
        Interval(
            str(row["method"]),
            row["area"],
            row["low"],
            row["high"],
            look_of(str(row["method"])).css,
            f"{int(row['better'])} of {int(row['cells'])}",
        )
        for row in rows
    ]
    unit = f"share of {contents.measure}" if contents.scaled else contents.measure
    caption = (
        "How much better each method's curve is than that of common random masks, on average over "
        f"the shares removed: mean over {units_of(contents)}, with its {level_name(contents)}. "
        "Beside it, in how many comparisons it is better than random masks, corrected over "
        "methods and comparisons."
    )
    label = "Advantage over random masks"
    return [Figure(_two_widths(lines, label, f"advantage in {unit}"), caption)]


def _two_widths(
    lines: Sequence[Interval], label: str, x_label: str, *, line: float = 0.0
) -> list[Panel]:
    wide, narrow = (
        interval_chart(lines, label=label, x_label=x_label, width=width, line=line)
        for width in (640, 350)
    )
    return [Panel(wide, narrow=narrow)]


def _pairs_table(contents: StudyContents) -> DataTable:
    columns = [Column(title, is_number=False) for title in ("method", "and")]
    columns += [Column("area"), Column("interval"), Column("ranks between")]
    columns += [Column("p Nemenyi"), Column("p by unit"), Column("better in"), Column("worse in")]
    cells = [
        [
            *(Cell(str(row[name])) for name in ("method_x", "method_y")),
            Cell.number(row["area"]),
            Cell.interval(row["low"], row["high"]),
            Cell.number(row["rank_difference"]),
            *(Cell.p_value(row[name]) for name in ("p_nemenyi", "p_units")),
            *(
                Cell(f"{int(row[name])} of {int(row['cells'])}", float(row[name]))
                for name in ("better", "worse")
            ),
        ]
        for row in records(contents.table("study_pairs"))
        if row["cells"]
    ]
    return without_empty(DataTable("study-pairs", "Pairs of methods", columns, cells))
