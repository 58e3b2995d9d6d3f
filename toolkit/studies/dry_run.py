"""What a study will cost, cell by cell; nothing is written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.experiments.dry_run import plan
from headtool.experiments.planning import Plan
from headtool.results.scores import json_rows
from headtool.results.studies import Cell
from headtool.schema import TABLES
from headtool.studies.cells import check_inputs, plan_cells
from headtool.studies.running import Models, cells_left

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StudyCost", "plan_study"]


@dataclass(frozen=True, eq=False)
class StudyCost:
    """What the cells of a study will cost that are not done yet.

    Attributes
    ----------
    name
        Name of the study.
    cells
        The cells, in the order in which they run.
    plans
        What each costs.
    done
        How many cells are done, and cost nothing.
    """

    name: str
    cells: tuple[Cell, ...]
    plans: tuple[Plan, ...]
    done: int

    @property
    def frame(self) -> pd.DataFrame:
        """A row per cell: the table ``study_plan`` of `headtool.schema`."""
        return TABLES["study_plan"].frame(
            {
                "cell": cell.id,
                "model": cell.model,
                "replicate": cell.replicate,
                "task": cell.task,
                **_sums(one.total),
            }
            for cell, one in zip(self.cells, self.plans, strict=True)
        )

    @property
    def total(self) -> dict[str, float]:
        """Sums over the cells; of the memory, the most."""
        rows = [_sums(one.total) for one in self.plans]
        found = {name: math.fsum(row[name] for row in rows) for name in _SUMMED}
        return {**found, "memory": max((row["memory"] for row in rows), default=0.0)}

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it, in the format ``headtool/study-plan/1``."""
        return {
            "schema": "headtool/study-plan/1",
            "study": self.name,
            "done": self.done,
            "total": {
                name: None if math.isnan(value) else value for name, value in self.total.items()
            },
            "unknown": sorted(
                f"{cell.id}: {name}"
                for cell, one in zip(self.cells, self.plans, strict=True)
                for name in one.unknown
            ),
            "study_plan": json_rows(self.frame),
        }


_SUMMED = ("forward", "backward", "decoded", "operations", "seconds_least", "seconds_most")


def plan_study(given: Path | str | Mapping[str, Any], *, timed: bool = False) -> StudyCost:
    """Say what a study will cost: passes, operations, memory and time of each cell that is left.

    Models and data are loaded and everything is checked as `headtool.study` would.

    Parameters
    ----------
    given
        The study file, or what it would hold.
    timed
        Time each model on one batch of each task, so that there are seconds.

    Returns
    -------
    StudyCost
        With a row per cell.

    Raises
    ------
    HeadtoolError
        As `headtool.study`, also for what would make a cell fail.

    Examples
    --------
    >>> import headtool
    >>> cost = headtool.plan_study(
    ...     {
    ...         "out": "runs/first",
    ...         "models": [{"name": "nli", "model": "builtin:nli"}],
    ...         "tasks": [{"name": "matched", "data": "builtin:nli/matched"}],
    ...         "methods": ["magnitude"],
    ...         "steps": "50%",
    ...         "draws": 2,
    ...         "resources": {"limit": 16},
    ...     }
    ... )
    >>> cost.frame[["cell", "forward", "backward"]]
              cell  forward  backward
    0  nli.matched     55.0       0.0
    """
    study, models, plans = plan_cells(given), Models(), []
    left = cells_left(study)
    check_inputs(study, left)
    for one in left:
        plans.append(
            plan(
                *("compare", models.load(one.model), one.data, one.request),
                select_data=one.select_data,
                workers=study.resources.workers or 1,
                timed=timed,
            )
        )
    return StudyCost(
        study.study.name,
        tuple(one.cell for one in left),
        tuple(plans),
        len(study.comparing) - len(left),
    )


def _sums(total: Mapping[str, float]) -> dict[str, float]:
    return {
        "operations": total["forward_flops"] + total["backward_flops"],
        **{name: total[name] for name in (*_SUMMED, "memory") if name in total},
    }
