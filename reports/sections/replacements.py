"""The report's section on what removed heads put out, and whether that changes what is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.contents.run import Contents
from headtool.reports.sections.series import method_class, shared_span
from headtool.reports.wording.words import number, percent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["replacements_section"]

_ABOUT = (
    "Removed heads put out {first} everywhere else in this report. Results of ablations depend on "
    "what stands in for what is removed (Miller et al. 2024); means are over these examples."
)


def replacements_section(contents: Contents) -> Section | None:
    """Curves and effects of single heads under several replacements, side by side.

    Parameters
    ----------
    contents
        The run.
    """
    curves = contents.table("replacement_curves")
    if curves.empty:
        return None
    agreement = contents.table("replacement_agreement")
    text = [_ABOUT.format(first=contents.settings.get("replacement", "zero"))]
    for row in agreement.to_dict("records"):
        text.append(
            f"Effects of single heads under {row['replacement_x']} and {row['replacement_y']}: "
            f"Kendall's tau-b {number(row['tau_b'])}, Spearman's rho {number(row['spearman'])}; "
            f"{percent(row['same_verdict'])} of {row['heads']} heads get the same verdict."
        )
    everything = curves[curves["kind"] == "all"]
    tables = [_values(contents, everything)]
    effects = contents.table("replacements")
    if len(effects):
        tables.append(_effects(effects[effects["metric"] == contents.metric]))
    return Section(
        "replacements",
        "Does it matter what removed heads put out?",
        text=text,
        figures=[_figure(contents, everything)],
        tables=tables,
    )


def _figure(contents: Contents, curves: pd.DataFrame) -> Figure:
    span, first = shared_span([*curves["value"]]), curves["replacement"].iloc[0]
    panels = []
    for method in contents.methods:
        lines = []
        for name, rows in curves[curves["method"] == method].groupby("replacement", sort=False):
            css = "random" if name == first else method_class(contents, method)
            ordered = rows.sort_values("share")
            points = (ordered["share"].tolist(), ordered["value"].tolist())
            lines.append(Curve(str(name), *points, css))
        if lines:
            drawing = line_chart(
                lines,
                label=f"{method}: {contents.measure} by what removed heads put out",
                x_label="heads removed",
                y_label=contents.measure,
                width=280,
                height=210,
                y_range=span,
                compact=True,
            )
            panels.append(Panel(drawing, title=method))
    others = [str(name) for name in curves["replacement"].unique() if name != first]
    return Figure(
        panels,
        f"What is left of {contents.measure} where removed heads put out {first} (grey), and "
        f"{' or '.join(others)} (coloured).",
        css="trio",
    )


def _values(contents: Contents, curves: pd.DataFrame) -> DataTable:
    names = [str(name) for name in curves["replacement"].unique()]
    columns = [Column("method", is_number=False), Column("removed"), *map(Column, names)]
    rows = []
    for method in contents.methods:
        part = curves[curves["method"] == method]
        wide = part.pivot(index="share", columns="replacement", values="value")
        for share, values in wide.iterrows():
            cells = [Cell.number(float(values[name])) for name in names]
            rows.append([Cell(method), Cell.share(float(str(share))), *cells])
    return DataTable("replacement-curves", "Values of these curves", columns, rows)


def _effects(effects: pd.DataFrame) -> DataTable:
    names = [str(name) for name in effects["replacement"].unique()]
    place = ["kind", "layer", "head"]
    wide = effects.pivot(index=place, columns="replacement", values="delta")
    columns = [Column("head", is_number=False), *map(Column, names)]
    rows = [
        [Cell(".".join(map(str, head))), *(Cell.number(float(values[name])) for name in names)]
        for head, values in zip(wide.index, wide.to_dict("records"), strict=True)
    ]
    return DataTable(
        "replacements", "Effects of closing single heads", columns, rows, can_filter=True
    )
