"""Head importance and prunability over a training run: what ``headtool dynamics`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis.dynamics import prunability, rank_stability
from headtool.data.drawing import LimitOrder
from headtool.errors import HeadtoolError
from headtool.experiments.checkpoints import find_checkpoints, stamp
from headtool.experiments.course import Course
from headtool.experiments.inputs import DataLike, DataSource, ModelSource, read_data
from headtool.experiments.planning import begin
from headtool.experiments.stages import stages
from headtool.heads import Kind
from headtool.methods import get_method
from headtool.methods.base import Method
from headtool.progress import ProgressLike, silent
from headtool.reports.contents.held import Held
from headtool.reports.formats.canvas import one_axes
from headtool.reports.formats.dynamics_figure import (
    check_figure,
    draw_checkpoint_curves,
    draw_rank_stability,
    write_dynamics_figure,
)
from headtool.reports.results import Reported
from headtool.results.folders import check_output, unfinished_folder
from headtool.results.runs import write_run
from headtool.results.scores import json_rows
from headtool.searching import Search
from headtool.workers.pool import WorkersLike, open_workers

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Dynamics", "dynamics"]

_FIGURE = "figure"


@dataclass(frozen=True, eq=False, repr=False)
class Dynamics(Reported):
    """Heads over the checkpoints of a training run.

    Attributes
    ----------
    scores
        A row per checkpoint and head: the scores.
    curves
        A row per checkpoint and point of its pruning curve: checkpoint, removed (heads), share,
        metric, value, relative (to the whole model of that checkpoint).
    prunability
        A row per checkpoint; see `headtool.analysis.dynamics.prunability`.
    rank_stability
        A row per pair of checkpoints; see `headtool.analysis.dynamics.rank_stability`.
    method, metric
        What heads are scored by, and what the curves are of.
    provenance
        What reproduces it.
    folder
        The run directory; None where none was asked for.
    """

    scores: pd.DataFrame
    curves: pd.DataFrame
    prunability: pd.DataFrame
    rank_stability: pd.DataFrame
    method: str
    metric: str
    provenance: Mapping[str, Any]
    folder: Path | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """The curves."""
        return self.curves

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables by their names in a run directory."""
        return {
            "checkpoint_scores": self.scores,
            "checkpoint_curves": self.curves,
            "prunability": self.prunability,
            "rank_stability": self.rank_stability,
        }

    def held(self) -> Held:
        """Return what its run directory holds, for its report."""
        return Held({"dynamics": dict(self.provenance)}, self.tables)

    def plot_curves(self, ax: Any = None) -> Figure:
        """Draw the pruning curve of each checkpoint.

        Parameters
        ----------
        ax
            Where to draw; None makes a figure.
        """
        figure, axis = one_axes(ax)
        draw_checkpoint_curves(axis, self.tables, self.metric)
        axis.legend()
        return figure

    def plot_rank_stability(self, ax: Any = None) -> Figure:
        """Draw how far the ranks at each checkpoint correlate with those at the last.

        Parameters
        ----------
        ax
            Where to draw; None makes a figure.
        """
        figure, axis = one_axes(ax)
        draw_rank_stability(axis, self.tables)
        return figure

    def document(self) -> dict[str, Any]:
        """Return the tables as JSON can hold them, in the format ``headtool/dynamics/1``."""
        return {
            "schema": "headtool/dynamics/1",
            "provenance": dict(self.provenance),
            **{
                name.removeprefix("checkpoint_"): json_rows(frame)
                for name, frame in self.tables.items()
            },
        }


