"""The course of training as a figure: what pruning leaves, and how settled the ranks are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headtool.errors import HeadtoolError, unknown
from headtool.reports.formats.style import DYNAMICS_STYLE
from headtool.reports.marks import figure_marks, is_marked
from headtool.results.folders import same_content
from headtool.results.replacing import replacing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMATS", "check_figure", "write_dynamics_figure"]

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
    from matplotlib.figure import Figure

    curves, stability = tables["checkpoint_curves"], tables["rank_stability"]
    names = list(dict.fromkeys(curves["checkpoint"]))
    colours = mpl.colormaps["viridis"].resampled(len(names) + 1)
    with mpl.rc_context(DYNAMICS_STYLE):
        figure = Figure(figsize=(7.0, 2.6))
        left, right = figure.subplots(1, 2)
        for number, (name, group) in enumerate(curves.groupby("checkpoint", sort=False)):
            left.plot(
                100 * group["share"], group["relative"], ".-", color=colours(number), label=name
            )
        left.set_xlabel("heads removed (%)")
        left.set_ylabel(f"{metric}, relative to the whole model")
        figure.legend(loc="outside right center")
        last = stability[stability["checkpoint_y"] == names[-1]]
        right.plot(range(len(last)), last["spearman"], "o-", color=colours(0))
        right.set_xticks(range(len(last)), last["checkpoint_x"], rotation=30, ha="right")
        right.set_ylabel(f"Spearman with {names[-1]}")
        right.axhline(0, color="0.7", linewidth=0.6)
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
