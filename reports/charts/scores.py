"""Inline SVG of one method's scores against another's: a point for each head, shaped by role."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.axes import Axes, drawing
from headtool.reports.charts.roles import css_of
from headtool.reports.charts.svg import Scale, clip, element, path
from headtool.reports.wording.words import number

__all__ = ["SCORE_AREA", "ScoreAxis", "point_swatch", "score_chart"]

_WIDTH, _HEIGHT = 470, 400
SCORE_AREA = Axes(Scale(0.0, 1.0, 62, _WIDTH - 14), Scale(0.0, 1.0, _HEIGHT - 46, 10))
"""Where points lie; both scales take positions from 0 to 1."""


@dataclass(frozen=True)
class ScoreAxis:
    """A method's scores as positions along an axis.

    Attributes
    ----------
    name
        The method.
    at
        Position of every head, from 0 to 1; None for one without a score.
    ticks
        Positions of round scores, and how they are written.
    """

    name: str
    at: Sequence[float | None]
    ticks: Sequence[tuple[float, str]]

    @classmethod
    def of(cls, name: str, scores: Sequence[float]) -> ScoreAxis:
        """Place scores so that all finite ones have room.

        Parameters
        ----------
        name
            The method.
        scores
            A score for every head; NaN for one without.
        """
        scale = Scale.around(scores, 0.0, 1.0)
        return cls(
            name,
            [scale(score) if math.isfinite(score) else None for score in scores],
            [(scale(value), number(value)) for value in scale.ticks(4)],
        )


def score_chart(x: ScoreAxis, y: ScoreAxis, roles: Sequence[str | None]) -> Markup:
    """A point for each head, across by one method's score and up by another's.

    Parameters
    ----------
    x, y
        The two methods.
    roles
        The first role of each head; empty for a head without one, None for one not looked at.
    """
    across, up = SCORE_AREA.across, SCORE_AREA.up
    points = []
    for i, (a, b, role) in enumerate(zip(x.at, y.at, roles, strict=True)):
        shown = a is not None and b is not None
        points.append(
            element(
                "g",
                _shape(role),
                transform=f"translate({across(a or 0.0):.1f} {up(b or 0.0):.1f})",
                class_=f"point {_css(role)}",
                visibility=None if shown else "hidden",
                data_head=i,
            )
        )
    below = [
        element(
            "g",
            element("line", y1=up.end, y2=up.start, class_="rule"),
            element("text", text, y=_HEIGHT - 26, text_anchor="middle", class_="tick"),
            transform=f"translate({across(at):.1f} 0)",
        )
        for at, text in x.ticks
    ]
    beside = [
        element(
            "g",
            element("line", x1=across.start, x2=across.end, class_="rule"),
            element("text", text, x=across.start - 7, dy=".35em", text_anchor="end", class_="tick"),
            transform=f"translate(0 {up(at):.1f})",
        )
        for at, text in y.ticks
    ]
    return drawing(
        [
            element("g", *below, class_="below"),
            element("g", *beside, class_="beside"),
            SCORE_AREA.x_name(clip(x.name, 46), _HEIGHT - 6, css="axis name-x"),
            SCORE_AREA.y_name(clip(y.name, 40), 13, css="axis name-y"),
            *points,
        ],
        label=f"{y.name} against {x.name}: the score of every head by both",
        width=_WIDTH,
        height=_HEIGHT,
    )


def _css(role: str | None) -> str:
    """Class of a point; a head without a role is another thing than one not looked at."""
    return "unseen" if role is None else css_of(role) if role else "plain"


def _shape(role: str | None) -> Markup:
    """The shape of a role's points, told apart without colour; heads without a role are small."""
    r = 4.6
    corners = {
        "r0": [],
        "r1": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "r2": [(0, -1.3 * r), (1.2 * r, r), (-1.2 * r, r)],
        "r3": [(0, -1.35 * r), (1.35 * r, 0), (0, 1.35 * r), (-1.35 * r, 0)],
        "r4": [(0, 1.3 * r), (1.2 * r, -r), (-1.2 * r, -r)],
        "r5": [(-r, -r), (0, -0.45 * r), (r, -r), (0.45 * r, 0), (r, r), (0, 0.45 * r), (-r, r),
               (-0.45 * r, 0)],
        "r6": [(-1.3 * r, -0.55 * r), (1.3 * r, -0.55 * r), (1.3 * r, 0.55 * r),
               (-1.3 * r, 0.55 * r)],
        "r7": [(-0.55 * r, -1.3 * r), (0.55 * r, -1.3 * r), (0.55 * r, 1.3 * r),
               (-0.55 * r, 1.3 * r)],
    }.get(css_of(role) if role else "", [])  # fmt: skip
    if corners:
        return element("path", d=path(corners, closed=True))
    return element("circle", r=r if role else 2.6)


def point_swatch(role: str | None) -> Markup:
    """The point of a role, for legends; see `score_chart` for empty and None."""
    return element(
        "svg",
        element(
            "g", _shape(role), class_=f"point {_css(role)}", transform="translate(8 8)",
        ),
        width=16,
        height=16,
        aria_hidden="true",
    )  # fmt: skip
