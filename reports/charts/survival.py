"""Inline SVG of roles: how many heads of a role are kept as heads are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.axes import Axes, drawing
from headtool.reports.charts.svg import Scale, clip, element, path

__all__ = ["Remaining", "survival_chart"]


@dataclass(frozen=True)
class Remaining:
    """How many heads of a role stay at a budget.

    Attributes
    ----------
    share
        Heads removed, as a share of all that were up for removal.
    kept, expected
        Heads of the role that stay, and how many would by chance.
    proven
        Whether these are more than expected, by the corrected test.
    label
        What the point says of itself.
    """

    share: float
    kept: int
    expected: float
    proven: bool
    label: str


def survival_chart(
    points: Sequence[Remaining], *, role: str, heads: int, css: str, label: str
) -> Markup:
    """Draw the kept heads of a role (a line) beside those expected by chance (dashed).

    Parameters
    ----------
    points
        In ascending order of the share removed.
    role, heads
        Name of the role, and how many heads have it.
    css
        Class of its colour.
    label
        What a screen reader calls the figure.
    """
    width, height, left, right, top, bottom = 136, 112, 26, 10, 24, 20
    across = Scale(0.0, 1.0, left, width - right)
    up = Scale(0.0, max(1, heads), height - bottom, top)
    axes, x = Axes(across, up), [across(point.share) for point in points]
    parts = [
        element("text", clip(f"{role} ({heads})", 21), x=2, y=11, class_="label"),
        *(axes.level_line(value) for value in (0, heads)),
        *(axes.beside(value, str(value), gap=6) for value in dict.fromkeys((0, heads))),
        *(
            element(
                "text", f"{v:.0%}", x=across(v), y=height - 5, text_anchor=anchor, class_="tick"
            )
            for v, anchor in ((0.0, "middle"), (1.0, "end"))
        ),
        element(
            "path",
            d=path((a, up(point.expected)) for a, point in zip(x, points, strict=True)),
            class_="expected",
        ),
        element(
            "path",
            d=path((a, up(point.kept)) for a, point in zip(x, points, strict=True)),
            class_="kept-line",
        ),
    ]
    for a, point in zip(x, points, strict=True):
        parts.append(
            element(
                "g",
                element("title", point.label),
                element("circle", cx=a, cy=up(point.kept), r=7, class_="reach"),
                element("circle", cx=a, cy=up(point.kept), r=4.2 if point.proven else 2.2),
                class_="proven" if point.proven else "dot",
            )
        )
    return drawing(
        [*parts, axes.cursor()],
        label=label,
        width=width,
        height=height,
        css=f"chart mini {css}",
        data_start=across.start,
        data_end=across.end,
    )
