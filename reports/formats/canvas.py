"""Where figures are drawn: new ones, or the axes that a user gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError
from headtool.reports.formats.style import FIGURE_STYLE, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["axes_on", "new_figure", "one_axes"]


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = WIDTH, height: float = 2.6
) -> tuple[Figure, Any]:
    """Make an empty figure and its axes.

    Parameters
    ----------
    rows, columns
        How many axes, below and beside each other.
    width, height
        Inches.

    Returns
    -------
    tuple
        The figure, and its axes as an array of `rows` x `columns`.
    """
    from headtool.reports.formats.picture import Picture

    figure = Picture(figsize=(width, height))
    return figure, figure.subplots(rows, columns, squeeze=False)


def one_axes(ax: Any) -> tuple[Figure, Axes]:
    """Take one axes that a user gave, or make a figure with it in the style of figures.

    Parameters
    ----------
    ax
        The axes; None for a new figure.
    """
    import matplotlib as mpl

    with mpl.rc_context(FIGURE_STYLE):
        figure, axes = axes_on(ax)
    return figure, axes[0][0]


def axes_on(
    ax: Any, rows: int = 1, columns: int = 1, *, width: float = WIDTH, height: float = 2.6
) -> tuple[Figure, Any]:
    """Take the axes that a user gave, or make a figure with some.

    Parameters
    ----------
    ax
        Axes of Matplotlib, or as many as the figure has; None for a new figure.
    rows, columns, width, height
        As for `new_figure`.

    Returns
    -------
    tuple
        As for `new_figure`.

    Raises
    ------
    HeadtoolError
        If the figure has another number of axes.
    """
    import numpy as np

    if ax is None:
        return new_figure(rows, columns, width=width, height=height)
    given = np.array(ax, dtype=object).ravel()
    if len(given) != rows * columns:
        shape = f"{rows} x {columns} axes" if rows * columns > 1 else "one axes"
        raise HeadtoolError(f"this figure takes {shape} as `ax`, got {len(given)}")
    return given[0].figure, given.reshape(rows, columns)
