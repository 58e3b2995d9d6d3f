"""The report's section on sums of single effects, and on what selection flatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.intervals import Interval, interval_chart
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.contents.reach import default_budget
from headtool.reports.contents.run import Contents
from headtool.reports.sections.series import method_class, shared_span
from headtool.reports.wording.words import number, percent

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["additivity_section"]


def additivity_section(contents: Contents, text: Sequence[str]) -> Section | None:
    """Whether effects of single heads add up, and what choosing on the same examples flatters.

    Parameters
    ----------
    contents
        The run.
    text
        Paragraphs that open the section.
    """
    figures = [*_additivity_figure(contents), *_optimism_figure(contents)]
    if not figures:
        return None
    tables = []
    for name, title, first, second, difference in (
        ("additivity", "Together, and one at a time", "joint", "sum_of_singles", "gap"),
        (
            "optimism",
            "Selected on the same examples, and on others",
            "selection",
            "evaluation",
            "optimism",
        ),
    ):
        frame = contents.table(name)
        if frame.empty:
            continue
        columns = [
            Column("method", is_number=False),
            Column("removed"),
            *(Column(part.replace("_", " ")) for part in (first, second, difference)),
        ]
        rows = [
            [
                Cell(str(row["method"])),
                Cell.share(row["share"]),
                *(Cell.number(row[p]) for p in (first, second, difference)),
            ]
            for _, row in frame.iterrows()
        ]
        tables.append(DataTable(name, title, columns, rows))
    return Section(
        "additivity",
        "Do single effects add up, and does selection flatter?",
        text=text,
        figures=figures,
        tables=tables,
    )


def _additivity_figure(contents: Contents) -> list[Figure]:
    table = contents.table("additivity")
    if table.empty:
        return []
    span = shared_span([*table["joint"], *table["sum_of_singles"], 0.0])
    panels = []
    for method in contents.methods:
        rows = table[table["method"] == method].sort_values("share")
        if rows.empty:
            continue
        share = [0.0, *rows["share"]]
        lines = [
            Curve("sum of single effects", share, [0.0, *rows["sum_of_singles"]], "random"),
            Curve("together", share, [0.0, *rows["joint"]], method_class(contents, method)),
        ]
        drawing: Markup = line_chart(
            lines,
            label=f"{method}: effect of the removed heads together, and the sum of their effects",
            x_label="heads removed",
            y_label=f"change of {contents.measure}",
            width=280,
            height=210,
            y_range=span,
            compact=True,
        )
        panels.append(Panel(drawing, title=method))
    caption = (
        f"What the removed heads change {contents.measure} by together (coloured), and the sum of "
        "what each changes alone (grey). Where the two part, ablations of single heads say little "
        "about sets."
    )
    return [Figure(panels, caption, css="trio")] if panels else []


def _optimism_figure(contents: Contents) -> list[Figure]:
    table, budget = contents.table("optimism"), default_budget(contents)
    rows = table[(table["budget"] == budget) & table["optimism"].notna()]
    if rows.empty or not {"low", "high"} <= set(rows.columns):
        return []
    lines = [
        Interval(
            str(row["method"]),
            row["optimism"],
            row["low"],
            row["high"],
            method_class(contents, str(row["method"])),
            number(row["optimism"]),
        )
        for _, row in rows.iterrows()
    ]
    drawings = [
        interval_chart(
            lines,
            label="How much better each selection does on the very examples that made it",
            x_label=f"optimism, in {contents.measure}",
            width=width,
        )
        for width in (620, 350)
    ]
    share = percent(float(rows["share"].iloc[0]))
    return [
        Figure(
            [Panel(drawings[0], narrow=drawings[1])],
            f"With {share} of the heads removed: how much better a mask does on the evaluation "
            "examples if it was selected on the same examples rather than on others. Everything "
            "else in this report was selected on others.",
        )
    ]
