"""Inline SVG of relations: matrices of coefficients, and one data set against another.

Every function draws plain numbers; what they are is decided in `headtool.reports.sections.page`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.heads import LEVELS, level, mark
from headtool.reports.charts.svg import Scale, clip, element
from headtool.reports.wording.words import number

__all__ = ["Point", "coefficient", "matrix", "scatter"]


def matrix(
    names: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    label: str,
    text: Mapping[tuple[str, str], str] | None = None,
    size: int = 66,
) -> Markup:
    """A square of coefficients between -1 and 1, with the numbers in it."""
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
    total = margin + len(names) * size, top + len(names) * size + 22
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
    return element(
        "svg",
        *parts,
        viewBox=f"0 {top - 4:.0f} {total[0]} {total[1] - top + 4:.0f}",
        width=total[0],
        height=int(total[1] - top + 4),
        role="img",
        aria_label=label,
        class_="chart matrix",
    )


def coefficient(value: float) -> str:
    """Two decimals, without the zero before the point."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.0f}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class Point:
    """A head in a scatter plot."""

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
    """Heads by what they are worth on two data sets, with lines at zero."""
    left, right, top, bottom = 58, 14, 10, 44
    across = Scale.around([p.x for p in points], left, width - right, include=(0.0,))
    up = Scale.around([p.y for p in points], height - bottom, top, include=(0.0,))
    parts: list[Markup | None] = []
    for value in across.ticks(4):
        x = across(value)
        parts += [
            element("line", x1=x, x2=x, y1=up.end, y2=up.start, class_="rule"),
            element(
                "text", number(value), x=x, y=up.start + 16, text_anchor="middle", class_="tick"
            ),
        ]
    for value in up.ticks(5):
        y = up(value)
        parts += [
            element("line", x1=across.start, x2=across.end, y1=y, y2=y, class_="rule"),
            element(
                "text", number(value), x=left - 7, y=y, dy=".35em", text_anchor="end", class_="tick"
            ),
        ]
    zero_x, zero_y = across(0.0), up(0.0)
    parts += [
        element("line", x1=zero_x, x2=zero_x, y1=up.end, y2=up.start, class_="reference"),
        element("line", x1=across.start, x2=across.end, y1=zero_y, y2=zero_y, class_="reference"),
        element(
            "text",
            clip(x_label, 52),
            x=(across.start + across.end) / 2,
            y=height - 6,
            text_anchor="middle",
            class_="axis",
        ),
        element(
            "text",
            clip(y_label, 46),
            transform=f"translate(13 {(up.start + up.end) / 2:.0f}) rotate(-90)",
            text_anchor="middle",
            class_="axis",
        ),
    ]
    taken: list[tuple[float, float, float]] = []
    for point in points:
        if not (math.isfinite(point.x) and math.isfinite(point.y)):
            continue
        x, y = across(point.x), up(point.y)
        shape = mark(point.verdict, x, y, 4.5) or element(
            "circle", cx=x, cy=y, r=3, class_="mark undecided"
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
