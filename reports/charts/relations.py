"""Inline SVG of relations: matrices of coefficients, and one data set against another.

Every function draws plain numbers; what they are is decided in `headtool.reports.sections.page`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.axes import Axes, drawing
from headtool.reports.charts.heads import LEVELS, level, mark
from headtool.reports.charts.svg import Scale, clip, element

__all__ = ["Point", "coefficient", "matrix", "scatter"]


def matrix(
    names: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    label: str,
    text: Mapping[tuple[str, str], str] | None = None,
    size: int = 66,
) -> Markup:
    """A square of coefficients between -1 and 1, with the numbers in it.

    Parameters
    ----------
    names
        Of the rows and of the columns.
    values
        Coefficients by pair of names; NaN or missing where undefined.
    label
        What a screen reader calls the figure.
    text
        What each pair tells under the pointer.
    size
        Width of a cell in pixels, the gap included.
    """
    shown = [clip(name, 14) for name in names]
    margin = 14 + 7 * max(map(len, shown), default=0)
    parts: list[Markup] = []
    for i, row in enumerate(names):
        y = margin / 2 + 12 + i * size
        parts.append(
            element(
                "text",
                shown[i],
                x=margin - 10,
                y=y + size / 2,
                dy=".35em",
                text_anchor="end",
                class_="label",
            )
        )
        for j, column in enumerate(names):
            value = values.get((row, column), math.nan)
            known = math.isfinite(value)
            written = "" if i == j and not known else coefficient(value)
            title = (text or {}).get((row, column), f"{row}, {column}: {written}")
            step = level(value, -1.0, 1.0) if known else LEVELS // 2
            parts.append(
                element(
                    "g",
                    element("title", title),
                    element(
                        "rect", x=margin + j * size, y=y, width=size - 3, height=size - 3, rx=3
                    ),
                    element(
                        "text",
                        written,
                        x=margin + (j + 0.5) * size - 1.5,
                        y=y + size / 2 - 1.5,
                        dy=".35em",
                        text_anchor="middle",
                    ),
                    class_=f"pair d{step}" if written else "pair same",
                    data_pair=f"{i},{j}",
                )
            )
    top = margin / 2 + 12
    bottom = top + len(names) * size + 22
    for j, name in enumerate(shown):
        parts.append(
            element(
                "text",
                clip(name, size // 6),
                x=margin + (j + 0.5) * size - 1.5,
                y=top + len(names) * size + 14,
                text_anchor="middle",
                class_="label",
            )
        )
    return drawing(
        parts,
        label=label,
        width=margin + len(names) * size,
        height=int(bottom - top + 4),
        top=top - 4,
        css="chart matrix",
    )


def coefficient(value: float) -> str:
    """Two decimals, without the zero before the point."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.0f}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class Point:
    """A head in a scatter plot.

    Attributes
    ----------
    x, y
        The head's effects on the two data sets.
    label
        What it is called.
    verdict
        The verdict of the test; empty without one.
    number
        The head's number in the page's data.
    named
        Whether its name stands beside it, where there is room.
    """

    x: float
    y: float
    label: str
    verdict: str = ""
    number: int | None = None
    named: bool = False


def scatter(
    points: Sequence[Point],
    *,
    label: str,
    x_label: str,
    y_label: str,
    width: int = 420,
    height: int = 380,
) -> Markup:
    """Heads by what they are worth on two data sets, with lines at zero.

    Parameters
    ----------
    points
        The heads; those without both effects are left out.
    label
        What a screen reader calls the figure.
    x_label, y_label
        Names of the axes.
    width, height
        In pixels.
    """
    left, right, top, bottom = 58, 14, 10, 44
    across = Scale.around([p.x for p in points], left, width - right, include=(0.0,))
    up = Scale.around([p.y for p in points], height - bottom, top, include=(0.0,))
    axes = Axes(across, up)
    parts: list[Markup | None] = [
        *axes.uprights(4),
        *axes.levels(5),
        axes.upright_line(0.0, "reference"),
        axes.level_line(0.0, "reference"),
        axes.x_name(clip(x_label, 52), height - 6),
        axes.y_name(clip(y_label, 46), 13),
    ]
    taken: list[tuple[float, float, float]] = []
    for point in points:
        if not (math.isfinite(point.x) and math.isfinite(point.y)):
            continue
        x, y = across(point.x), up(point.y)
        shape = mark(point.verdict, x, y, 4.5) or element(
            "circle", cx=x, cy=y, r=3, class_="mark untested"
        )
        parts.append(
            element(
                "g",
                element("title", point.label) if point.number is None else None,
                shape,
                _name(point.label, x, y, across, taken) if point.named else None,
                class_="point",
                data_head=point.number,
            )
        )
    return drawing(parts, label=label, width=width, height=height)


def _name(
    label: str, x: float, y: float, across: Scale, taken: list[tuple[float, float, float]]
) -> Markup | None:
    """Write a point's name beside it, where there is room for it among those `taken`."""
    length = 6.5 * len(label)
    for start, anchor in ((x + 8, "start"), (x - 8 - length, "end")):
        inside = across.start <= start and start + length <= across.end + 10
        free = all(
            abs(y - other) > 12 or start > right or start + length < left
            for left, right, other in taken
        )
        if inside and free:
            taken.append((start, start + length, y))
            return element(
                "text",
                label,
                x=x + 8 if anchor == "start" else x - 8,
                y=y,
                dy=".35em",
                text_anchor=anchor,
                class_="tick",
            )
    return None
