"""Inline SVG of heads: the layer x head grid, and effects in ascending order.

Every function draws plain numbers; what they are is decided in `headtool.reports.sections.page`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.axes import Axes, drawing
from headtool.reports.charts.roles import stripes
from headtool.reports.charts.svg import Scale, clip, element, path

__all__ = [
    "LEVELS",
    "Effect",
    "SquareCell",
    "caterpillar",
    "head_grid",
    "level",
    "mark",
]

LEVELS = 7  # steps of the colour scale
_LETTERED = 18  # pixels of a cell that has room for letters


def level(value: float, low: float, high: float) -> int:
    """Step of the colour scale, from 0 to `LEVELS` - 1; -1 for a value that is not finite.

    Parameters
    ----------
    value
        What is to be coloured.
    low, high
        Ends of the scale.
    """
    if not math.isfinite(value):
        return -1
    share = (value - low) / (high - low) if high > low else 0.0
    return min(LEVELS - 1, max(0, int(share * LEVELS)))


@dataclass(frozen=True)
class SquareCell:
    """A head in a grid: its classes, what it is called, and the mark in its middle.

    Attributes
    ----------
    classes
        Classes of the cell.
    label
        What it is called.
    mark
        The verdict whose mark is in its middle; empty for none.
    number
        The head's number in the page's data.
    roles
        Roles whose colours the cell can have.
    letters
        Letters of these roles.
    """

    classes: str
    label: str
    mark: str = ""
    number: int | None = None
    roles: Sequence[str] = ()
    letters: str = ""


def head_grid(
    cells: Mapping[tuple[int, int], SquareCell],
    *,
    label: str,
    size: int,
    interactive: bool,
    view: int | None = None,
    by_role: bool = False,
) -> Markup:
    """Layers down, heads across.

    Parameters
    ----------
    cells
        By layer and head; places without a cell stay empty.
    label
        What a screen reader calls the grid.
    size
        Width of a cell in pixels, the gap included.
    interactive
        Whether layers and heads are numbered, and heads can be asked about one by one.
    view
        Number of what the grid shows in the page's data, for a grid that is not interactive.
    by_role
        Whether heads have the colours of their roles.
    """
    layers = sorted({layer for layer, _ in cells})
    width = max((head for _, head in cells), default=0) + 1
    left, top = (30, 20) if interactive else (0, 0)
    gap = max(1, size // 10)
    rows = []
    for row, layer in enumerate(layers):
        y = top + row * size
        members = [
            _cell(cells[layer, head], left + head * size, y, size - gap, interactive)
            for head in range(width)
            if (layer, head) in cells
        ]
        heading = _axis_text(layer, left - 8, y + (size - gap) / 2, "end") if interactive else None
        rows.append(element("g", heading, *members, role="row" if interactive else None))
    step = 1 if size >= 18 else 4
    heads = [
        _axis_text(head, left + head * size + (size - gap) / 2, top - 9, "middle")
        for head in range(0, width if interactive else 0, step)
    ]
    total = left + width * size, top + len(layers) * size
    return drawing(
        [element("g", *heads, aria_hidden="true") if heads else None, *rows],
        label=label,
        width=total[0],
        height=total[1],
        css="heads by-role" if by_role else "heads",
        role="grid" if interactive else "img",
        data_view=view,
    )


def _axis_text(value: int, x: float, y: float, anchor: str) -> Markup:
    return element("text", str(value), x=x, y=y, dy=".35em", text_anchor=anchor, class_="tick")


def _cell(cell: SquareCell, x: float, y: float, side: float, interactive: bool) -> Markup:
    written = cell.letters and side >= _LETTERED
    middle = x + side / 2, y + side * (0.34 if written else 0.5)
    return element(
        "g",
        element("title", cell.label) if not interactive and cell.label else None,
        element("rect", x=x, y=y, width=side, height=side, rx=min(3, side / 6)),
        stripes(cell.roles, x, y, side) if cell.roles else None,
        mark(cell.mark, *middle, side / (6 if written else 5)) if cell.mark else None,
        element(
            "text", cell.letters, x=middle[0], y=y + side * 0.9, text_anchor="middle", class_="role"
        )
        if written
        else None,
        class_=f"cell {cell.classes}",
        data_head=cell.number if interactive else None,
        data_of=None if interactive else cell.number,
        role="gridcell" if interactive else None,
        tabindex="-1" if interactive else None,
        aria_label=cell.label if interactive else None,
    )


def mark(verdict: str, x: float, y: float, radius: float) -> Markup | None:
    """The shape that stands for a verdict; a head that was not tested has none.

    Parameters
    ----------
    verdict
        The verdict; empty for none.
    x, y
        Middle of the shape, in pixels.
    radius
        In pixels.
    """
    if verdict in ("needed", "removable", "undecided"):
        return element("circle", cx=x, cy=y, r=radius, class_=f"mark {verdict}")
    if verdict == "harmful":
        corners = [
            (x + 1.25 * radius * math.sin(angle), y - 1.25 * radius * math.cos(angle))
            for angle in (0, 2 * math.pi / 3, 4 * math.pi / 3)
        ]
        return element("path", d=path(corners, closed=True), class_="mark harmful")
    return None


@dataclass(frozen=True)
class Effect:
    """What closing one head changes, with its interval.

    Attributes
    ----------
    label
        What the head is called.
    value
        What closing it changes.
    low, high
        Ends of the interval; NaN where there is none.
    verdict
        The verdict of the test; empty without one.
    number
        The head's number in the page's data.
    """

    label: str
    value: float
    low: float
    high: float
    verdict: str = ""
    number: int | None = None


def caterpillar(
    effects: Sequence[Effect],
    *,
    label: str,
    y_label: str,
    margin: float,
    width: int,
    height: int = 300,
) -> Markup:
    """Effects in ascending order, each with its interval; a dashed line at `margin`.

    Parameters
    ----------
    effects
        In any order; those without a value are left out.
    label
        What a screen reader calls the figure.
    y_label
        Name of the vertical axis.
    margin
        Where the dashed line is; NaN for none.
    width, height
        In pixels.
    """
    ordered = sorted((e for e in effects if math.isfinite(e.value)), key=lambda e: e.value)
    left, right, top, bottom = 58, 12, 10, 26
    values = [v for e in ordered for v in (e.value, e.low, e.high)]
    up = Scale.around([*values, margin], height - bottom, top, include=(0.0,))
    axes = Axes(Scale(0.0, 1.0, left, width - right), up)
    across = Scale(-0.5, max(1, len(ordered)) - 0.5, left + 8, width - right)
    parts: list[Markup | None] = [*axes.levels(5, zero="reference")]
    if math.isfinite(margin):
        below = up(margin) + 13
        parts += [
            axes.level_line(margin, "margin"),
            element("text", "margin", x=width - right, y=below, text_anchor="end", class_="tick"),
        ]
    radius = max(1.6, min(4.0, (across.end - across.start) / max(1, len(ordered)) / 2.4))
    for place, effect in enumerate(ordered):
        x = across(place)
        whisker = None
        if math.isfinite(effect.low) and math.isfinite(effect.high):
            whisker = element("path", d=f"M{x:.1f} {up(effect.low):.1f}V{up(effect.high):.1f}")
        shape = mark(effect.verdict, x, up(effect.value), radius) or element(
            "circle", cx=x, cy=up(effect.value), r=radius * 0.7, class_="mark untested"
        )
        parts.append(
            element(
                "g",
                element("title", effect.label) if effect.number is None else None,
                whisker,
                shape,
                class_=f"effect {effect.verdict}".strip(),
                data_head=effect.number,
            )
        )
    parts += [
        axes.x_name(f"{len(ordered)} heads, in the order of their effect", height - 6),
        axes.y_name(clip(y_label, 40)),
    ]
    return drawing(parts, label=label, width=width, height=height)
