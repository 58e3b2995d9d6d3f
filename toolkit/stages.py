"""Runs of several stages: what is finished lies beside the run to be and is not done again."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from headtool.heads import HeadMask
from headtool.measurement import measure
from headtool.metric_base import Metric
from headtool.models.base import Examples, ModelAdapter
from headtool.models.generation import Search
from headtool.progress import Progress, silent
from headtool.results import HeadScores, Outcomes
from headtool.runs import check_output, read_run, write_run
from headtool.units import UnitStore, digest

__all__ = ["Stages", "stages"]


class Stages:
    """Stages of one run; each is computed once, also over several processes one after the other.

    Parameters
    ----------
    folder
        Where finished stages and units lie; None: nowhere.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def scores(self, name: str, compute: Callable[[], HeadScores]) -> HeadScores:
        """Return the scores of a finished stage, or compute and keep them."""
        if self.folder is None:
            return compute()
        place = self.folder / name
        if not place.exists():
            scores = compute()
            write_run(
                place,
                command="",
                provenance={"scores": dict(scores.provenance), "method": scores.method},
                tables={
                    "scores": scores.frame,
                    **{f"table.{table}": frame for table, frame in scores.tables.items()},
                },
                weights={"weights": scores.weights} if scores.weights else None,
            )
            return scores
        run = read_run(place)
        found = run.manifest["provenance"]
        return HeadScores(
            found["method"],
            run.table("scores"),
            found["scores"],
            {
                table.removeprefix("table."): run.table(table)
                for table in run.manifest["tables"]
                if table.startswith("table.")
            },
            load_file(place / "weights.safetensors") if run.manifest["weights"] else {},
        )

    def outcomes(
        self,
        name: str,
        model: ModelAdapter,
        examples: Examples,
        masks: Sequence[HeadMask],
        metric: Metric,
        *,
        search: Search | None = None,
        progress: Progress = silent,
    ) -> Outcomes:
        """Run the masks on the examples, without the units that are finished.

        All masks of a comparison are evaluated here; see `headtool.measurement.measure`.
        """
        if self.folder is None:
            return measure(
                model, examples, masks, metric, search=search, progress=progress
            ).outcomes
        description = {"stage": name, "masks": digest([mask.to_json() for mask in masks])}
        with UnitStore(self.folder / name, description) as store:
            return measure(
                model, examples, masks, metric, search=search, store=store, progress=progress
            ).outcomes


@contextlib.contextmanager
def stages(folder: Path | None, description: Mapping[str, Any], *, force: bool) -> Iterator[Stages]:
    """Keep finished stages in ``FOLDER.unfinished`` until the run is at `folder`.

    Parameters
    ----------
    folder
        The run to be; None keeps nothing.
    description
        What makes it the same run; what is left of another one is refused.
    force
        Whether a run at `folder` will be replaced.

    Raises
    ------
    HeadtoolError
        If another process is at work there, or there is something else.
    """
    if folder is None:
        yield Stages(None)
        return
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    with UnitStore(unfinished, description):
        try:
            check_output(folder, force=force)  # another process may have finished meanwhile
            yield Stages(unfinished)
        except BaseException:
            if not any(path.is_dir() for path in unfinished.iterdir()):
                shutil.rmtree(unfinished)
            raise
        shutil.rmtree(unfinished)
