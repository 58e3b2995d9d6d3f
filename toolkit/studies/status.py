"""How far a study is."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.results.scores import json_rows
from headtool.results.studies import Cell, Study, running_since
from headtool.schema import TABLES
from headtool.studies.cells import open_study

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StudyStatus", "study_status"]


@dataclass(frozen=True, eq=False)
class StudyStatus:
    """How far a study is.

    Attributes
    ----------
    study
        The study, as it was when it was looked at.
    running
        How many seconds the cell under way has been running; NaN if none is.
    """

    study: Study
    running: float

    @property
    def counts(self) -> dict[str, int]:
        """How many cells are done, running, failed and left."""
        return {
            "done": self.study.count("done"),
            "running": self.study.count("running"),
            "failed": self.study.count("failed"),
            "left": self.study.count("left"),
        }

    @property
    def seconds_left(self) -> float:
        """About how long the rest takes, if it takes as long as what is done; NaN if nothing is.

        Cells that failed count, as they are tried again.
        """
        known = [cell.seconds for cell in self.study.done if cell.seconds]
        if not known:
            return math.nan
        mean = sum(known) / len(known)
        rest = len(self.study.cells) - len(self.study.done)
        under_way = 0.0 if math.isnan(self.running) else min(self.running, mean)
        return rest * mean - under_way

    @property
    def frame(self) -> pd.DataFrame:
        """A row per cell: the table ``study_status`` of `headtool.schema`."""
        return TABLES["study_status"].frame(
            {
                "cell": cell.id,
                "model": cell.model,
                "replicate": cell.replicate,
                "task": cell.task,
                "state": cell.state,
                "seconds": self._seconds(cell),
                "error": cell.error,
                "run": str(cell.run),
            }
            for cell in self.study.cells
        )

    def document(self) -> dict[str, Any]:
        """Return it as JSON can hold it, in the format ``headtool/study-status/1``."""
        left = self.seconds_left
        return {
            "schema": "headtool/study-status/1",
            "study": self.study.name,
            "folder": str(self.study.folder),
            **self.counts,
            "seconds_left": None if math.isnan(left) else left,
            "study_status": json_rows(self.frame),
        }

    def _seconds(self, cell: Cell) -> float:
        return self.running if cell.state == "running" else cell.seconds or math.nan


def study_status(place: Path | str) -> StudyStatus:
    """Say how far a study is: which cells are done, running, failed and left.

    Parameters
    ----------
    place
        The study file, or the folder of its runs.

    Raises
    ------
    HeadtoolError
        If there is no study, or its files are damaged.

    Examples
    --------
    >>> import headtool
    >>> headtool.study_status("study.yaml").counts  # doctest: +SKIP
    {'done': 3, 'running': 1, 'failed': 0, 'left': 8}
    >>> headtool.study_status("nowhere.yaml")
    Traceback (most recent call last):
        ...
    headtool.errors.HeadtoolError: there is no file nowhere.yaml; write a first one with ...
    """
    study = open_study(place)
    since = running_since(study)
    return StudyStatus(study, math.nan if since is None else max(0.0, time.time() - since))
