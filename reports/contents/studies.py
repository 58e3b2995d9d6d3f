"""Many comparisons as reports see them: the study's tables, its cells, and where each is shown."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headtool.analysis.study_cells import StudyRun
from headtool.analysis.study_runs import Left, runs_of_cells, runs_of_folders
from headtool.analysis.study_tables import StudyTables, study_tables
from headtool.errors import HeadtoolError
from headtool.reports.contents.run import MEASURES
from headtool.reports.wording.words import names

if TYPE_CHECKING:
    import pandas as pd

    from headtool.results.studies import Study

__all__ = ["StudyContents", "of_runs", "of_study"]

_REPORT = "report.html"
_NAMED = 4  # comparisons of which an error says why they are left out


@dataclass(frozen=True, eq=False)
class StudyContents:
    """Many comparisons that fit together.

    Attributes
    ----------
    name
        Name of the study; empty for runs that were only put together.
    study
        Their tables.
    left
        Names of comparisons that are left out, and why.
    folder
        Where the report belongs: the study's folder, or the current one.
    command
        What makes this report again.
    """

    name: str
    study: StudyTables
    left: Left
    folder: Path = Path()
    command: str = ""

    @property
    def runs(self) -> tuple[StudyRun, ...]:
        """The cells."""
        return self.study.runs

    @property
    def design(self) -> dict[str, Any]:
        """The row of ``study_design``."""
        return self.study.design

    @property
    def scaled(self) -> bool:
        """Whether areas are shares of what all heads are worth."""
        return str(self.design["unit"]) == "share"

    @property
    def measure(self) -> str:
        """What areas are in, as running text says it."""
        unit = str(self.design["unit"])
        return "what all heads are worth" if self.scaled else MEASURES.get(unit, unit)

    @property
    def models(self) -> dict[str, str]:
        """Short names of the models."""
        return names(run.cell.model for run in self.runs)

    @property
    def tasks(self) -> dict[str, str]:
        """Short names of the tasks."""
        return names(run.cell.task for run in self.runs)

    def table(self, name: str) -> pd.DataFrame:
        """Return one of the tables of `headtool.schema`.

        Parameters
        ----------
        name
            Its name, such as ``study_ranking``.
        """
        return self.study.tables[name]

    def every_table(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """All tables with rows, by name."""
        for name, frame in self.study.tables.items():
            if len(frame):
                yield name, frame.copy()

    def title(self, run: StudyRun) -> str:
        """What a cell is called: model, seed and task, as far as these tell cells apart.

        Parameters
        ----------
        run
            The cell.
        """
        cell = run.cell
        parts = []
        if len(self.models) > 1 or len(self.tasks) < 2:
            parts.append(self.models[cell.model])
        parts += [cell.replicate] if cell.replicate else []
        if len(self.tasks) > 1:
            parts.append(self.tasks[cell.task])
        return " · ".join(part for part in parts if part) or cell.id

    def link(self, run: StudyRun, place: Path | None) -> str:
        """Link to a cell's own report from the folder of this one; empty where there is none.

        Parameters
        ----------
        run
            The cell.
        place
            Folder that the report goes to; None: unknown.
        """
        folder = run.comparison.folder
        if place is None or folder is None or not (folder / _REPORT).is_file():
            return ""
        path = os.path.relpath((folder / _REPORT).resolve(), place.resolve())
        return quote(Path(path).as_posix())


def of_study(study: Study) -> StudyContents:
    """Open the cells of a study that are done.

    Parameters
    ----------
    study
        The study.

    Raises
    ------
    HeadtoolError
        If none of its cells can be shown.
    """
    runs, left = runs_of_cells(study.cells)
    command = f"headtool study report {shlex.quote(str(study.folder))}"
    return _contents(study.name, runs, left, study.folder, command)


def of_runs(folders: Sequence[Path]) -> StudyContents:
    """Open saved comparisons that fit together.

    Parameters
    ----------
    folders
        Run directories.

    Raises
    ------
    HeadtoolError
        If none of them can be shown, or a single one.
    """
    runs, left = runs_of_folders(folders)
    command = shlex.join(["headtool", "report", *map(str, folders)])
    if len(runs) == 1 and left:
        raise HeadtoolError(f"only {runs[0].cell.id} is left to report on: {_why(left)}")
    return _contents("", runs, left, Path(), command)


def _contents(
    name: str, runs: Sequence[StudyRun], left: Left, folder: Path, command: str
) -> StudyContents:
    if not runs:
        raise HeadtoolError(f"there is no comparison to report on: {_why(left) or 'none is done'}")
    return StudyContents(name, study_tables(runs), left, folder, command)


def _why(left: Left) -> str:
    """Why nothing is left, for the first few."""
    said = [f"{name}: {reason}" for name, reason in left[:_NAMED]]
    more = len(left) - _NAMED
    return "; ".join([*said, f"and {more} more"] if more > 0 else said)
