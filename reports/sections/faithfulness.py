"""The report's section on keeping only the most important heads: faithfulness, CPR and CMD."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.contents.facts import level_of
from headtool.reports.contents.run import Contents
from headtool.reports.sections.series import method_class

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["faithfulness_section"]

_ABOUT = (
    "Faithfulness is 1 for the whole model and 0 for the model without a head, in whichever "
    "direction {metric} is better. CPR is the area under it over the share of heads kept (more is "
    "better), CMD the area under its distance to 1 (less is better), as the Mechanistic "
    "Interpretability Benchmark takes them (Mueller et al. 2025)."
)


def faithfulness_section(contents: Contents) -> Section | None:
    """Keep-only curves of every method beside random rankings, and the areas under them.

    Parameters
    ----------
    contents
        The run.
    """
    areas = contents.table("faithfulness_areas")
    if areas.empty:
        return None
    text = [_ABOUT.format(metric=contents.measure)]
    if contents.settings.get("absolute"):
        text.append("Heads stay by the absolute value of their scores, however signed.")
    points = contents.table("faithfulness")
    figures = [
        figure
        for kind in areas["kind"].unique()
        if (figure := _figure(contents, points[points["kind"] == kind], str(kind))) is not None
    ]
    return Section(
        "faithfulness",
        "How faithful are the most important heads alone?",
        text=text,
        figures=figures,
        tables=[_table(areas)],
    )


def _figure(contents: Contents, points: pd.DataFrame, kind: str) -> Figure | None:
    if not points["faithfulness"].notna().any():
        return None
    lines = []
    for method in ["random", *reversed(contents.methods)]:
        rows = points[points["method"] == method].sort_values("share")
        if len(rows):
            columns = (rows[name].tolist() for name in ("share", "faithfulness", "low", "high"))
            x, y, low, high = columns
            lines.append(Curve(method, x, y, method_class(contents, method), low, high, method))
    of = "" if kind == "all" else f" of {kind}"
    areas = contents.table("faithfulness_areas")
    span = "; the grey one spans random rankings" if areas["draws"].notna().any() else ""
    drawings = [
        line_chart(
            lines,
            label=f"faithfulness against the share of heads{of} kept, a curve for each method",
            x_label=f"heads{of} kept",
            y_label="faithfulness",
            width=width,
            height=height,
            reference=(1.0, "whole model"),
        )
        for width, height in ((900, 360), (350, 330))
    ]
    return Figure(
        [Panel(drawings[0], narrow=drawings[1])],
        f"Faithfulness with only the most important heads{of} kept. Bands are {level_of(contents)} "
        f"intervals over examples{span}.",
        css="curves",
    )


def _table(areas: pd.DataFrame) -> DataTable:
    beaten = ("CPR", "CMD") if areas["draws"].notna().any() else ()
    columns = [
        *(Column(name, is_number=False) for name in ("heads", "method")),
        *(Column(name) for name in ("CPR", "CPR interval", "CMD", "CMD interval")),
        *(Column(f"random rankings beaten by {name}") for name in beaten),
    ]
    rows = []
    for row in areas.to_dict("records"):
        cells = [Cell(str(row["kind"])), Cell(str(row["method"]))]
        if row["reason"]:
            rows.append([*cells, Cell(str(row["reason"])), *[Cell("–")] * (3 + len(beaten))])
            continue
        for name in ("cpr", "cmd"):
            cells.append(Cell.number(row[name]))
            cells.append(Cell.interval(row[f"{name}_low"], row[f"{name}_high"]))
        for name in beaten:
            count = row[f"{name.lower()}_beaten"]
            known = not math.isnan(count)
            text = f"{count:.0f} of {row['draws']:.0f}" if known else "–"
            cells.append(Cell(text, count if known else None))
        rows.append(cells)
    return DataTable("faithfulness", "Areas under the keep-only curves", columns, rows)
