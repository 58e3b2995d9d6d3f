"""Runs of several stages: what is finished lies beside the run to be and is not done again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headtool.engine.measurement import Measured, measure
from headtool.engine.replacement import Replacement, Zero
from headtool.engine.store import UnitStore, store_beside
from headtool.engine.units import Executor, Unit, digest, in_turn
from headtool.errors import HeadtoolError, StorageError
from headtool.heads import HeadMask
from headtool.metrics.base import Metric
from headtool.metrics.translation import TranslationMetric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, silent
from headtool.reports.results import HeadScores
from headtool.results.folders import holds_work
from headtool.results.outcomes import Outcomes
from headtool.results.runs import read_run, write_run
from headtool.searching import Search

__all__ = ["SharedOutcomes", "Stages", "stages"]


class SharedOutcomes:
    """Outcomes of masks by model, examples and what else they depend on: no mask runs twice."""

    def __init__(self) -> None:
        self._pools: dict[_Key, _Pool] = {}

    def of(self, key: _Key) -> _Pool:
        """Return what was found so far; whoever runs further masks adds them."""
        return self._pools.setdefault(key, _Pool())


class Stages:
    """Stages of one run; each is computed once, also over several processes one after the other.

    Parameters
    ----------
    folder
        Where finished stages and units lie; None: nowhere.
    execute
        Runs the units of work, where a stage does not say otherwise.
    progress
        Reports progress, where a stage does not say otherwise.
    shared
        Outcomes of masks that other runs in this process found; None: there are no others.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        execute: Executor = in_turn,
        progress: Progress = silent,
        shared: SharedOutcomes | None = None,
    ) -> None:
        self.folder, self.execute, self.progress = folder, execute, progress
        self._shared = shared or SharedOutcomes()
        self._parts: dict[str, _Part] = {}

    @property
    def holds_any(self) -> bool:
        """Whether anything finished is kept."""
        return self.folder is not None and holds_work(self.folder)

    def scores(self, name: str, compute: Callable[[], HeadScores]) -> HeadScores:
        """Return the scores of a finished stage, or compute and keep them.

        Parameters
        ----------
        name
            Name of the stage.
        compute
            Computes the scores.
        """
        if self.folder is None:
            return compute()
        place = self._place(self.folder, name)
        if place.exists():
            try:
                return _saved_scores(place)
            except HeadtoolError as error:
                raise StorageError(f"{error}; delete {place} to compute it again") from error
        scores = compute()
        _save_scores(self._place(self.folder, name), scores)
        return scores

    def part(self, examples: Examples, index: NDArray[np.int64]) -> Examples:
        """Take some examples, as ``examples.take`` does, and remember of which they are a part.

        Masks that close heads have the same outcomes on them as among all: `measure` runs them on
        all of the examples, once, and takes the part's outcomes from there.

        Parameters
        ----------
        examples
            All of the examples.
        index
            Which of them, [N].
        """
        taken = examples.take(index)
        self._parts[taken.fingerprint] = _Part(examples, index)
        return taken

    def keep(
        self, name: str, compute: Callable[[], Mapping[str, NDArray[Any]]]
    ) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of a finished part, or compute and keep them; see `units.Keep`.

        Parameters
        ----------
        name
            Name of the part.
        compute
            Computes its arrays by name.
        """
        if self.folder is None:
            return compute()
        unit = Unit(0, np.empty(0, dtype=np.int64), range(0))
        with UnitStore(self._place(self.folder, name), {}) as store:
            found = store.load(unit)
            if found is None:
                found = compute()
                store.save(unit, found)
            return found

    def measure(
        self,
        stage: str,
        model: ModelAdapter,
        examples: Examples,
        masks: Sequence[HeadMask],
        metric: Metric,
        *,
        search: Search | None = None,
        replacement: Replacement | None = None,
        rescale: bool = False,
        chained: bool | None = False,
        reuse: bool = True,
        all_stage: str = "",
        execute: Executor | None = None,
        progress: Progress | None = None,
    ) -> Measured:
        """Do what `headtool.engine.measurement.measure` does, but no mask twice and no unit again.

        All masks of a comparison are evaluated here, the methods' own included.

        Parameters
        ----------
        stage
            Name of the stage, under which finished units are kept.
        model, examples, masks, metric, search, replacement, rescale, chained
            As for `headtool.engine.measurement.measure`.
        reuse
            Whether outcomes of the same masks on the same examples may be taken over. Not where the
            model itself is another one.
        all_stage
            Name of the stage that ran masks on all of the examples of which these are a `part`;
            what an earlier process finished there is found under it.
        execute, progress
            As for `headtool.engine.measurement.measure`; None for those of all stages.
        """

        def run(wanted: Sequence[HeadMask]) -> Measured:
            with self._store(stage, wanted) as store:
                return measure(
                    model,
                    examples,
                    wanted,
                    metric,
                    search=search,
                    replacement=replacement,
                    rescale=rescale,
                    chained=chained,
                    store=store,
                    execute=execute or self.execute,
                    progress=progress or self.progress,
                )

        if not reuse or rescale:
            return run(masks)
        filled = replacement or Zero()
        part = self._parts.get(examples.fingerprint) if filled.alone else None
        if part is not None:
            found = self.measure(
                *(all_stage or stage, model, part.of, masks, metric),
                search=search,
                replacement=replacement,
                chained=chained,
                execute=execute,
                progress=progress,
            )
            return Measured(found.outcomes.on(part.index))
        own = metric.signature if isinstance(metric, TranslationMetric) else ""
        own = metric.name if metric.compares else own
        key = _Key(model.fingerprint, examples.fingerprint, own, search, filled)
        pool = self._shared.of(key)
        missing = [mask for mask in dict.fromkeys(masks) if mask not in pool.rows]
        if missing or pool.whole is None:
            pool.add(run(missing).outcomes)
        return Measured(pool.take(masks))

    @contextlib.contextmanager
    def _store(self, stage: str, masks: Sequence[HeadMask]) -> Iterator[UnitStore | None]:
        if self.folder is None:
            yield None
            return
        which = digest([mask.to_json() for mask in masks])
        place = self._place(self.folder, f"{stage}.{which[:12]}")
        with UnitStore(place, {"masks": which}) as store:
            yield store

    @staticmethod
    def _place(folder: Path, name: str) -> Path:
        """Where a stage is kept; the folder is not made again, as its lock is gone with it."""
        if not folder.is_dir():
            raise StorageError(
                f"{folder} was removed while the command was at work; give the command again"
            )
        return folder / name


def _save_scores(place: Path, scores: HeadScores) -> None:
    write_run(
        place,
        command="",
        provenance={scores.method: dict(scores.provenance)},
        tables={
            "scores": scores.frame,
            **{f"table.{table}": frame for table, frame in scores.tables.items()},
        },
        weights={"weights": scores.weights} if scores.weights else None,
    )


def _saved_scores(place: Path) -> HeadScores:
    run = read_run(place)
    (method, source), *_ = run.manifest["provenance"].items()
    return HeadScores(
        method,
        run.table("scores"),
        source,
        {
            table.removeprefix("table."): run.table(table)
            for table in run.manifest["tables"]
            if table.startswith("table.")
        },
        run.weights("weights") if run.manifest["weights"] else {},
    )


@dataclass(frozen=True)
class _Key:
    """What outcomes of a mask depend on; most metrics share a forward pass."""

    model: str
    examples: str
    own: str  # which metric, if it decodes or compares models
    search: Search | None
    replacement: Replacement


@dataclass(frozen=True, eq=False)
class _Part:
    """Some of the examples of a set."""

    of: Examples
    index: NDArray[np.int64]


class _Pool:
    """Outcomes of masks on some examples, whoever asked for them."""

    def __init__(self) -> None:
        self.whole: Mapping[str, NDArray[np.float64]] | None = None
        self.rows: dict[HeadMask, Mapping[str, NDArray[np.float64]]] = {}

    def add(self, outcomes: Outcomes) -> None:
        rows = {mask: outcomes.row(i) for i, mask in enumerate(outcomes.masks)}
        if self.whole is None:
            self.whole = outcomes.whole
        elif "loss" in self.whole:
            # Rounding differs between batches: the change is taken within one.
            shifts = {
                name: values - outcomes.whole[name]
                for name, values in self.whole.items()
                if name.endswith("loss")
            }
            rows = {
                mask: {**row, **{name: row[name] + shift for name, shift in shifts.items()}}
                for mask, row in rows.items()
            }
        self.rows |= rows

    def take(self, masks: Sequence[HeadMask]) -> Outcomes:
        assert self.whole is not None
        count = len(next(iter(self.whole.values())))
        masked = {
            name: np.array([self.rows[mask][name] for mask in masks]).reshape(-1, count)
            for name in self.whole
        }
        return Outcomes(tuple(masks), self.whole, masked)


@contextlib.contextmanager
def stages(
    folder: Path | None,
    description: Mapping[str, Any],
    *,
    force: bool,
    execute: Executor = in_turn,
    progress: Progress = silent,
    shared: SharedOutcomes | None = None,
) -> Iterator[Stages]:
    """Keep finished stages in ``FOLDER.unfinished`` until the run is at `folder`.

    Parameters
    ----------
    folder
        The run to be; None keeps nothing.
    description
        What makes it the same run; what is left of another one is refused.
    force
        Whether a run at `folder` will be replaced.
    execute, progress, shared
        As for `Stages`.

    Raises
    ------
    HeadtoolError
        If another process is at work there, or there is something else.
    """
    if folder is None:
        yield Stages(None, execute=execute, progress=progress, shared=shared)
        return
    with store_beside(folder, description, force=force) as store:
        yield Stages(store.folder, execute=execute, progress=progress, shared=shared)
