"""The report's figure of two methods' scores, and what the page's script needs to show others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headtool.reports.blocks import Figure, Panel
from headtool.reports.charts.scores import SCORE_AREA, ScoreAxis, point_swatch, score_chart
from headtool.reports.charts.svg import clip
from headtool.reports.contents.heads import Heads, places
from headtool.reports.contents.roles import HeadRoles
from headtool.reports.contents.run import Contents, records
from headtool.reports.wording.words import number, p_value

__all__ = ["score_data", "score_figure", "score_pair", "scores_of"]


def score_pair(methods: Sequence[str]) -> tuple[str, str] | None:
    """Which two methods to set against each other: relevance over confidence, if both are there."""
    if len(methods) < 2:
        return None
    x = "confidence" if "confidence" in methods else methods[1]
    y = "lrp" if "lrp" in methods and x != "lrp" else next(m for m in methods if m != x)
    return x, y


def score_figure(contents: Contents, heads: Heads, roles: HeadRoles) -> Figure | None:
    """A scatter plot of two methods' scores; the page's script can show any two.

    Parameters
    ----------
    contents
        The run.
    heads, roles
        Its heads, and their roles.
    """
    pair = score_pair(contents.methods)
    if pair is None:
        return None
    x, y = (_axis(contents, heads, method) for method in pair)
    legend: list[tuple[Any, str]] = [(point_swatch(name), name) for name in roles.names]
    if roles.known:
        legend.append((point_swatch(""), "no role"))
    if roles.known and None in roles.of:
        legend.append((point_swatch(None), "not looked at"))
    first = [None if of is None and roles.known else next(iter(of or ()), "") for of in roles.of]
    return Figure(
        [Panel(score_chart(x, y, first))], _caption(contents, *pair), css="scores", legend=legend
    )


def scores_of(contents: Contents, heads: Heads, method: str) -> list[float]:
    """A method's score of every head of the run; NaN for a head without one.

    Parameters
    ----------
    contents
        The run.
    heads
        Its heads.
    method
        One of the run's methods.
    """
    scores = contents.table("scores")
    rows = scores[scores["method"] == method]
    by_place = dict(zip(places(rows), rows["score"].astype(float), strict=True))
    return [by_place.get(place, math.nan) for place in heads.places]


def _axis(contents: Contents, heads: Heads, method: str) -> ScoreAxis:
    return ScoreAxis.of(method, scores_of(contents, heads, method))


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
    """Every method's axis and every pair's caption, for the page's script.

    Parameters
    ----------
    contents
        The run.
    heads
        Its heads.
    """
    pair = score_pair(contents.methods)
    if pair is None:
        return {}
    axes = [_axis(contents, heads, method) for method in contents.methods]
    across, up = SCORE_AREA.across, SCORE_AREA.up
    return {
        "scores": {
            "frame": [float(end) for end in (across.start, across.end, up.start, up.end)],
            "axes": [
                {
                    "name": axis.name,
                    "title": clip(axis.name, 40),
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
