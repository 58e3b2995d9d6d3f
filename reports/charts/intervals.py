"""Inline SVG of estimates below each other, each with its interval.

Functions draw plain numbers; what they are is decided in `headtool.reports.sections`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.axes import Axes, drawing
from headtool.reports.charts.svg import Scale, clip, element
from headtool.reports.wording.words import number

__all__ = ["Interval", "interval_chart"]


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval on a line of its own.

    Attributes
    ----------
    label
        What stands left of it.
    value
        The estimate.
    low, high
        Ends of its interval; NaN where there is none.
    css
        Class of its colour.
    note
        What stands right of it.
    """

    label: str
    value: float
    low: float
    high: float
    css: str = ""
    note: str = ""


def interval_chart(
    rows: Sequence[Interval],
    *,
    label: str,
    x_label: str,
    width: int,
    line: float = 0.0,
    marks: Sequence[tuple[int, float, str]] = (),
    x_range: tuple[float, float] | None = None,
) -> Markup:
    """Estimates below each other, each with its interval and a number.

    Parameters
    ----------
    rows
        From top to bottom.
    label, x_label, width
        Name of the figure, of the axis, and pixels.
    line
        Value of the vertical line: no difference.
    marks
        Further values as row, value and what they are, such as a noise ceiling.
    x_range
        Ends of the axis; None: what the rows need.
    """
    names = [clip(row.label, 26) for row in rows]
    left = 18 + 7.6 * max(map(len, names), default=0)
    right = 12 + 7 * max((len(row.note) for row in rows), default=0)
    pitch, top, bottom = 26, 8, 42
    height = top + pitch * len(rows) + bottom
    values = [v for row in rows for v in (row.value, row.low, row.high)]
    span = (left, width - right)
    across = (
        Scale(*x_range, *span)
        if x_range
        else Scale.around([*values, *(v for _, v, _ in marks)], *span, include=(line,))
    )
    axes = Axes(across, Scale(0.0, 1.0, top + pitch * len(rows), top))
    parts: list[Markup | None] = [
        *axes.uprights(4 if width > 420 else 3),
        axes.upright_line(line, "reference"),
    ]
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = top + pitch * (place + 0.5)
        parts.append(
            element("text", name, x=left - 12, y=y, dy=".35em", text_anchor="end", class_="label")
        )
        parts.append(_interval(row, y, across))
        parts.append(
            element("text", row.note, x=width - right + 10, y=y, dy=".35em", class_="tick")
        )
    for place, value, name in marks:
        x, y = across(value), top + pitch * (place + 0.5)
        parts.append(
            element(
                "g",
                element("title", name),
                element("path", d=f"M{x:.1f} {y - 8:.1f}V{y + 8:.1f}"),
                class_="ceiling",
            )
        )
    parts.append(axes.x_name(x_label, height - 6))
    return drawing(parts, label=label, width=width, height=height)


def _interval(row: Interval, y: float, across: Scale) -> Markup | None:
    if not math.isfinite(row.value):
        return None
    whisker = None
    if math.isfinite(row.low) and math.isfinite(row.high):
        whisker = element("path", d=f"M{across(row.low):.1f} {y:.1f}H{across(row.high):.1f}")
    title = f"{row.label}: {number(row.value)} [{number(row.low)}, {number(row.high)}]"
    return element(
        "g",
        element("title", title),
        whisker,
        element("circle", cx=across(row.value), cy=y, r=4.2),
        class_=f"interval {row.css}",
    )
