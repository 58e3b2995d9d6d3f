"""The report's section on what removed heads put out, and whether that changes what is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.charts.relations import Point, scatter
from headtool.reports.contents.run import Contents
from headtool.reports.sections.frames import frame_table
from headtool.reports.sections.series import method_class, shared_span
from headtool.reports.wording.words import number, percent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["replacements_section"]

_PLACE = ["kind", "layer", "head"]
_ABOUT = (
    "Removed heads put out {first} everywhere else in this report. Results of ablations depend on "
    "what stands in for what is removed (Miller et al. 2024); means are over these examples."
)


def replacements_section(contents: Contents) -> Section | None:
    """Curves, effects of single heads, or scores under several replacements, side by side.

    Parameters
    ----------
    contents
        The run.
    """
    curves = contents.table("replacement_curves")
    effects, scores = contents.table("replacements"), contents.table("replacement_scores")
    if curves.empty and effects.empty and scores.empty:
        return None
    everything = curves[curves["kind"] == "all"]
    effects = effects[effects["metric"] == contents.metric]
    figures, tables = [], []
    if len(everything):
        figures.append(_figure(contents, everything))
        tables.append(_values(contents, everything))
    if len(effects):
        if everything.empty:
            what = f"change of {contents.measure}"
            figures.append(_scatters([("", effects)], "delta", what))
        tables.append(_effects(effects))
    if len(scores):
        by_method = [(str(name), rows) for name, rows in scores.groupby("method", sort=False)]
        figures.append(_scatters(by_method, "score", "score"))
        tables.append(_scores(scores))
    tables += _agreement(contents)
    return Section(
        "replacements",
        "Does it matter what removed heads put out?",
        text=_said(contents, has_scores=len(scores) > 0),
        figures=figures,
        tables=tables,
    )


def _said(contents: Contents, *, has_scores: bool) -> list[str]:
    first = contents.settings.get("replacement", "zero")
    if has_scores:
        first = contents.table("replacement_scores")["replacement"].iloc[0]
    text = [_ABOUT.format(first=first)]
    for row in contents.table("replacement_agreement").to_dict("records"):
        changed = f" The others: {row['changed'].replace(' ', ', ')}." if row["changed"] else ""
        text.append(
            f"Effects of single heads under {row['replacement_x']} and {row['replacement_y']}: "
            f"Kendall's tau-b {number(row['tau_b'])}, Spearman's rho {number(row['spearman'])}; "
            f"{percent(row['same_verdict'])} of {row['heads']} heads get the same verdict.{changed}"
        )
    for row in contents.table("replacement_score_agreement").to_dict("records"):
        text.append(
            f"Scores from {row['method']} under {row['replacement_x']} and {row['replacement_y']}, "
            f"of {row['heads']} heads: Kendall's tau-b {number(row['tau_b'])}, Spearman's rho "
            f"{number(row['spearman'])}."
        )
    return text


def _agreement(contents: Contents) -> list[DataTable]:
    """How alike any two replacements are, as numbers."""
    tables = []
    for name, caption in (
        ("replacement_agreement", "Agreement of effects and verdicts"),
        ("replacement_score_agreement", "Agreement of scores"),
    ):
        frame = contents.table(name)
        if len(frame):
            tables.append(frame_table(name.replace("_", "-"), caption, frame))
    return tables


def _scatters(parts: Sequence[tuple[str, pd.DataFrame]], column: str, what: str) -> Figure:
    """Every head with the first replacement (across) and with another (up)."""
    panels = []
    for title, frame in parts:
        first, *others = frame["replacement"].unique()
        wide = frame.pivot(index=_PLACE, columns="replacement", values=column)
        names = [".".join(map(str, place)) for place in wide.index]
        for other in others:
            points = [
                Point(x, y, name)
                for x, y, name in zip(wide[first], wide[other], names, strict=True)
            ]
            drawing = scatter(
                points,
                label=f"{what} of every head with {first} and with {other}",
                x_label=f"{what}, {first}",
                y_label=f"{what}, {other}",
            )
            panels.append(Panel(drawing, title=title))
    return Figure(
        panels,
        "Every head by what it is worth where closed heads put out the first replacement (across) "
        "and another (up).",
        css="trio" if len(panels) > 1 else "scatter",
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
    return DataTable(
        "replacements",
        "Effects of closing single heads",
        [Column("head", is_number=False), *_columns(effects)],
        _rows(effects, "delta"),
        can_filter=True,
    )


def _scores(scores: pd.DataFrame) -> DataTable:
    rows = [
        [Cell(str(method)), *row]
        for method, part in scores.groupby("method", sort=False)
        for row in _rows(part, "score")
    ]
    front = [Column(name, is_number=False) for name in ("method", "head")]
    columns = [*front, *_columns(scores)]
    return DataTable("replacement-scores", "Scores of all heads", columns, rows, can_filter=True)


def _columns(frame: pd.DataFrame) -> list[Column]:
    return [Column(str(name)) for name in frame["replacement"].unique()]


def _rows(frame: pd.DataFrame, column: str) -> list[list[Cell]]:
    names = frame["replacement"].unique()
    wide = frame.pivot(index=_PLACE, columns="replacement", values=column)
    return [
        [Cell(".".join(map(str, head))), *(Cell.number(float(values[name])) for name in names)]
        for head, values in zip(wide.index, wide.to_dict("records"), strict=True)
    ]
