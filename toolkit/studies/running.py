"""Run a study: cell after cell, each a comparison in a run directory of its own."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from headtool.engine.metering import Display
from headtool.errors import HeadtoolError, StorageError
from headtool.experiments.compare import run_comparison
from headtool.experiments.inputs import open_model
from headtool.experiments.setup import set_up
from headtool.experiments.stages import SharedOutcomes
from headtool.models.base import ModelAdapter
from headtool.models.source import ModelSource
from headtool.progress import Progress, silent
from headtool.results.folders import check_output, holds_work, unfinished_folder
from headtool.results.studies import (
    LOCK,
    Cell,
    CellProgress,
    Study,
    read_study,
    write_progress,
    write_study,
)
from headtool.studies.cells import Comparing, StudyPlan, check_inputs, plan_cells
from headtool.studies.progress import Overall, cell_progress
from headtool.studies.spec import Resources
from headtool.workers.pool import Workers, WorkersLike

__all__ = ["Models", "cells_left", "study"]

_LOG = logging.getLogger("headtool")

# What a cell can fail of while the others may still succeed; a bug is told with its traceback.
_FAILURES = (
    HeadtoolError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def study(
    given: Path | str | Mapping[str, Any],
    *,
    progress: Progress = silent,
    tell: Callable[[str], object] = lambda line: None,
    command: Callable[[Comparing], str] = lambda cell: "",
) -> Study:
    """Run a study: compare methods on many models, trained from several seeds, on many tasks.

    Every cell, a model on a task, is an ordinary run of `headtool.compare` in a folder below the
    study's. What is done is not done again: a study that was interrupted continues with the same
    call, and one to which cells were added runs these. A cell that fails does not stop the others;
    it is tried again by the next call.

    Parameters
    ----------
    given
        The study file, or what it would hold, as dictionaries and lists.
    progress
        Reports progress, over all cells.
    tell
        Takes a line on each cell that fails.
    command
        Writes the command line that makes the run of a cell again, for its manifest.

    Returns
    -------
    Study
        Its cells, with the folder of each and whether it is done.

    Raises
    ------
    HeadtoolError
        If the study is faulty, which is seen before anything runs and names line and key; if
        another process is at work on it; or if a cell was made with other settings.

    Examples
    --------
    >>> import tempfile
    >>> import headtool
    >>> with tempfile.TemporaryDirectory() as place:
    ...     done = headtool.study(
    ...         {
    ...             "out": f"{place}/first",
    ...             "models": [{"name": "nli", "model": "builtin:nli"}],
    ...             "tasks": [{"name": "matched", "data": "builtin:nli/matched"}],
    ...             "methods": ["magnitude"],
    ...             "steps": "50%",
    ...             "draws": 2,
    ...             "resources": {"limit": 16},
    ...         }
    ...     )
    >>> [(cell.id, cell.state) for cell in done.cells]
    [('nli.matched', 'done')]
    """
    plan = plan_cells(given)
    folder = plan.study.folder
    check_inputs(plan, cells_left(plan))
    with _at_work(folder):
        before = _begun(folder)
        _check_unchanged(plan, before)
        states = {cell.id: cell for cell in before.cells} if before is not None else {}
        left = cells_left(plan)
        write_study(plan.study)
        record = {
            name: CellProgress(cell.state, cell.seconds, cell.error)
            for name, cell in states.items()
            if cell.state in ("done", "failed")
        }
        with _workers(plan.resources) as workers:
            _run(plan, left, record, _Doing(workers, progress, tell, command))
    return read_study(folder)


def cells_left(plan: StudyPlan) -> list[Comparing]:
    """Return what is to be compared still: the cells whose runs are not there.

    Parameters
    ----------
    plan
        The study.
    """
    return [one for one in plan.comparing if not _is_done(one.cell)]


@dataclass(frozen=True)
class _Doing:
    """Who runs the cells, and who is told; as for `study`."""

    workers: WorkersLike
    progress: Progress
    tell: Callable[[str], object]
    command: Callable[[Comparing], str]


class Models:
    """The model that was asked for last: cells that share one stand together.

    Attributes
    ----------
    shared
        Outcomes of masks of this model, for its cells on the same data.
    """

    def __init__(self) -> None:
        self.shared = SharedOutcomes()
        self._source: ModelSource | None = None
        self._found: ModelAdapter | HeadtoolError | None = None

    def load(self, source: ModelSource) -> ModelAdapter:
        """Return a model; the one before it is let go first.

        Parameters
        ----------
        source
            The model, and how to load it.

        Raises
        ------
        HeadtoolError
            If it cannot be loaded; the same again where the same model is asked for again.
        """
        if source != self._source:
            self._source = self._found = None
            self.shared = SharedOutcomes()
            try:
                self._found = open_model(source)
            except HeadtoolError as error:
                self._found = error
            self._source = source
        if isinstance(self._found, HeadtoolError):
            raise self._found
        assert self._found is not None
        return self._found


def _run(
    plan: StudyPlan,
    left: Sequence[Comparing],
    record: dict[str, CellProgress],
    doing: _Doing,
) -> None:
    folder, models, overall = plan.study.folder, Models(), Overall(len(left))
    if isinstance(doing.progress, Display):
        doing.progress.begin(overall)
    for one in left:
        name = one.cell.id
        overall.begin(name)
        record[name] = CellProgress("running")
        write_progress(folder, record)
        started = time.monotonic()
        try:
            check_output(one.cell.run, force=False)
            model = models.load(one.model)
            run_comparison(
                set_up(model, one.data, one.request, select_data=one.select_data),
                one.cell.run,
                command=doing.command(one),
                workers=doing.workers,
                progress=cell_progress(doing.progress, overall),
                shared=models.shared,
            )
        except _FAILURES as error:
            what = _reason(error)
            record[name] = CellProgress("failed", time.monotonic() - started, what)
            doing.tell(f"{name} failed: {what}")
        else:
            record[name] = CellProgress("done", time.monotonic() - started)
        write_progress(folder, record)  # where the disk is full, this ends it
        overall.end(record[name].seconds)


def _reason(error: Exception) -> str:
    """Why a cell failed, on one line; a bug's traceback is told besides."""
    what = str(error).strip() or type(error).__name__
    if not isinstance(error, HeadtoolError):
        what = f"{type(error).__name__}: {what}"
        _LOG.warning("%s", traceback.format_exc().rstrip())
    return " ".join(what.split())


