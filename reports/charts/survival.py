"""Inline SVG of roles: how many heads of a role are kept as heads are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.svg import Scale, clip, element, path

__all__ = ["Kept", "kept_chart"]


@dataclass(frozen=True)
class Kept:
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


def kept_chart(points: Sequence[Kept], *, role: str, heads: int, css: str, label: str) -> Markup:
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
    x = [across(point.share) for point in points]
    parts = [
        element("text", clip(f"{role} ({heads})", 21), x=2, y=11, class_="label"),
        *(
            element(
                "line", x1=across.start, x2=across.end, y1=up(value), y2=up(value), class_="rule"
            )
            for value in (0, heads)
        ),
        *(
            element(
                "text", str(v), x=left - 6, y=up(v), dy=".35em", text_anchor="end", class_="tick"
            )
            for v in dict.fromkeys((0, heads))
        ),
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
    parts.append(
        element("line", x1=-9, x2=-9, y1=up.end, y2=up.start, class_="cursor", visibility="hidden")
    )
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
        class_=f"chart mini {css}",
        data_start=across.start,
        data_end=across.end,
    )
