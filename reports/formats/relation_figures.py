"""Figures of relations: agreement of the methods, and one data set against another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from headtool.reports.charts.svg import clip
from headtool.reports.colours import HUES
from headtool.reports.contents.facts import ceiling_of, tested_effects
from headtool.reports.contents.heads import Heads, places
from headtool.reports.contents.run import Contents, records
from headtool.reports.formats.canvas import axes_on
from headtool.reports.formats.style import GREY
from headtool.reports.wording.words import names, number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["agreement_figure", "data_sets_figure", "draw_coefficients"]


def agreement_figure(contents: Contents, ax: Any = None) -> Figure:
    """Kendall's tau-b of each two methods; on the diagonal, of a method on other examples.

    Parameters
    ----------
    contents
        The run.
    ax
        As for `headtool.reports.formats.canvas.axes_on`.
    """
    import numpy as np

    methods = contents.methods
    grid = np.full((len(methods), len(methods)), math.nan)
    for row in records(contents.table("agreement")):
        pair = [methods.index(str(row[name])) for name in ("method_x", "method_y")]
        grid[pair[0], pair[1]] = grid[pair[1], pair[0]] = row["tau_b"]
    for row in records(contents.table("stability")):
        if row["method"] in methods:
            place = methods.index(row["method"])
            grid[place, place] = row["tau_b"]
    size = 1.0 + 0.45 * len(methods)
    figure, axes = axes_on(ax, width=size + 0.6, height=size)
    axis = axes[0][0]
    image = axis.imshow(grid, cmap="PuOr_r", vmin=-1, vmax=1)
    for i, j in zip(*np.nonzero(np.isfinite(grid)), strict=True):
        ink = "white" if abs(grid[i, j]) > 0.8 else "black"
        axis.text(j, i, f"{grid[i, j]:.2f}", ha="center", va="center", fontsize=7, color=ink)
    labels = [clip(method, 14) for method in methods]
    axis.set_xticks(range(len(methods)), labels, rotation=45, ha="right")
    axis.set_yticks(range(len(methods)), labels)
    figure.colorbar(image, ax=axis, label="Kendall's tau-b", shrink=0.8)
    return figure


def data_sets_figure(contents: Contents, heads: Heads, ax: Any = None) -> Figure:
    """A scatter plot for each pair of data sets, with its coefficients.

    Parameters
    ----------
    contents
        The run.
    heads
        Its heads.
    ax
        As for `headtool.reports.formats.canvas.axes_on`: as many as there are pairs, three at most.
    """
    pairs = records(contents.table("correlations"))[:3]
    effects_by_data = tested_effects(contents)
    short = names(contents.data)
    figure, axes = axes_on(ax, 1, len(pairs), width=2.8 * len(pairs), height=2.7)
    for axis, row in zip(axes[0], pairs, strict=True):
        effects = []
        for spec in (row["data_x"], row["data_y"]):
            part = effects_by_data[effects_by_data["data"] == spec]
            effects.append(dict(zip(places(part), part["delta"], strict=True)))
        common = [place for place in heads.places if all(place in e for e in effects)]
        x, y = ([effect[place] for place in common] for effect in effects)
        axis.axhline(0, color=GREY, linewidth=0.5)
        axis.axvline(0, color=GREY, linewidth=0.5)
        axis.scatter(x, y, s=10, facecolor="none", edgecolor=HUES[0], linewidth=0.8)
        axis.set_xlabel(f"on {clip(short.get(row['data_x'], str(row['data_x'])), 30)}")
        axis.set_ylabel(f"on {clip(short.get(row['data_y'], str(row['data_y'])), 30)}")
        ceiling = ceiling_of(row)
        limit = f" (ceiling {number(ceiling)})" if math.isfinite(ceiling) else ""
        axis.set_title(f"r {number(row['pearson'])}{limit}, rho {number(row['spearman'])}")
    return figure


def draw_coefficients(axis: Axes, frame: pd.DataFrame) -> None:
    """Draw Pearson's r of each pair of data sets, with its interval over examples.

    Parameters
    ----------
    axis
        Where to draw.
    frame
        The table ``correlations``.
    """
    rows = records(frame)
    for place, row in enumerate(rows):
        value, low, high = (float(row[f"pearson{end}"]) for end in ("", "_low", "_high"))
        axis.plot([value], [place], "o", markersize=4, color=HUES[0])
        axis.plot([low, high], [place, place], color=HUES[0], linewidth=1.2)
    axis.axvline(0, color=GREY, linewidth=0.5)
    axis.set_xlim(-1.05, 1.05)
    axis.set_yticks(
        range(len(rows)),
        [f"{clip(str(row['data_x']), 24)}\n{clip(str(row['data_y']), 24)}" for row in rows],
    )
    axis.invert_yaxis()
    axis.set_xlabel("Pearson's r of what heads are worth, and its interval over examples")
