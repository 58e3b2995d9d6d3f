"""Which saved comparisons fit together, and why others do not.

Comparisons fit together if they compare some of the same methods with random masks, each on a model
and a task of its own. They need not have the same metric: areas are then divided by what all heads
together are worth, which a comparison whose curves do not go that far cannot tell.

Models whose SPECs differ in a seed alone (``model-seed1``, ``seed_2/best``, ``builtin:planted?
seed=3``) are taken for training runs of one model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from headtool.analysis.comparison import read_comparison
from headtool.analysis.study_cells import RANDOM, StudyRun
from headtool.errors import HeadtoolError
from headtool.results.runs import read_run
from headtool.results.studies import Cell

__all__ = ["fitting_runs", "runs_of_cells", "runs_of_folders"]

Left = list[tuple[str, str]]
"""Names of runs that are left out, and why."""

_SEED = re.compile(r"[-_./?&]?seed[-_=]?(\d+)", re.IGNORECASE)


def runs_of_cells(cells: Iterable[Cell]) -> tuple[list[StudyRun], Left]:
    """Read the comparisons of a study's cells, those that fit together.

    Parameters
    ----------
    cells
        The cells; those that are not done are left out.

    Returns
    -------
    tuple
        The comparisons, and the cells that are left out with the reason.
    """
    found: list[StudyRun] = []
    left: Left = []
    for cell in cells:
        if cell.state != "done":
            reason = {"failed": f"it failed: {cell.error}", "running": "it is still running"}
            left.append((cell.id, reason.get(cell.state, "it has not been run")))
            continue
        try:
            found.append(_read(cell))
        except HeadtoolError as error:
            left.append((cell.id, str(error)))
    fit, others = fitting_runs(found)
    return fit, [*left, *others]


def runs_of_folders(folders: Sequence[Path]) -> tuple[list[StudyRun], Left]:
    """Read saved comparisons, those that fit together.

    Parameters
    ----------
    folders
        Run directories.

    Returns
    -------
    tuple
        The comparisons, and the folders that are left out with the reason.
    """
    names = _named(folders)
    found: list[StudyRun] = []
    left: Left = []
    for folder, name in zip(folders, names, strict=True):
        try:
            found.append(_read(Cell(name, "", "", "", "", "", (), folder, state="done")))
        except HeadtoolError as error:
            left.append((name, str(error)))
    fit, others = fitting_runs([_described(run) for run in found])
    return fit, [*left, *others]


def _named(folders: Sequence[Path]) -> list[str]:
    """Ends of the paths that tell them apart."""
    given = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, given), default=1) + 1):
        ends = ["/".join(parts[-length:]) for parts in given]
        if len(set(ends)) == len(set(given)):
            return ends
    return [str(folder) for folder in folders]


def _read(cell: Cell) -> StudyRun:
    run = read_run(cell.run)
    cost = run.manifest.get("cost", ())
    return StudyRun(cell, read_comparison(run), tuple(cost))


def _described(run: StudyRun) -> StudyRun:
    """A run whose cell says what the manifest does: model, seed and task."""
    settings = run.settings
    spec = str(settings.get("model", {}).get("spec", ""))
    data = tuple(str(name) for name in settings.get("data", ()))
    seed = _SEED.search(spec)
    model = spec if seed is None else _SEED.sub("", spec, count=1)
    cell = replace(
        run.cell,
        model=model,
        family=model,
        replicate="" if seed is None else f"seed-{seed[1]}",
        task=next(iter(data), ""),
        spec=spec,
        data=data,
    )
    return replace(run, cell=cell)


def fitting_runs(runs: Sequence[StudyRun]) -> tuple[list[StudyRun], Left]:
    """Keep the comparisons that can be put together.

    Parameters
    ----------
    runs
        Comparisons.

    Returns
    -------
    tuple
        Those that fit, and names of the others with the reason.
    """
    left: Left = []
    fit: list[StudyRun] = []
    seen: dict[tuple[str, ...], str] = {}
    for run in runs:
        cell = run.cell
        place = (cell.model, cell.replicate, cell.task)
        if reason := _unfit(run):
            left.append((cell.id, reason))
        elif place in seen:
            left.append((cell.id, f"it has the same model and data as {seen[place]}"))
        else:
            seen[place] = cell.id
            fit.append(run)
    fit, others = _with_common_methods(fit)
    left += others
    fit, others = _with_common_unit(fit)
    return fit, [*left, *others]


def _unfit(run: StudyRun) -> str:
    """Why a run fits no others; empty if it may."""
    if not run.methods:
        return "it has no curve of a method"
    if not (run.tests["method_y"] == RANDOM).any():
        return "its methods were not compared with random masks; make it again with draws"
    return ""


def _with_common_methods(runs: list[StudyRun]) -> tuple[list[StudyRun], Left]:
    counts = Counter(name for run in runs for name in run.methods)
    common = [name for name, times in counts.items() if 2 * times > len(runs)]
    if not common and runs:
        common = runs[0].methods
    fit: list[StudyRun] = []
    left: Left = []
    for run in runs:
        shared = [name for name in run.methods if name in common]
        if len(shared) >= min(2, len(common)):
            fit.append(run)
            continue
        held = "no method" if not shared else f"only the method {shared[0]}"
        theirs, own = ", ".join(common), ", ".join(run.methods)
        left.append(
            (run.cell.id, f"it has {held} in common with the others ({own}; the others: {theirs})")
        )
    return fit, left


def _with_common_unit(runs: list[StudyRun]) -> tuple[list[StudyRun], Left]:
    counts = Counter(run.metric for run in runs)
    if len(counts) < 2:
        return runs, []
    usual = counts.most_common(1)[0][0]
    if all(math.isnan(run.worth) for run in runs if run.metric != usual):
        fit = [run for run in runs if run.metric == usual]
    else:
        fit = [run for run in runs if not math.isnan(run.worth)]
    left: Left = []
    for run in runs:
        if run not in fit:
            left.append((run.cell.id, _other_metric(run, usual)))
    return fit, left


def _other_metric(run: StudyRun, usual: str) -> str:
    if math.isnan(run.none):
        why = "its curves do not say what the model is worth with no head"
    else:
        why = "its whole model is worth no more than the model with no head"
    names = f"its metric is {run.metric}, and that of most is {usual}"
    names = "the runs have several metrics" if run.metric == usual else names
    return f"{names}; {why}, so that areas have no common unit"
