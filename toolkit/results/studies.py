"""Studies on disk: which runs belong together, and how far each is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headtool.errors import HeadtoolError, StorageError
from headtool.reading import read_json
from headtool.results.folders import MANIFEST
from headtool.results.replacing import replacing
from headtool.schema.manifests import check_study, check_study_progress

__all__ = [
    "LOCK",
    "Cell",
    "CellProgress",
    "State",
    "Study",
    "read_study",
    "running_since",
    "write_progress",
    "write_study",
]

State = Literal["done", "running", "failed", "left"]

SCHEMA = "headtool/study/1"
PROGRESS_SCHEMA = "headtool/study-progress/1"
LOCK = "lock"
"""Name of the file that the process at work on a study holds a lock on."""

_STUDY, _PROGRESS = "study.json", "progress.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")


@dataclass(frozen=True)
class CellProgress:
    """What is written down of a cell beside its run.

    Attributes
    ----------
    state
        What the process at work made of it: ``done``, ``running`` or ``failed``.
    seconds
        How long it took; until a failure, if it failed; 0 while it runs.
    error
        Why it failed; empty otherwise.
    """

    state: State
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Cell:
    """One comparison of a study: a model, trained from one seed, on one task.

    Attributes
    ----------
    id
        Its name in the study, which is that of its folder.
    model
        Name of the model in the study.
    family
        Family of models that it belongs to; the model's name where none was given.
    replicate
        Which of the model's replicates it is, such as ``seed-2``; empty where there is one alone.
    task
        Name of the task in the study.
    spec, data
        SPEC of the model and of the data sets.
    run
        Run directory of the comparison, which is there once it is done.
    settings
        What decides its numbers, as JSON: model, data, methods and the options of the comparison.
    state
        ``done``, ``running``, ``failed``, or ``left``, also for what was begun and interrupted.
    seconds
        How long it took, as far as that is known: it is of the process that ended it; else 0.
    error
        Why it failed; empty if it did not.
    """

    id: str
    model: str
    family: str
    replicate: str
    task: str
    spec: str
    data: tuple[str, ...]
    run: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    state: State = "left"
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Study:
    """A study as it is saved.

    Attributes
    ----------
    name
        Its name.
    folder
        Where it lies.
    cells
        Its comparisons, in the order of their models, replicates and tasks.
    metric
        The metric that all cells have in common; None if each task has its own.

    Examples
    --------
    >>> import pathlib
    >>> from headtool.results.studies import Cell, Study
    >>> cell = Cell(
    ...     "nli.matched", "nli", "nli", "", "matched", "builtin:nli", (), pathlib.Path("cells/x")
    ... )
    >>> Study("first", pathlib.Path("runs"), (cell,)).count("left")
    1
    """

    name: str
    folder: Path
    cells: tuple[Cell, ...]
    metric: str | None = None

    @property
    def done(self) -> tuple[Cell, ...]:
        """The cells whose runs are there."""
        return tuple(cell for cell in self.cells if cell.state == "done")

    def count(self, state: State) -> int:
        """Count the cells in a state."""
        return sum(cell.state == state for cell in self.cells)


def write_study(study: Study) -> None:
    """Write which cells a study has; see `read_study`.

    Parameters
    ----------
    study
        The study, whose folder is there; the state of its cells is not written.

    Raises
    ------
    StorageError
        If it cannot be written.
    """
    document = {
        "schema": SCHEMA,
        "name": study.name,
        "metric": study.metric,
        "cells": [
            {
                "id": cell.id,
                "model": cell.model,
                "family": cell.family,
                "replicate": cell.replicate,
                "task": cell.task,
                "spec": cell.spec,
                "data": list(cell.data),
                "run": cell.run.relative_to(study.folder).as_posix(),
                "settings": dict(cell.settings),
            }
            for cell in study.cells
        ],
    }
    _write(study.folder / _STUDY, document)


def write_progress(folder: Path, progress: Mapping[str, CellProgress]) -> None:
    """Write down how far the cells of a study are.

    Parameters
    ----------
    folder
        The study's folder.
    progress
        By the name of the cell; those that nothing is known of are left out.

    Raises
    ------
    StorageError
        If it cannot be written.
    """
    cells = {
        name: {"state": one.state, "seconds": round(one.seconds, 3), "error": one.error}
        for name, one in progress.items()
    }
    _write(folder / _PROGRESS, {"schema": PROGRESS_SCHEMA, "cells": cells})


def read_study(folder: Path | str) -> Study:
    """Open the folder of a study.

    Whether a cell is done is seen from its run directory; that one runs or failed is written
    beside, and nothing runs unless a process holds the study's lock.

    Parameters
    ----------
    folder
        The folder, or the ``study.json`` in it.

    Raises
    ------
    HeadtoolError
        If there is no study, or its files are damaged.
    """
    folder = Path(folder)
    folder = folder.parent if folder.name == _STUDY else folder
    path = folder / _STUDY
    try:
        document = read_json(path)
    except FileNotFoundError:
        raise HeadtoolError(
            f"{folder} holds no study: it has no {_STUDY}; begin one with headtool study run"
        ) from None
    except NotADirectoryError:
        raise HeadtoolError(f"{folder} is no folder, so it holds no study") from None
    _check_schema(document, SCHEMA, path)
    check_study(document, str(path))
    known, at_work = _read_progress(folder), _is_held(folder / LOCK)
    cells = [_cell(folder, entry, path, known, at_work=at_work) for entry in document["cells"]]
    _check_names([cell.id for cell in cells], path)
    return Study(document["name"], folder, tuple(cells), document["metric"])


def running_since(study: Study) -> float | None:
    """Say since when the cell under way has been running, in seconds of the epoch; None if none is.

    Parameters
    ----------
    study
        The study.
    """
    if not study.count("running"):
        return None
    try:
        return (study.folder / _PROGRESS).stat().st_mtime  # written as the cell began
    except OSError:
        return None


def _cell(
    folder: Path,
    entry: Mapping[str, Any],
    path: Path,
    known: Mapping[str, CellProgress],
    *,
    at_work: bool,
) -> Cell:
    parts = entry["run"].split("/")
    if not all(_NAME.fullmatch(part) for part in parts):
        raise _damaged(path, f"{entry['run'][:50]!r} is no folder below the study's")
    run = folder.joinpath(*parts)
    written = known.get(entry["id"], CellProgress("left"))
    state: State = written.state
    if (run / MANIFEST).is_file():
        state = "done"
    elif state == "done" or (state == "running" and not at_work):
        state = "left"  # its run was removed, or its process is gone
    told = written if written.state == state else CellProgress(state)
    return Cell(
        **{name: entry[name] for name in ("id", "model", "family", "replicate", "task", "spec")},
        data=tuple(entry["data"]),
        run=run,
        settings=entry["settings"],
        state=state,
        seconds=told.seconds,
        error=told.error,
    )


def _read_progress(folder: Path) -> dict[str, CellProgress]:
    path = folder / _PROGRESS
    try:
        document = read_json(path)
    except FileNotFoundError:
        return {}
    _check_schema(document, PROGRESS_SCHEMA, path)
    check_study_progress(document, str(path))
    found = {name: CellProgress(**entry) for name, entry in document["cells"].items()}
    for one in found.values():
        if one.state not in ("done", "running", "failed"):
            raise _damaged(path, f"{one.state[:50]!r} is no state of a cell")
    return found


def _check_schema(document: Any, expected: str, path: Path) -> None:
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != expected:
        shown = repr(schema)[:60]
        raise HeadtoolError(f"{path} has the schema {shown}; this version reads {expected!r}")


def _check_names(names: Sequence[str], path: Path) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise _damaged(path, f"{name[:50]!r} is no name of a cell")
        if names.count(name) > 1:
            raise _damaged(path, f"the cell {name!r} is there twice")


def _is_held(path: Path) -> bool:
    """Whether another process holds a lock; looking leaves no file behind."""
    from filelock import FileLock, Timeout

    if not path.is_file():
        return False
    try:
        with FileLock(path).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a study that is only to be read
        return False


def _write(path: Path, document: Mapping[str, Any]) -> None:
    try:
        with replacing(path) as made:
            text = json.dumps(document, indent=1, allow_nan=False) + "\n"
            made.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def _damaged(path: Path, what: str) -> HeadtoolError:
    return HeadtoolError(f"{path} is damaged: {what}; run the study again")
