"""Figures of roles for a paper: heads kept by role, and one method's scores against another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headtool.reports.charts.svg import clip
from headtool.reports.contents.facts import alpha_of
from headtool.reports.contents.heads import Heads
from headtool.reports.contents.roles import HeadRoles, letter_of, role_name
from headtool.reports.contents.run import Contents, records
from headtool.reports.formats.canvas import axes_on
from headtool.reports.formats.style import GREY
from headtool.reports.sections.scores import score_pair, scores_of
from headtool.reports.wording.words import number, p_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ROLE_COLOURS",
    "draw_scores",
    "draw_survival",
    "scores_figure",
    "survival_figure",
    "survival_shape",
]

_UNSEEN = "not looked at"
_SHAPES = {"P": "o", "S": "s", "R": "^", "E": "D", "U": "v", "F": "X", "V": "<", "I": ">"}
ROLE_COLOURS = {
    "P": "#56616E",
    "S": "#8A5A2E",
    "R": "#44693B",
    "E": "#7B4D69",
    "U": "#66662A",
    "F": "#36636F",
    "V": "#91473E",
    "I": "#5E4F86",
    "?": GREY,
}
"""Colours by the letter of a role: none of a method's; shapes and letters tell them apart too."""


def survival_shape(contents: Contents) -> tuple[int, int]:
    """How many methods and roles the figure of survival shows."""
    table = contents.table("role_survival")
    return len(_methods(contents)), table.loc[table["heads"] > 0, "role"].nunique()


def _methods(contents: Contents) -> list[str]:
    return [str(name) for name in contents.table("role_survival")["method"].unique()]


def survival_figure(contents: Contents, ax: Any = None) -> Figure:
    """Heads of each role that each method keeps.

    Parameters
    ----------
    contents
        The run.
    ax
        As for `headtool.reports.formats.canvas.axes_on`: a row of axes for each method, a
        column for each role.
    """
    methods, roles = survival_shape(contents)
    width = max(2.2, min(7.5, 0.5 + 1.05 * roles))
    figure, axes = axes_on(ax, methods, roles, width=width, height=0.35 + 0.95 * methods)
    draw_survival(contents, axes)
    if ax is None:
        figure.supylabel("heads kept", fontsize=7)
    return figure


def scores_figure(contents: Contents, heads: Heads, roles: HeadRoles, ax: Any = None) -> Figure:
    """Two methods' scores of every head, relevance over confidence where both are there.

    Parameters
    ----------
    contents
        The run.
    heads, roles
        Its heads, and their roles.
    ax
        As for `headtool.reports.formats.canvas.axes_on`.
    """
    figure, axes = axes_on(ax, width=3.4, height=2.9)
    draw_scores(contents, heads, roles, axes[0][0])
    return figure


def draw_survival(contents: Contents, axes: Any) -> None:
    """A row per method, a column per role: heads kept, beside those expected within layers.

    Parameters
    ----------
    contents
        The run.
    axes
        Where to draw: a row per method, a column per role.
    """
    table = contents.table("role_survival")
    table, alpha = table[table["heads"] > 0], alpha_of(contents)
    roles = [str(role) for role in table["role"].unique()]
    methods = _methods(contents)
    for place, (row, method) in enumerate(zip(axes, methods, strict=True)):
        for axis, role in zip(row, roles, strict=True):
            part = table[(table["method"] == method) & (table["role"] == role)]
            part = part.sort_values("budget")
            colour = GREY if role_name(role) != role else ROLE_COLOURS[letter_of(role)]
            share, heads = 100 * part["share"], int(part["heads"].iloc[0])
            axis.plot(
                share, part["expected_within_layers"], color=GREY, linestyle="--", linewidth=0.9
            )
            axis.plot(share, part["kept"], color=colour)
            clear = (part["p_adjusted"] <= alpha).to_numpy()
            axis.scatter(
                share[clear], part["kept"][clear], s=16, facecolor="white", edgecolor=colour,
                linewidth=1.1, zorder=3,
            )  # fmt: skip
            axis.set_xlim(-4, 104)
            axis.set_ylim(-0.06 * heads, 1.08 * heads)
            axis.set_yticks([0, heads])
            axis.set_xticks([0, 100])
            if place == 0:
                axis.set_title(f"{clip(role_name(role), 14)} ({heads})", fontsize=7)
            if place == len(methods) - 1:
                axis.set_xlabel("removed (%)", fontsize=7)
        row[0].set_ylabel(clip(method, 14))


def draw_scores(contents: Contents, heads: Heads, roles: HeadRoles, axis: Axes) -> None:
    """A point per head, in the shape of its first role; coefficients as the run has them.

    Parameters
    ----------
    contents
        The run.
    heads
        The run's heads.
    roles
        The roles of these heads.
    axis
        Where to draw.
    """
    pair = score_pair(contents.methods)
    assert pair is not None
    by_method = [scores_of(contents, heads, method) for method in pair]
    groups: dict[str, list[int]] = {}
    for i, of in enumerate(roles.of):
        group = _UNSEEN if of is None and roles.known else next(iter(of or ()), "")
        groups.setdefault(group, []).append(i)
    for role in (_UNSEEN, "", *roles.names):
        x, y = ([scores[i] for i in groups.get(role, ())] for scores in by_method)
        letter = letter_of(role)
        axis.scatter(
            x, y, s=18 if role in roles.names else 8, marker=_SHAPES.get(letter, "o"),
            facecolor="white" if role == _UNSEEN else ROLE_COLOURS[letter],
            edgecolor=ROLE_COLOURS[letter], alpha=0.8, linewidth=0.6,
            label=(role or "no role") if roles.known and x else None,
        )  # fmt: skip
    axis.set_xlabel(clip(pair[0], 40))
    axis.set_ylabel(clip(pair[1], 30))
    if roles.known:
        axis.legend(loc="best", handletextpad=0.2)
    _say_agreement(records(contents.table("agreement")), pair, axis)


def _say_agreement(rows: Sequence[dict[str, Any]], pair: tuple[str, str], axis: Axes) -> None:
    for row in rows:
        if {str(row["method_x"]), str(row["method_y"])} == set(pair):
            axis.set_title(
                f"rho {number(row['spearman'])} ({p_value(row['spearman_p_within_layers'])}), "
                f"tau-b {number(row['tau_b'])} ({p_value(row['tau_b_p_within_layers'])}),\n"
                "p-values within layers"
            )
