"""The course of training as a figure: what pruning leaves, and how settled the ranks are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError, unknown
from headtool.reports.formats.canvas import new_figure
from headtool.reports.formats.style import DYNAMICS_STYLE
from headtool.reports.marks import figure_marks, is_marked
from headtool.results.folders import same_content
from headtool.results.replacing import replacing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "FORMATS",
    "check_figure",
    "draw_checkpoint_curves",
    "draw_rank_stability",
    "write_dynamics_figure",
]

FORMATS = ("pdf", "png", "svg")


def check_figure(path: Path, *, kept: Path | None = None, force: bool) -> None:
    """Refuse, before any work is done, a file that could not be written later.

    Parameters
    ----------
    path
        The file; its ending says the format.
    kept
        Copy of what an interrupted run drew; that may be replaced.
    force
        Whether a file that is there may be replaced.
    """
    ending = path.suffix.removeprefix(".")
    if ending not in FORMATS:
        raise unknown(f"format of `figure` {path}:", ending, FORMATS)
    if kept is not None and same_content(kept, path):
        return
    if os.path.exists(path) and not force:
        raise HeadtoolError(f"{path} exists already; choose another `figure` or add `force=True`")
    if os.path.exists(path) and not is_marked(path):
        raise HeadtoolError(
            f"headtool did not write {path}, so `force=True` does not replace it; choose another "
            "`figure`"
        )
    if not path.absolute().parent.is_dir():
        raise HeadtoolError(f"the folder of `figure` {path} does not exist; make it first")


def draw_checkpoint_curves(axis: Axes, tables: Mapping[str, pd.DataFrame], metric: str) -> None:
    """Draw the pruning curve of each checkpoint, the later the lighter.

    Parameters
    ----------
    axis
        Where to draw.
    tables
        As for `write_dynamics_figure`.
    metric
        What the curves are of.
    """
    curves = tables["checkpoint_curves"]
    colours = _colours(tables)
    for number, (name, group) in enumerate(curves.groupby("checkpoint", sort=False)):
        axis.plot(100 * group["share"], group["relative"], ".-", color=colours(number), label=name)
    axis.set_xlabel("heads removed (%)")
    axis.set_ylabel(f"{metric}, relative to the whole model")


def draw_rank_stability(axis: Axes, tables: Mapping[str, pd.DataFrame]) -> None:
    """Draw how far the ranks at each checkpoint correlate with those at the last.

    Parameters
    ----------
    axis
        Where to draw.
    tables
        As for `write_dynamics_figure`.
    """
    stability = tables["rank_stability"]
    name = str(tables["checkpoint_curves"]["checkpoint"].iloc[-1])
    last = stability[stability["checkpoint_y"] == name]
    axis.plot(range(len(last)), last["spearman"], "o-", color=_colours(tables)(0))
    axis.set_xticks(range(len(last)), last["checkpoint_x"], rotation=30, ha="right")
    axis.set_ylabel(f"Spearman with {name}")
    axis.axhline(0, color="0.7", linewidth=0.6)


def _colours(tables: Mapping[str, pd.DataFrame]) -> Any:
    """A colour for each checkpoint, by its number."""
    import matplotlib as mpl

    count = tables["checkpoint_curves"]["checkpoint"].nunique()
    return mpl.colormaps["viridis"].resampled(count + 1)


def write_dynamics_figure(
    tables: Mapping[str, pd.DataFrame], metric: str, path: Path, *, kept: Path | None = None
) -> None:
    """Draw the pruning curve of each checkpoint, and the ranks' correlation with the last one's.

    Parameters
    ----------
    tables
        The tables checkpoint_curves and rank_stability of a run.
    metric
        What the curves are of.
    path
        The file; its ending says the format.
    kept
        Where to put a copy, by which the file is known as this run's if it is interrupted now.

    Raises
    ------
    HeadtoolError
        If it cannot be written.
    """
    import matplotlib as mpl

    with mpl.rc_context(DYNAMICS_STYLE):
        figure, axes = new_figure(1, 2, width=7.0)
        draw_checkpoint_curves(axes[0][0], tables, metric)
        figure.legend(loc="outside right center")
        draw_rank_stability(axes[0][1], tables)
        ending = path.suffix.removeprefix(".")
        try:
            with replacing(path) as made:
                figure.savefig(made, format=ending, metadata=figure_marks(ending))
                if kept is not None:
                    shutil.copyfile(made, kept)
        except OSError as error:
            raise HeadtoolError(
                f"cannot write {path}: {error.strerror or error}; choose another `figure`"
            ) from error
