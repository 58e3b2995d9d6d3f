"""The page beside a pruned model: what it is worth, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtool.heads import HeadMask
from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.findings.procedure import Procedure
from headtool.reports.formats.html import render_page
from headtool.reports.sections.page import Page
from headtool.reports.wording.words import number, sentence, stage_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PAGE", "add_pruning_report"]

PAGE = "report.html"

_CSS = {"zero": "random", "mean": "m0", "optimal": "m0"}


def add_pruning_report(
    folder: Path,
    model: str,
    mask: HeadMask,
    recovery: pd.DataFrame,
    curve: pd.DataFrame,
    notes: Sequence[str],
    command: str,
) -> None:
    """Write the page of a pruned model into its folder, which is still being made.

    Parameters
    ----------
    folder
        The folder.
    model
        SPEC of the whole model.
    mask
        Closes the heads that are gone.
    recovery, curve
        The tables of `headtool.schema`.
    notes
        What a reader must know.
    command
        The command that makes the model again; may be empty.
    """
    metric = str(recovery["metric"].iloc[0])
    rows = recovery[recovery["metric"] == metric].to_dict("records")
    values = "; ".join(f"{stage_name(row['stage'])} {number(row['value'])}" for row in rows)
    page = Page(
        title=f"{model} without {len(mask.closed)} of its {mask.sites.n_heads} heads",
        subtitle="",
        created="",
        headline=f"By {metric}: {values}.",
        methods=None,
        columns=[],
        opening=[],
        verdicts=[],
        warnings=[sentence(note) for note in notes],
        sections=[_section(recovery, curve, metric)],
        procedure=Procedure((), ()),
        origin=[("heads removed", " ".join(map(str, mask.closed)))],
        command=command,
        data={},
    )
    (folder / PAGE).write_text(render_page(page), encoding="utf-8")


def _section(recovery: pd.DataFrame, curve: pd.DataFrame, metric: str) -> Section:
    columns = [
        *(Column(name, is_number=False) for name in ("model", "metric")),
        *(Column(name) for name in ("value", "change", "interval of the change")),
    ]
    cells = [
        [
            Cell(stage_name(row["stage"])),
            Cell(str(row["metric"])),
            Cell.number(row["value"]),
            Cell.number(row["delta"]),
            Cell.interval(row["low"], row["high"]),
        ]
        for row in recovery.to_dict("records")
    ]
    tables = [DataTable("recovery", "Before and after", columns, cells)]
    figures = []
    if len(curve):
        figures.append(_figure(curve, recovery, metric))
        tables.append(_points(curve))
    return Section("recovery", "Before and after", figures=figures, tables=tables)


def _figure(curve: pd.DataFrame, recovery: pd.DataFrame, metric: str) -> Figure:
    first = recovery[recovery["metric"] == metric].iloc[0]
    lines = []
    for name, rows in curve.groupby("replacement", sort=False):
        whole = rows["value"] - rows["delta"]
        lines.append(
            Curve(
                stage_name(str(name)),
                rows["share"].tolist(),
                rows["value"].tolist(),
                _CSS[str(name)],
                (whole + rows["low"]).tolist(),
                (whole + rows["high"]).tolist(),
                str(name),
            )
        )
    drawings = [
        line_chart(
            lines,
            label=f"{metric} against the share of heads removed, by what they put out instead",
            x_label="heads removed",
            y_label=metric,
            width=width,
            height=height,
            reference=(float(first["value"]), "whole model"),
        )
        for width, height in ((900, 360), (350, 330))
    ]
    caption = (
        f"What is left of {metric} when the heads with the lowest scores go, by what they put out "
        "instead. Bands are 95% intervals over examples for the distance to the whole model."
    )
    return Figure([Panel(drawings[0], narrow=drawings[1])], caption, css="curves")


def _points(curve: pd.DataFrame) -> DataTable:
    columns = [
        Column("heads put out", is_number=False),
        *(Column(name) for name in ("removed", "value", "change", "interval of the change")),
    ]
    cells = [
        [
            Cell(str(row["replacement"])),
            Cell.share(row["share"]),
            Cell.number(row["value"]),
            Cell.number(row["delta"]),
            Cell.interval(row["low"], row["high"]),
        ]
        for row in curve.to_dict("records")
    ]
    return DataTable("curve", "Values of the curves", columns, cells)