@contextmanager
def _at_work(folder: Path) -> Iterator[None]:
    """Hold the study's lock, so that nobody else runs it."""
    with ExitStack() as stack:
        try:
            (folder / "cells").mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(folder / LOCK).acquire(timeout=0))
        except Timeout:
            raise StorageError(
                f"another process is at work on the study in {folder}; wait for it"
            ) from None
        except OSError as error:
            raise StorageError(
                f"cannot write {folder}: {error.strerror or error}; choose another `out`"
            ) from error
        yield


@contextmanager
def _workers(resources: Resources) -> Iterator[WorkersLike]:
    """The workers that the study asks for, the same for all cells."""
    if resources.workers is None:
        if resources.ray or resources.gpus_per_worker is not None or resources.ship_weights:
            raise HeadtoolError(
                "`ray`, `gpus_per_worker` and `ship_weights` are for `workers`; give how many"
            )
        yield None
        return
    started = Workers(
        resources.workers,
        ray=resources.ray,
        gpus_per_worker=resources.gpus_per_worker,
        ship_weights=resources.ship_weights,
    )
    with started:
        yield started


def _begun(folder: Path) -> Study | None:
    return read_study(folder) if (folder / "study.json").exists() else None


def _is_done(cell: Cell) -> bool:
    return (cell.run / "manifest.json").is_file()


def _check_unchanged(plan: StudyPlan, before: Study | None) -> None:
    """Refuse what was begun with other settings: the study's runs are all of one file."""
    known = {} if before is None else {cell.id: cell for cell in before.cells}
    for one in plan.comparing:
        old, unfinished = known.get(one.cell.id), unfinished_folder(one.cell.run)
        if not (_is_done(one.cell) or holds_work(unfinished)):
            continue
        if old is None:
            raise StorageError(
                f"{one.cell.run} is no cell of this study as far as {plan.study.folder} knows; "
                "delete it, or choose another `out`"
            )
        changed = _difference(old.settings, one.cell.settings)
        if changed is not None:
            place = one.cell.run if _is_done(one.cell) else unfinished
            raise StorageError(
                f"{place} was made with {changed}; delete it to make it again, or choose another "
                "`out`"
            )


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    plain = json.loads(json.dumps(dict(new)))
    for name in {**old, **plain}:
        if old.get(name) != plain.get(name):
            was, now = (json.dumps(part.get(name))[:60] for part in (old, plain))
            return f"{name.replace('_', '-')} {was}, which is {now} now"
    return None
