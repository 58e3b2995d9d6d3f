"""Figures of single heads: the grids of each method, and effects in ascending order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headtool.heads import head_name
from headtool.reports.charts.svg import clip
from headtool.reports.contents.facts import margin_of
from headtool.reports.contents.heads import Heads
from headtool.reports.contents.roles import HeadRoles, letter_of
from headtool.reports.contents.run import Contents
from headtool.reports.formats.canvas import axes_on
from headtool.reports.formats.role_figures import ROLE_COLOURS
from headtool.reports.formats.style import GREY
from headtool.reports.sections.views import choices_of
from headtool.reports.wording.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["effects_figure", "heads_figure"]


_NAMED = 6  # heads with the largest effects that get a name
_VERDICTS = {
    "needed": ("o", "#B23A00", "#B23A00"),
    "removable": ("o", "#FFFFFF", "#0B5CAD"),
    "harmful": ("^", "#8A2A7C", "#8A2A7C"),
    "undecided": (".", GREY, GREY),
}


def heads_figure(contents: Contents, heads: Heads, roles: HeadRoles, ax: Any = None) -> Figure:
    """A grid for each method and kind, at the number of removed heads that the page shows first.

    Heads that the method removes are hollow. Letters in the last one are roles.

    Parameters
    ----------
    contents
        The run.
    heads, roles
        Its heads, and their roles.
    ax
        As for `headtool.reports.formats.canvas.axes_on`: a row of axes for each kind of
        attention, a column for each method.
    """
    import numpy as np

    choices = choices_of(contents, heads, roles)
    assert choices is not None
    budget, share = choices.budgets[choices.budget] if choices.budgets else (None, "")
    rows, columns = len(heads.kinds), len(choices.views)
    tallest = max(layer for _, layer, _ in heads.places) + 1
    height = 0.5 + rows * (0.6 + 0.11 * tallest) + (0.4 if roles.names else 0)  # with the legends
    figure, axes = axes_on(ax, rows, columns, height=height)
    diverging = choices.views[0].shades == "d"
    colours, ends = ("PuOr", (-0.5, 6.5)) if diverging else ("Blues", (-2, 6.5))
    image_of_scores = None
    for column, view in enumerate(choices.views):
        stays = view.kept.get(budget) if budget is not None else None
        for row, kind in enumerate(heads.kinds):
            members = [i for i, place in enumerate(heads.places) if place[0] == kind]
            shape = (
                max(heads.places[i][1] for i in members) + 1,
                max(heads.places[i][2] for i in members) + 1,
            )
            grid = np.full(shape, math.nan)
            for i in members:
                shown = not view.by_role and (stays is None or stays[i])
                grid[heads.places[i][1:]] = view.levels[i] if shown else math.nan
            axis = axes[row][column]
            image = axis.imshow(grid, cmap=colours, vmin=ends[0], vmax=ends[1], aspect="equal")
            if image_of_scores is None and not view.by_role:
                image_of_scores = image
            axis.set_xticks(np.arange(-0.5, shape[1]), minor=True)
            axis.set_yticks(np.arange(-0.5, shape[0]), minor=True)
            axis.grid(which="minor", color="#DDDDDD", linewidth=0.4)
            axis.tick_params(which="both", length=0)
            axis.set_xticks([0, shape[1] - 1])
            axis.set_yticks([0, shape[0] - 1])
            for i in members if view.by_role else ():
                layer, head = heads.places[i][1:]
                first = roles.letters(i)[:1]
                axis.text(
                    head, layer, roles.letters(i), ha="center", va="center", fontsize=4,
                    color=ROLE_COLOURS.get(first),
                )  # fmt: skip
            axis.set_title(clip(view.name, 20) if row == 0 else "")
            if column == 0:
                axis.set_ylabel(f"{kind}\nlayer")
            if row == rows - 1:
                axis.set_xlabel("head")
    if image_of_scores is not None:
        bar = figure.colorbar(
            image_of_scores, ax=axes[:, -1].tolist(), shrink=0.5, aspect=8, pad=0.03
        )
        end = number(choices.views[0].extent)
        bar.set_ticks(
            [0, 3, 6] if diverging else [0, 6],
            labels=[f"gains {end}", "0", f"costs {end}"] if diverging else ["least", "most"],
        )
        bar.set_label("closing it" if diverging else "importance")
        bar.ax.set_ylim(-0.5, 6.5)
    lines = [f"hollow: the {share} of the heads that are removed"] if budget is not None else []
    if roles.names:
        lines.append(", ".join(f"{letter_of(role)} {clip(role, 24)}" for role in roles.names))
    if lines and ax is None:
        figure.supxlabel("\n".join(lines), fontsize=6)
    return figure


def effects_figure(contents: Contents, heads: Heads, ax: Any = None) -> Figure:
    """Effects of single heads in ascending order, with intervals and verdicts.

    Parameters
    ----------
    contents
        The run.
    heads
        Its heads.
    ax
        As for `headtool.reports.formats.canvas.axes_on`.
    """
    rows = sorted(
        (row for row in heads.effects.values() if math.isfinite(row["delta"])),
        key=lambda row: row["delta"],
    )
    figure, axes = axes_on(ax, height=2.3)
    axis = axes[0][0]
    axis.axhline(0, color=GREY, linewidth=0.6)
    for verdict, (marker, face, edge) in _VERDICTS.items():
        mine = [
            (place, row)
            for place, row in enumerate(rows)
            if row.get("verdict", "undecided") == verdict
        ]
        if not mine:
            continue
        x, y = [place for place, _ in mine], [row["delta"] for _, row in mine]
        if "ci_low" in mine[0][1]:
            low, high = ([row[end] for _, row in mine] for end in ("ci_low", "ci_high"))
            axis.vlines(x, low, high, color=edge, linewidth=0.5, alpha=0.7)
        axis.scatter(
            *(x, y), s=10, marker=marker, facecolor=face, edgecolor=edge, linewidth=0.7, zorder=3,
            label=verdict if heads.tests else None,
        )  # fmt: skip
    margin = margin_of(contents)
    if math.isfinite(margin):
        line = -margin if contents.higher_is_better else margin
        axis.axhline(line, color="#B23A00", linewidth=0.8, linestyle="--", label="margin")
    _name_extremes(axis, rows)
    axis.set_xlabel("heads in the order of their effect")
    axis.set_ylabel(f"change of {contents.measure}")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="best", handletextpad=0.4)
    return figure


def _name_extremes(axis: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Name the heads with the largest effects, where they differ from their neighbours'."""
    placed: list[float] = []
    across, up = axis.get_ylim()
    room = (up - across) / 14
    shown = sorted(range(len(rows)), key=lambda place: -abs(rows[place]["delta"]))[:_NAMED]
    for place in shown:
        height = float(rows[place]["delta"])
        if height == 0 or any(abs(height - other) < room for other in placed):
            continue
        placed.append(height)
        first = place < len(rows) / 2
        # Below and right of a point, or above and left, no other point lies.
        axis.annotate(
            head_name(rows[place]), (place, height), xytext=(4, -3) if first else (-4, 3),
            textcoords="offset points", ha="left" if first else "right",
            va="top" if first else "bottom", fontsize=6,
        )  # fmt: skip
