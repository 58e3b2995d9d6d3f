"""Figures of curves: what is left as heads are removed, beside random masks, and over lambdas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headtool.reports.charts.svg import clip
from headtool.reports.colours import DASHES, HUES, Look
from headtool.reports.contents.facts import band_of, matched
from headtool.reports.contents.run import Contents
from headtool.reports.formats.canvas import axes_on
from headtool.reports.formats.style import GREY, WIDTH, line_style, method_style
from headtool.reports.sections.gates import sweep_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "against_random_figure",
    "curves_figure",
    "draw_curve",
    "faithfulness_figure",
    "sweep_figure",
]


def curves_figure(contents: Contents, ax: Any = None) -> Figure:
    """What is left of the metric as heads are removed; a panel for each kind of heads.

    Parameters
    ----------
    contents
        The run.
    ax
        As for `headtool.reports.formats.canvas.axes_on`.
    """
    curves = contents.table("curves")
    kinds = sorted(curves["kind"].unique(), key=lambda kind: kind != "all")
    figure, axes = axes_on(ax, 1, len(kinds), width=WIDTH if len(kinds) < 3 else 7.5)
    for axis, kind in zip(axes[0], kinds, strict=True):
        for method in [*contents.methods, "random"]:
            rows = curves[(curves["kind"] == kind) & (curves["method"] == method)]
            if len(rows):
                draw_curve(axis, contents, rows, method_style(contents, method), clip(method, 20))
        axis.set_xlabel("heads removed (%)" if kind == "all" else f"{kind} heads removed (%)")
        axis.set_xlim(0, 100)
    axes[0][0].set_ylabel(contents.measure)
    axes[0][0].legend(loc="lower left")
    return figure


def faithfulness_figure(contents: Contents, ax: Any = None) -> Figure:
    """How faithful the most important heads alone are, against the share of heads kept.

    Parameters
    ----------
    contents
        The run.
    ax
        As for `headtool.reports.formats.canvas.axes_on`.
    """
    points = contents.table("faithfulness")
    points = points[points["kind"] == "all"]
    figure, axes = axes_on(ax)
    axis = axes[0][0]
    axis.axhline(1, color=GREY, linewidth=0.8)
    for method in [*contents.methods, "random"]:
        rows = points[points["method"] == method].sort_values("share")
        if len(rows):
            style, share = method_style(contents, method), 100 * rows["share"]
            axis.plot(share, rows["faithfulness"], label=clip(method, 20), **style)
            axis.fill_between(
                share, rows["low"], rows["high"], color=style["color"], alpha=0.15, linewidth=0
            )
    axis.set_xlim(0, 100)
    axis.set_xlabel("heads kept (%)")
    axis.set_ylabel(f"faithfulness ({contents.measure})")
    axis.legend(loc="lower right")
    return figure


def against_random_figure(contents: Contents, ax: Any = None) -> Figure:
    """A panel for each method, with random masks that have as many heads in every layer.

    Parameters
    ----------
    contents
        The run.
    ax
        As for `headtool.reports.formats.canvas.axes_on`.
    """
    curves = contents.table("curves")
    curves = curves[curves["kind"] == "all"]
    present = [m for m in contents.methods if (curves["method"] == matched(m)).any()]
    columns = min(4, len(present))
    rows = -(-len(present) // columns)
    figure, axes = axes_on(ax, rows, columns, height=0.3 + 1.5 * rows)
    for place, axis in enumerate(axes.flat):
        if place >= len(present):
            axis.axis("off")
            continue
        method = present[place]
        random, own = (curves[curves["method"] == name] for name in (matched(method), method))
        draw_curve(axis, contents, random, method_style(contents, ""), "random")
        draw_curve(axis, contents, own, method_style(contents, method), method)
        if ax is None:
            axis.sharey(axes[0][0])
        axis.set_title(clip(method, 20))
        axis.set_xlabel("heads removed (%)")
        if place % columns == 0:
            axis.set_ylabel(contents.measure)
    return figure


def sweep_figure(contents: Contents, ax: Any = None) -> Figure:
    """Quality against heads kept, a point for each lambda.

    Parameters
    ----------
    contents
        The run.
    ax
        As for `headtool.reports.formats.canvas.axes_on`.
    """
    sweep = sweep_of(contents)
    assert sweep is not None
    figure, axes = axes_on(ax)
    axis = axes[0][0]
    axis.axhline(sweep.whole, color=GREY, linewidth=0.8, label="whole model")
    for place, (name, points) in enumerate(sweep.lines.items()):
        axis.plot(
            *([point[i] for point in points] for i in (0, 1)),
            marker="o",
            markersize=3,
            label=name,
            **line_style(Look(place % len(HUES), place % len(DASHES))),
        )
    above = axis.secondary_xaxis("top")
    above.set_xticks(
        [heads for heads, _ in sweep.lambdas],
        [text for _, text in sweep.lambdas],
        rotation=45,
        ha="left",
        fontsize=6,
    )
    axis.set_xlim(0, sweep.total)
    axis.set_xlabel(f"heads kept of {sweep.total}")
    axis.set_ylabel(contents.measure if sweep.metric == contents.metric else sweep.metric)
    axis.legend(loc="best")
    return figure


def draw_curve(
    axis: Axes, contents: Contents, rows: Any, style: dict[str, Any], label: str
) -> None:
    """Draw a curve with its band.

    Parameters
    ----------
    axis
        Where to draw.
    contents
        The run.
    rows
        Rows of its curves, of one method.
    style
        Matplotlib's options of the line.
    label
        Its name in the legend.
    """
    ordered = rows.sort_values("share")
    share = 100 * ordered["share"]
    axis.plot(share, ordered["value"], label=label, **style)
    low, high = band_of(contents, ordered)
    axis.fill_between(share, low, high, color=style["color"], alpha=0.15, linewidth=0)
