"""Figures of single heads: the grids of each method, and effects in ascending order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headtool.reports.charts.svg import clip
from headtool.reports.contents.heads import Heads
from headtool.reports.contents.roles import HeadRoles, letter_of
from headtool.reports.contents.run import Contents
from headtool.reports.formats.role_figures import ROLE_COLOURS
from headtool.reports.formats.style import GREY, new_figure
from headtool.reports.sections.views import choices_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["effects_figure", "heads_figure"]


_VERDICTS = {
    "needed": ("o", "#D55E00", "#D55E00"),
    "removable": ("o", "#FFFFFF", "#0072B2"),
    "harmful": ("^", "#CC79A7", "#CC79A7"),
    "undecided": (".", GREY, GREY),
}


def heads_figure(contents: Contents, heads: Heads, roles: HeadRoles) -> Figure:
    """A grid for each method and kind; heads that the method removes are hollow.

    Letters in the last one are roles.

    Parameters
    ----------
    contents
        The run.
    heads, roles
        Its heads, and their roles.
    """
    import numpy as np

    choices = choices_of(contents, heads, roles)
    assert choices is not None
    budget = choices.budgets[choices.budget][0] if choices.budgets else None
    rows, columns = len(heads.kinds), len(choices.views)
    tallest = max(layer for _, layer, _ in heads.places) + 1
    height = rows * (0.6 + 0.11 * tallest) + (0.6 if roles.names else 0)  # the legend of roles
    figure, axes = new_figure(rows, columns, height=height)
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
            axis.imshow(grid, cmap="Blues", vmin=-2, vmax=6.5, aspect="equal")
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
    if roles.names:
        key = ", ".join(f"{letter_of(role)} {clip(role, 24)}" for role in roles.names)
        figure.supxlabel(key, fontsize=6)
    return figure


def effects_figure(contents: Contents, heads: Heads) -> Figure:
    """Effects of single heads in ascending order, with intervals and verdicts.

    Parameters
    ----------
    contents
        The run.
    heads
        Its heads.
    """
    rows = sorted(
        (row for row in heads.effects.values() if math.isfinite(row["delta"])),
        key=lambda row: row["delta"],
    )
    figure, axes = new_figure(height=2.3)
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
    axis.set_xlabel("heads in the order of their effect")
    axis.set_ylabel(f"change of {contents.measure}")
    if heads.tests and rows:
        axis.legend(loc="lower right", handletextpad=0.2)
    return figure
