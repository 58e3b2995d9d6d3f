"""One method's scores against another's: a point for each head, in the shape of its role."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from headtool.reports.blocks import Figure, Panel
from headtool.reports.charts.axes import Axes, drawing
from headtool.reports.charts.roles import HeadRoles, css_of
from headtool.reports.charts.svg import Scale, clip, element, path
from headtool.reports.contents.heads import Heads, places
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import number, p_value

if TYPE_CHECKING:
    from headtool.reports.contents.heads import Place

__all__ = ["score_data", "score_figure", "score_pair"]

_WIDTH, _HEIGHT = 470, 400
_AREA = Axes(Scale(0.0, 1.0, 62, _WIDTH - 14), Scale(0.0, 1.0, _HEIGHT - 46, 10))
"""Where points lie; both scales take positions from 0 to 1."""


def score_pair(methods: Sequence[str]) -> tuple[str, str] | None:
    """Which two methods to set against each other: relevance over confidence, if both are there."""
    if len(methods) < 2:
        return None
    x = "confidence" if "confidence" in methods else methods[1]
    y = "lrp" if "lrp" in methods and x != "lrp" else next(m for m in methods if m != x)
    return x, y


def score_figure(contents: Contents, heads: Heads, roles: HeadRoles) -> Figure | None:
    """A scatter plot of two methods' scores; the page's script can show any two."""
    pair = score_pair(contents.methods)
    if pair is None:
        return None
    x, y = (_Placed(contents, heads, method) for method in pair)
    legend: list[tuple[Any, str]] = [(_swatch(name), name) for name in roles.names]
    if roles.known:
        legend.append((_swatch(""), "no role"))
    if roles.known and None in roles.of:
        legend.append((_swatch(None), "not looked at"))
    return Figure(
        [Panel(_scatter(heads, roles, x, y))],
        _caption(contents, *pair),
        css="scores",
        legend=legend,
    )


class _Placed:
    """A method's scores as positions from 0 to 1."""

    def __init__(self, contents: Contents, heads: Heads, method: str) -> None:
        scores = contents.table("scores")
        rows = scores[scores["method"] == method]
        by_place: Mapping[Place, float] = dict(
            zip(places(rows), rows["score"].astype(float), strict=True)
        )
        self.method = method
        self.scores = [by_place.get(place, math.nan) for place in heads.places]
        scale = Scale.around(self.scores, 0.0, 1.0)
        self.at = [scale(score) if math.isfinite(score) else None for score in self.scores]
        self.ticks = [(scale(value), number(value)) for value in scale.ticks(4)]


def _scatter(heads: Heads, roles: HeadRoles, x: _Placed, y: _Placed) -> Markup:
    points = []
    for i, (a, b) in enumerate(zip(x.at, y.at, strict=True)):
        shown = a is not None and b is not None
        of = roles.of[i]
        first = None if of is None and roles.known else next(iter(of or ()), "")
        points.append(
            element(
                "g",
                _shape(first),
                transform=f"translate({_AREA.across(a or 0.0):.1f} {_AREA.up(b or 0.0):.1f})",
                class_=f"point {_css(first)}",
                visibility=None if shown else "hidden",
                data_head=i,
            )
        )
    across, up = _AREA.across, _AREA.up
    below = [
        element(
            "g",
            element("line", y1=up.end, y2=up.start, class_="rule"),
            element("text", text, y=_HEIGHT - 26, text_anchor="middle", class_="tick"),
            transform=f"translate({_AREA.across(at):.1f} 0)",
        )
        for at, text in x.ticks
    ]
    beside = [
        element(
            "g",
            element("line", x1=across.start, x2=across.end, class_="rule"),
            element("text", text, x=across.start - 7, dy=".35em", text_anchor="end", class_="tick"),
            transform=f"translate(0 {_AREA.up(at):.1f})",
        )
        for at, text in y.ticks
    ]
    return drawing(
        [
            element("g", *below, class_="below"),
            element("g", *beside, class_="beside"),
            _AREA.x_name(clip(x.method, 46), _HEIGHT - 6, css="axis name-x"),
            _AREA.y_name(clip(y.method, 40), 13, css="axis name-y"),
            *points,
        ],
        label=f"{y.method} against {x.method}: the score of every head by both",
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


def _swatch(role: str | None) -> Markup:
    return element(
        "svg",
        element(
            "g", _shape(role), class_=f"point {_css(role)}", transform="translate(8 8)",
        ),
        width=16,
        height=16,
        aria_hidden="true",
    )  # fmt: skip


def _caption(contents: Contents, x: str, y: str) -> str:
    """Which two methods these are, and how far they agree as the table of agreement has it."""
    text = f"Every head by its score from {x} (across) and from {y} (up)."
    for row in records(contents.table("agreement")):
        if {x, y} == {str(row["method_x"]), str(row["method_y"])} and x != y:
            text += (
                f" Spearman's rho {number(row['spearman'])} (within layers "
                f"{p_value(row['spearman_p_within_layers'])}), Kendall's tau-b "
                f"{number(row['tau_b'])} (within layers {p_value(row['tau_b_p_within_layers'])})."
            )
    if not contents.table("roles").empty:
        text += " A head of several roles has the shape of the first."
    return text


def score_data(contents: Contents, heads: Heads) -> dict[str, Any]:
    """Every method's axis and every pair's caption, for the page's script."""
    pair = score_pair(contents.methods)
    if pair is None:
        return {}
    axes = [_Placed(contents, heads, method) for method in contents.methods]
    return {
        "scores": {
            "frame": [
                float(v) for scale in (_AREA.across, _AREA.up) for v in (scale.start, scale.end)
            ],
            "axes": [
                {
                    "name": axis.method,
                    "title": clip(axis.method, 40),
                    "at": [None if at is None else round(at, 4) for at in axis.at],
                    "ticks": [[round(at, 4), text] for at, text in axis.ticks],
                }
                for axis in axes
            ],
            "captions": [
                [_caption(contents, x, y) for y in contents.methods] for x in contents.methods
            ],
            "pair": [contents.methods.index(name) for name in pair],
        }
    }