def dynamics(
    checkpoints: str | Sequence[tuple[str, str]],
    data: DataLike,
    *,
    method: Method | str = "gradient",
    select_data: DataLike | None = None,
    kinds: Iterable[Kind] | None = None,
    metric: str | None = None,
    search: Search | None = None,
    steps: str = "20%",
    keep_one_per_layer: bool = False,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    batch_tokens: int | None = 4096,
    seed: int = 0,
    loading: ModelSource | None = None,
    figure: Path | str | None = None,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
) -> Dynamics:
    """Follow heads over training: their scores, what pruning costs, and how stable their ranks are.

    At each checkpoint, heads are scored on one half of the data and removed in ascending order; the
    other half shows what is left, relative to the whole model of that checkpoint.

    Parameters
    ----------
    checkpoints
        A pattern, such as ``run/checkpoint*.pt``, or the output folder of a Trainer; or names and
        SPECs, as `headtool.experiments.checkpoints.find_checkpoints` returns them.
    data
        A data set, or its SPEC.
    method
        The scoring method, or its name for its default options.
    select_data
        Scores heads on this data set, so that `data` is not halved.
    kinds
        Attention kinds whose heads are up for removal; None for all.
    metric
        The metric; None for the task's own.
    search
        How to decode, for ``bleu``, ``chrf`` and ``ter``; None for the model's own settings.
    steps
        Points of the curves; see `headtool.masks.curves.budgets_of`.
    keep_one_per_layer
        Never remove the last head of a layer.
    limit
        Examples of each data set to use; None for all.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Seed of everything random.
    loading
        How to load the checkpoints; its `spec` is not looked at. None loads as `load_model` does.
    figure
        Draw it as well: a .pdf, .png or .svg file.
    out
        Run directory to write. While it is unfinished, what was done lies beside it and is
        continued by the same call.
    force
        Replace a run, and a figure, that is there.
    command
        The command line that makes the run again, for its manifest.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress; True shows a bar.

    Raises
    ------
    HeadtoolError
        If something does not fit, or checkpoints have other heads than the first.

    Examples
    --------
    >>> import headtool
    >>> twice = [("early", "builtin:nli"), ("late", "builtin:nli")]
    >>> course = headtool.dynamics(
    ...     twice, "builtin:nli/matched", method="magnitude", steps="50%", limit=16
    ... )
    >>> course.frame[["checkpoint", "removed"]].to_numpy().tolist()
    [['early', 0], ['early', 16], ['early', 32], ['late', 0], ['late', 16], ['late', 32]]
    """
    found = _named(checkpoints)
    scorer = get_method(method)() if isinstance(method, str) else method
    folder = None if out is None else Path(out)
    picture = None if figure is None else Path(figure)
    if folder is not None or picture is None:  # `force` may be about the figure alone
        check_output(folder, force=force)
    if picture is not None:
        kept_figure = None if folder is None else unfinished_folder(folder) / _FIGURE
        check_figure(picture, kept=kept_figure, force=force)
    if isinstance(data, DataSource) and data.spec is None:
        raise HeadtoolError("`data` is missing: name the data that the checkpoints are tried on")
    read = partial(read_data, limit=limit, limit_order=limit_order, seed=seed)
    text = read(data, found[0][1])
    chooser = None if select_data is None else read(select_data, found[0][1])
    like = loading or ModelSource()
    job = Course(
        method=scorer,
        data=text,
        select_data=chooser,
        kinds=None if kinds is None else tuple(kinds),
        metric=metric,
        search=search or Search(),
        steps=steps,
        keep_one_per_layer=keep_one_per_layer,
        limit=limit,
        limit_order=limit_order,
        batch_tokens=batch_tokens,
        seed=seed,
        loading=like,
    )
    source: dict[str, Any] = {
        "command": "dynamics",
        "checkpoints": [stamp(spec) for _, spec in found],
        "options": job.described(),
    }
    meter = begin(progress, *job.plan(found))
    with (
        open_workers(workers) as execute,
        stages(folder, source, force=force, execute=execute, progress=meter) as kept,
    ):
        scores, curves, sources = job.run(found, kept)
        course = Dynamics(
            scores,
            curves,
            prunability(curves),
            rank_stability(scores),
            scorer.name,
            str(curves["metric"].iloc[0]),
            {**source, "by_checkpoint": sources},
            folder,
        )
        if picture is not None:
            copy = None if kept.folder is None else kept.folder / _FIGURE
            write_dynamics_figure(course.tables, course.metric, picture, kept=copy)
        if folder is not None:
            write_run(
                folder,
                command=command,
                provenance={"dynamics": source, **sources},
                tables=course.tables,
                unfinished=kept.folder,
                cost=meter.record(),
                force=force,
            )
    return course


def _named(checkpoints: str | Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names and SPECs of checkpoints; a model in memory is none."""
    if isinstance(checkpoints, str):
        return find_checkpoints(checkpoints)
    for one in checkpoints if isinstance(checkpoints, Sequence) else [checkpoints]:
        if not (isinstance(one, Sequence) and [*map(type, one)] == [str, str]):
            raise HeadtoolError(
                "`checkpoints` must be a folder, or pairs of a name and a SPEC, not models in "
                "memory; save them, or give the Trainer a headtool.Callback"
            )
    return list(checkpoints)
