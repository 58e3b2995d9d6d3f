"""The report's section on sets of heads: pruning curves, and areas between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtool.reports.blocks import Cell, Column, DataTable, Figure, Panel, Section, order
from headtool.reports.charts.intervals import Interval, interval_chart
from headtool.reports.charts.lines import Curve, line_chart
from headtool.reports.contents.facts import band_of, level_of, matched
from headtool.reports.contents.run import Contents
from headtool.reports.sections.series import method_class, shared_span
from headtool.reports.wording.words import bare_p_value, digits, percent

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

__all__ = ["curve_panel", "curves_section"]

_RANDOM = {"random": "random masks", "random-matched": "random masks, same layers"}


def curves_section(contents: Contents, text: Sequence[str]) -> Section | None:
    """Metric against the share of heads removed, with random masks and areas between curves.

    Parameters
    ----------
    contents
        The run.
    text
        Paragraphs that open the section.
    """
    curves = contents.table("curves")
    if curves.empty:
        return None
    everything = curves[curves["kind"] == "all"]
    figures = []
    if len(everything):
        figures.append(_main_figure(contents, everything))
        figures += _panels_against_random(contents, everything)
        figures += _areas(contents)
    figures += _kinds(contents, curves)
    return Section(
        "curves",
        "What is left when heads are removed together",
        text=text,
        figures=figures,
        tables=[
            table for table in (_value_table(contents, everything), _area_table(contents)) if table
        ],
        data={"curves": _data(contents, everything)},
    )


def _line(
    contents: Contents, rows: pd.DataFrame, name: str, css: str, *, label: str | None = None
) -> Curve:
    ordered = rows.sort_values("share")
    low, high = band_of(contents, ordered)
    return Curve(
        name,
        ordered["share"].tolist(),
        ordered["value"].tolist(),
        css,
        low.tolist(),
        high.tolist(),
        label,
    )


def _lines(contents: Contents, rows: pd.DataFrame) -> list[Curve]:
    """The random masks first, so that methods lie on top."""
    found = []
    for method in ["random", *reversed(contents.methods)]:
        part = rows[rows["method"] == method]
        if len(part):
            found.append(
                _line(contents, part, method, method_class(contents, method), label=method)
            )
    return found


def _reference(contents: Contents) -> tuple[float, str] | None:
    return None if math.isnan(contents.whole) else (contents.whole, "whole model")


def curve_panel(contents: Contents) -> Panel | None:
    """The curves of all methods, small, to stand beside the heads; None without curves."""
    curves = contents.table("curves")
    rows = curves[curves["kind"] == "all"]
    if rows.empty:
        return None
    drawings = [
        _chart(contents, _lines(contents, rows), *size) for size in ((450, 290), (350, 290))
    ]
    return Panel(drawings[0], title=f"{contents.measure} that is left", narrow=drawings[1])


def _chart(contents: Contents, lines: Sequence[Curve], width: int, height: int) -> Markup:
    return line_chart(
        lines,
        label=f"{contents.measure} against the share of heads removed, a curve for each method",
        x_label="heads removed",
        y_label=contents.measure,
        width=width,
        height=height,
        reference=_reference(contents),
        interactive=True,
    )


def _main_figure(contents: Contents, rows: pd.DataFrame) -> Figure:
    lines = _lines(contents, rows)
    drawings = [_chart(contents, lines, *size) for size in ((900, 400), (350, 330))]
    level = level_of(contents)
    return Figure(
        [Panel(drawings[0], narrow=drawings[1])],
        f"What is left of {contents.measure} when the least important heads are removed first. "
        f"Bands are {level} intervals over examples for the distance to the whole model."
        f"{_put_out(contents)}",
        css="curves",
    )


def _put_out(contents: Contents) -> str:
    """What removed heads put out, where nothing else is shown beside it."""
    if len(contents.table("replacement_curves")):
        return ""
    first = str(contents.settings.get("replacement", "zero"))
    other = "mean" if first == "zero" else "zero"
    return (
        f" Removed heads put out {first}; headtool compare --replacement {first},{other} shows "
        f"{other} beside it."
    )


def _panels_against_random(contents: Contents, rows: pd.DataFrame) -> list[Figure]:
    """A panel for each method with random masks that have as many heads in every layer."""
    panels = []
    low, high = band_of(contents, rows)
    span = shared_span([*rows["value"], *low, *high])
    for method in contents.methods:
        own, other = rows[rows["method"] == method], rows[rows["method"] == matched(method)]
        if own.empty or other.empty:
            continue
        drawing = line_chart(
            [
                _line(contents, other, matched(method), "random"),
                _line(contents, own, method, method_class(contents, method)),
            ],
            label=f"{method} against random masks with as many heads in every layer",
            x_label="heads removed",
            y_label=contents.measure,
            width=280,
            height=210,
            reference=_reference(contents),
            y_range=span,
            compact=True,
        )
        panels.append(Panel(drawing, title=method))
    if not panels:
        return []
    caption = (
        "Each method (coloured) against random masks that remove as many heads of every layer "
        "(grey): what a method knows beyond how many heads each layer needs."
    )
    return [Figure(panels, caption, css="trio")]


def _areas(contents: Contents) -> list[Figure]:
    tests = contents.table("curve_tests")
    rows = tests[tests["kind"] == "all"]
    against = rows[rows["method_y"].astype(str).str.startswith("random")]
    ends = [v for v in (*against["low"], *against["high"], *against["area"]) if math.isfinite(v)]
    if not ends:
        return []
    span = shared_span([*ends, 0.0])
    panels = []
    for title, part in (
        ("against random masks with as many heads in every layer", against["method_y"] != "random"),
        ("against random masks of any heads", against["method_y"] == "random"),
    ):
        lines = [
            Interval(
                str(row["method_x"]),
                row["area"],
                row["low"],
                row["high"],
                method_class(contents, str(row["method_x"])),
                f"p {bare_p_value(row['p_draws_adjusted'])}",
            )
            for _, row in against[part].iterrows()
        ]
        if lines:
            drawing = interval_chart(
                lines,
                label=f"Area between curves: each method {title}",
                x_label=f"advantage in {contents.measure}",
                width=350,
                x_range=span,
            )
            panels.append(Panel(drawing, title=title))
    caption = (
        "How much better each method's curve is than that of random masks, on average over all "
        "shares removed, with its interval; p, corrected, says whether a random draw could do as "
        "well, or as badly."
    )
    return [Figure(panels, caption)]


def _kinds(contents: Contents, curves: pd.DataFrame) -> list[Figure]:
    """Curves of one attention kind at a time."""
    panels = []
    for kind in [k for k in curves["kind"].unique() if k != "all"]:
        lines = _lines(contents, curves[curves["kind"] == kind])
        drawing = line_chart(
            lines,
            label=f"{contents.measure} when only heads of {kind} are removed",
            x_label=f"{kind} heads removed",
            y_label=contents.measure,
            width=280,
            height=230,
            reference=_reference(contents),
            compact=True,
        )
        panels.append(Panel(drawing, title=str(kind)))
    if not panels:
        return []
    legend = [(f"line {method_class(contents, m)}", m) for m in contents.methods]
    return [Figure(panels, "Removing heads of one attention kind only.", css="trio", legend=legend)]


def _value_table(contents: Contents, rows: pd.DataFrame) -> DataTable | None:
    present = [m for m in [*contents.methods, "random"] if (rows["method"] == m).any()]
    if not present:
        return None
    columns = [Column("removed"), *(Column(method) for method in present)]
    cells = []
    for share in sorted(rows["share"].unique()):
        line = [Cell.share(share)]
        for method in present:
            found = rows[(rows["share"] == share) & (rows["method"] == method)]
            line.append(_value_cell(contents, found.iloc[0]) if len(found) else Cell("–"))
        cells.append(line)
    return DataTable(
        "curve-values",
        f"Values of the curves: {contents.measure} and its interval",
        columns,
        cells,
        best="largest" if contents.higher_is_better else "smallest",
    )


def _value_cell(contents: Contents, row: pd.Series) -> Cell:
    text = digits(row["value"])
    if math.isfinite(row["low"]) and math.isfinite(row["high"]) and row["share"] > 0:
        low, high = band_of(contents, row)
        text += f" [{digits(low)}, {digits(high)}]"
    return Cell(text, order(row["value"]))


def _area_table(contents: Contents) -> DataTable | None:
    tests = contents.table("curve_tests")
    if tests.empty:
        return None
    columns = [
        *(Column(name, is_number=False) for name in ("heads", "method", "against")),
        *(Column(name) for name in ("area", "interval", "p of these masks", "adjusted")),
        *(Column(name) for name in ("random draws beaten", "adjusted p among draws")),
    ]
    rows = []
    for _, row in tests.iterrows():
        beaten = row["draws_beaten"]
        rows.append(
            [
                *(Cell(str(row[name])) for name in ("kind", "method_x")),
                Cell(_opponent(contents, str(row["method_y"]))),
                Cell.number(row["area"]),
                Cell.interval(row["low"], row["high"]),
                Cell.p_value(row["p"]),
                Cell.p_value(row["p_adjusted"]),
                Cell("–")
                if math.isnan(beaten) or math.isnan(row["draws"])
                else Cell(f"{int(beaten)} of {int(row['draws'])}", float(beaten)),
                Cell.p_value(row["p_draws_adjusted"]),
            ]
        )
    return DataTable("areas", "Areas between curves", columns, rows)


def _opponent(contents: Contents, name: str) -> str:
    """What a curve is compared with, in words."""
    return name if name in contents.methods else _RANDOM.get(name.partition(":")[0], name)


def _data(contents: Contents, rows: pd.DataFrame) -> dict[str, object]:
    """Values that the page's script shows under the pointer."""
    lines = []
    for method in [*contents.methods, "random"]:
        part = rows[rows["method"] == method].sort_values("share")
        if len(part):
            lines.append(
                {
                    "name": method,
                    "css": method_class(contents, method),
                    "values": [_value_cell(contents, row).text for _, row in part.iterrows()],
                }
            )
    shares = sorted(rows["share"].unique().tolist())
    return {"shares": shares, "labels": [percent(share) for share in shares], "lines": lines}
