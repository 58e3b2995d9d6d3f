"""Inline SVG of curves with bands.

Every function draws plain numbers; what they are is decided in `headtool.reports.sections.page`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.axes import Axes, drawing
from headtool.reports.charts.labels import HEIGHT, Box, at_gaps, width_of
from headtool.reports.charts.svg import Scale, clip, element, path, ticks
from headtool.reports.wording.words import number

__all__ = ["Curve", "line_chart"]


@dataclass(frozen=True)
class Curve:
    """A curve with its band; `css` gives its colour and dash, `label` stands at its end.

    Attributes
    ----------
    name
        What the curve is called under the pointer.
    x, y
        Its points; one that is not finite interrupts the line.
    css
        Class of its colour and dash.
    low, high
        Ends of its band at every point; empty for none.
    label
        What stands at its end; None for nothing.
    dots
        Whether its points are marked.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    css: str
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    label: str | None = None
    dots: bool = True


def line_chart(
    lines: Sequence[Curve],
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
    beside = max(18, round(14 + 7.6 * longest - 0.9 * (1 - reach / end) * (width - left)))
    names: list[Markup] | None = []
    for right in (18, beside):  # names stand among the curves if there is room for all
        across = Scale(0.0, end, left, width - right)
        levels = _levels(marks, across)
        above = top + 14 * (max(levels, default=-1) + 1)
        if y_range is None:
            values = [v for line in lines for v in (*line.y, *line.low, *line.high)]
            up = Scale.around(
                values, height - bottom, above, include=(reference[0],) if reference else ()
            )
        else:
            up = Scale(*y_range, height - bottom, above)
        names = _gap_labels(named, across, up, reference, len(lines))
        if names is not None:
            break
    axes = Axes(across, up)
    parts: list[Markup | None] = [
        *axes.levels(4 if compact else 5),
        *(axes.below(value, text) for value, text in _places(heads)),
        *_marks(marks, levels, across, up),
        axes.x_name(x_label, height - 4),
        axes.y_name(y_label),
    ]
    if reference and math.isfinite(reference[0]):
        y = up(reference[0])
        at_left = bool(marks) and reach > 0.75 * end  # where marked curves are not
        parts += [
            axes.level_line(reference[0], "reference"),
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
    parts += _end_labels(named, across, up) if names is None else names
    if not interactive:
        return drawing(parts, label=label, width=width, height=height)
    return drawing(
        [*parts, axes.cursor()],
        label=label,
        width=width,
        height=height,
        css="chart interactive",
        tabindex="0",
        data_start=across.start,
        data_end=across.end,
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


def _line(line: Curve, across: Scale, up: Scale) -> Markup:
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


def _gap_labels(
    lines: Sequence[Curve],
    across: Scale,
    up: Scale,
    reference: tuple[float, str] | None,
    curves: int,
) -> list[Markup] | None:
    """Names beside the curves, where the gap to others is widest; None if one has no room."""
    if len(lines) < curves:  # a curve without a name must not pass for a neighbour's
        return None
    points = [
        [
            (across(x), up(y))
            for x, y in sorted(zip(line.x, line.y, strict=True))
            if math.isfinite(y)
        ]
        for line in lines
    ]
    texts = [clip(line.label or "", 18) for line in lines]
    area = Box(across.start + 4, across.end - 2, up.end, up.start - 2)
    taken = []
    if reference and math.isfinite(reference[0]):
        y = up(reference[0])
        taken = [
            Box(across.start, across.end, y - 1, y + 1),
            Box(across.end - width_of(reference[1]), across.end, y - 5 - HEIGHT, y),
        ]
    boxes = at_gaps(texts, points, area, taken)
    if boxes is None:
        return None
    return [
        element(
            "text",
            text,
            x=(box.left + box.right) / 2,
            y=(box.top + box.bottom) / 2,
            dy=".35em",
            text_anchor="middle",
            class_=f"name gap {line.css}",
            data_series=line.name,
        )
        for text, box, line in zip(texts, boxes, lines, strict=True)
    ]


def _end_labels(lines: Sequence[Curve], across: Scale, up: Scale) -> list[Markup]:
    """Names at the right ends of the curves, pushed apart where they would overlap.

    Curves that meet there, as all do without heads, are named in the order of their means.
    """
    ends = []
    for line in lines:
        finite = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
        if finite:
            mean = sum(up(y) for _, y in finite) / len(finite)
            ends.append((up(finite[-1][1]), across(finite[-1][0]), mean, line))
    ends.sort(key=lambda end: (round(end[0]), end[2]))
    height, positions = 15.0, [y for y, *_ in ends]
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
        for y, (_, x, _, line) in zip(positions, ends, strict=True)
    ]
