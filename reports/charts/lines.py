"""Inline SVG of curves with bands, and of estimates with intervals.

Every function draws plain numbers; what they are is decided in `headtool.reports.sections.page`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.svg import Scale, clip, element, path, ticks
from headtool.reports.wording.words import number

__all__ = ["Interval", "Line", "interval_chart", "line_chart"]


@dataclass(frozen=True)
class Line:
    """A curve with its band; `css` gives its colour and dash, `label` stands at its end."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    css: str
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    label: str | None = None
    dots: bool = True


def line_chart(
    lines: Sequence[Line],
    *,
    label: str,
    x_label: str,
    y_label: str,
    width: int,
    height: int,
    reference: tuple[float, str] | None = None,
    y_range: tuple[float, float] | None = None,
    interactive: bool = False,
    compact: bool = False,
    heads: int | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Curves over the share of heads removed, from 0 to 1, or over the number of heads kept.

    Parameters
    ----------
    lines
        The curves; later ones lie on top.
    label
        What a screen reader calls the figure.
    x_label, y_label
        Names of the axes.
    width, height
        In pixels.
    reference
        A horizontal line with its name: the whole model.
    y_range
        Ends of the vertical axis; None: what the curves need.
    interactive
        Whether the page's script shows the values under the pointer.
    compact
        Whether lines have no names at their ends.
    heads
        The horizontal axis is a number of heads, from 0 to so many; None: a share.
    marks
        Places on the horizontal axis, with what stands above the curves there.
    """
    end = float(heads or 1)
    named = [line for line in lines if line.label] if not compact else []
    longest = max((len(clip(line.label or "", 18)) for line in named), default=0)
    reach = max((max(line.x, default=0.0) for line in lines), default=end)
    left, top, bottom = 52, 12, 40
    right = max(18, round(14 + 7.6 * longest - 0.9 * (1 - reach / end) * (width - left)))
    across = Scale(0.0, end, left, width - right)
    levels = _levels(marks, across)
    top += 14 * (max(levels, default=-1) + 1)
    if y_range is None:
        values = [v for line in lines for v in (*line.y, *line.low, *line.high)]
        up = Scale.around(
            values, height - bottom, top, include=(reference[0],) if reference else ()
        )
    else:
        up = Scale(*y_range, height - bottom, top)
    parts: list[Markup | None] = [
        *_frame(across, up, _places(heads), 4 if compact else 5),
        *_marks(marks, levels, across, up),
        element(
            "text",
            x_label,
            x=(across.start + across.end) / 2,
            y=height - 4,
            text_anchor="middle",
            class_="axis",
        ),
        element(
            "text",
            y_label,
            transform=f"translate(12 {(up.start + up.end) / 2:.0f}) rotate(-90)",
            text_anchor="middle",
            class_="axis",
        ),
    ]
    if reference and math.isfinite(reference[0]):
        y = up(reference[0])
        at_left = bool(marks) and reach > 0.75 * end  # where marked curves are not
        parts += [
            element("line", x1=across.start, x2=across.end, y1=y, y2=y, class_="reference"),
            element(
                "text",
                reference[1],
                x=across.start + 4 if at_left else across.end,
                y=y - 5,
                text_anchor="start" if at_left else "end",
                class_="reference",
            ),
        ]
    parts += [_line(line, across, up) for line in lines]
    parts += _end_labels(named, across, up)
    if interactive:
        parts.append(
            element(
                "line", x1=-9, x2=-9, y1=up.end, y2=up.start, class_="cursor", visibility="hidden"
            )
        )
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        tabindex="0" if interactive else None,
        aria_label=label,
        class_="chart interactive" if interactive else "chart",
        data_start=across.start if interactive else None,
        data_end=across.end if interactive else None,
    )


def _places(heads: int | None) -> list[tuple[float, str]]:
    """Values of the horizontal axis, and how they are written."""
    if heads is None:
        return [(share, f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)]
    return [(value, number(value)) for value in ticks(0, heads) if value == round(value)]


def _levels(marks: Sequence[tuple[float, str]], across: Scale) -> list[int]:
    """How many lines above the curves each mark's text stands, so that none overlap."""
    ends: list[float] = []
    levels = []
    for value, text in marks:
        half = 3.4 * len(text) + 4
        x = across(value)
        level = next((i for i, end in enumerate(ends) if x - half >= end), len(ends))
        ends[level : level + 1] = [x + half]
        levels.append(level)
    return levels


def _marks(
    marks: Sequence[tuple[float, str]], levels: Sequence[int], across: Scale, up: Scale
) -> list[Markup]:
    """The texts of the marks, each with a rule through the curves."""
    parts = []
    for (value, text), level in zip(marks, levels, strict=True):
        x, y = across(value), up.end - 4 - 14 * level
        parts += [
            element("line", x1=x, x2=x, y1=y + 2, y2=up.start, class_="rule"),
            element("text", text, x=x, y=y, text_anchor="middle", class_="tick"),
        ]
    return parts


def _frame(
    across: Scale, up: Scale, x_ticks: Sequence[tuple[float, str]], y_count: int
) -> list[Markup]:
    """Horizontal rules with their values, and the values of the horizontal axis."""
    parts = []
    for value in up.ticks(y_count):
        y = up(value)
        parts += [
            element("line", x1=across.start, x2=across.end, y1=y, y2=y, class_="rule"),
            element(
                "text",
                number(value),
                x=across.start - 7,
                y=y,
                dy=".35em",
                text_anchor="end",
                class_="tick",
            ),
        ]
    parts += [
        element(
            "text",
            text,
            x=across(value),
            y=up.start + 16,
            text_anchor="middle",
            class_="tick",
        )
        for value, text in x_ticks
    ]
    return parts


def _line(line: Line, across: Scale, up: Scale) -> Markup:
    x = [across(value) for value in line.x]
    band = None
    if line.low and line.high:
        inside = [
            (a, up(low), up(high))
            for a, low, high in zip(x, line.low, line.high, strict=True)
            if math.isfinite(low) and math.isfinite(high)
        ]
        edge = [(a, high) for a, _, high in inside] + [(a, low) for a, low, _ in reversed(inside)]
        band = element("path", d=path(edge, closed=True), class_="band")
    points = [(a, up(value)) for a, value in zip(x, line.y, strict=True)]
    return element(
        "g",
        element("title", line.name),
        band,
        element("path", d=path(points), class_="line"),
        *(
            element("circle", cx=a, cy=b, r=2.6, class_="dot")
            for a, b in points
            if line.dots and math.isfinite(b)
        ),
        class_=f"series {line.css}",
        data_series=line.name,
    )


def _end_labels(lines: Sequence[Line], across: Scale, up: Scale) -> list[Markup]:
    """Names at the right ends of the curves, pushed apart where they would overlap."""
    ends = []
    for line in lines:
        finite = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
        if finite:
            ends.append((up(finite[-1][1]), across(finite[-1][0]), line))
    ends.sort(key=lambda end: end[0])
    height, positions = 15.0, [y for y, _, _ in ends]
    for i in range(1, len(positions)):
        positions[i] = max(positions[i], positions[i - 1] + height)
    overflow = positions[-1] - (up.start - 2) if positions else 0.0
    if overflow > 0:  # push the pile up from below
        positions[-1] -= overflow
        for i in range(len(positions) - 2, -1, -1):
            positions[i] = min(positions[i], positions[i + 1] - height)
    return [
        element(
            "text",
            clip(line.label or "", 18),
            x=x + 8,
            y=y,
            dy=".35em",
            class_=f"name {line.css}",
            data_series=line.name,
        )
        for y, (_, x, line) in zip(positions, ends, strict=True)
    ]


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval on a line of its own."""

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
    base = top + pitch * len(rows)
    parts: list[Markup | None] = []
    for value in across.ticks(4 if width > 420 else 3):
        x = across(value)
        parts += [
            element("line", x1=x, x2=x, y1=top, y2=base, class_="rule"),
            element("text", number(value), x=x, y=base + 16, text_anchor="middle", class_="tick"),
        ]
    parts.append(
        element("line", x1=across(line), x2=across(line), y1=top, y2=base, class_="reference")
    )
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
    parts.append(
        element(
            "text",
            x_label,
            x=(span[0] + span[1]) / 2,
            y=height - 6,
            text_anchor="middle",
            class_="axis",
        )
    )
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        class_="chart",
    )


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
