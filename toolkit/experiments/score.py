"""Score the heads of one model on one data set: what ``headtool score`` does."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.data.drawing import LimitOrder
from headtool.engine.measurement import resolve
from headtool.engine.metering import Meter
from headtool.engine.provenance import provenance
from headtool.engine.units import Executor, in_turn
from headtool.errors import HeadtoolError
from headtool.experiments.inputs import (
    DataLike,
    ModelSource,
    encode,
    open_model,
    read_data,
)
from headtool.experiments.planning import Sketch, begin
from headtool.experiments.replacements import Variant, asked_variants, side_by_side
from headtool.experiments.rescoring import STEPS, removal_scores
from headtool.experiments.stages import Stages, stages
from headtool.heads import Kind, head_name
from headtool.masks.order import families
from headtool.methods import get_method
from headtool.methods.base import Method, Reader
from headtool.methods.sharing import SharedPasses
from headtool.metrics import metric_of_model
from headtool.models.base import ModelAdapter
from headtool.progress import ProgressLike, silent
from headtool.reports.contents.held import Held
from headtool.reports.results import HeadPlots, HeadScores
from headtool.results.folders import check_output
from headtool.results.runs import site_frame, write_run
from headtool.results.scores import joined_scores, json_rows, scores_document
from headtool.workers.pool import WorkersLike, open_workers

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["Scoring", "score"]

_LOG = logging.getLogger("headtool")


@dataclass(frozen=True, repr=False)
class Scoring(HeadPlots):
    """Scores of one model's heads by one or more methods.

    Attributes
    ----------
    results
        The scores of each method, in the order that was asked for.
    seconds
        How long each method took, by name, under all replacements; a pass that several read counts
        in equal parts.
    folder
        The run directory; None where none was asked for.
    beside
        By further replacement, the scores of the methods that take one.
    """

    results: tuple[HeadScores, ...]
    seconds: Mapping[str, float]
    folder: Path | None = None
    beside: Mapping[str, tuple[HeadScores, ...]] = field(default_factory=dict, kw_only=True)

    def __getitem__(self, method: str) -> HeadScores:
        """Return the scores by one method."""
        return {result.method: result for result in self.results}[method]

    @property
    def frame(self) -> pd.DataFrame:
        """The scores of all methods, a row per method and head; see `HeadScores.frame`."""
        return joined_scores([result.frame for result in self.results])

    def held(self) -> Held:
        """Return what its run directory holds, for its report."""
        return Held(
            {result.method: dict(result.provenance) for result in self.results},
            {"scores": self.frame},
        )

    @cached_property
    def replacements(self) -> dict[str, pd.DataFrame]:
        """With several replacements, the scores under each, and how alike these are.

        The tables ``replacement_scores``, ``replacement_score_agreement`` and, of ``ablation``,
        ``replacement_agreement`` of `headtool.schema`; nothing for one replacement alone.
        """
        return side_by_side(self.results, self.beside)

    def document(self) -> dict[str, Any]:
        """Return the scores as JSON can hold them, in the format ``headtool/scores/1``."""
        found = scores_document(self.results)
        return found | {name: json_rows(frame) for name, frame in self.replacements.items()}


def score(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    data: DataLike | None = None,
    *,
    methods: Sequence[Method | str] = ("gradient",),
    kinds: Iterable[Kind] | None = None,
    metric: str | None = None,
    iterative: bool = False,
    steps: str | None = None,
    replacement: str | None = None,
    beside: Sequence[str] = (),
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    batch_tokens: int | None = 4096,
    seed: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
) -> Scoring:
    """Score the attention heads of a model with one or more methods.

    Passes over the examples that several methods read are made once.

    Parameters
    ----------
    model
        A model, or its SPEC.
    data
        A data set, or its SPEC; None for the built-in set of a built-in model.
    methods
        Scoring methods, or their names for their default options.
    kinds
        Attention kinds whose heads are scored; None for all.
    metric
        For methods that measure the model, such as ``ablation``; None for the task's own.
    iterative
        Remove the lowest heads step by step and score those that are left again after every step.
        A head's score is then its place in the order of removal: 0 leaves first. What closes heads
        runs in this process, whatever `workers` says.
    steps
        With `iterative`, how many heads leave in a step, such as ``"4"``; None: ``"10%"``.
    replacement
        What closed heads put out, for the methods with an option for that: ``replacement`` of
        ``ablation``, ``baseline`` of ``attribution`` and ``integrated``. None: as these are set.
    beside
        Further replacements, with which these methods score again; shown beside the first.
    limit
        Examples to use; None for all.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Seed of everything random.
    out
        Run directory to write. Interrupted ``shapley`` and sweeps of ``gates`` continue when the
        same call is made again.
    force
        Replace a run that is there.
    command
        The command line that makes the run again, for its manifest.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress; True shows a bar.

    Raises
    ------
    HeadtoolError
        If something does not fit.

    Examples
    --------
    >>> import headtool
    >>> found = headtool.score(methods=["gradient", "magnitude"], limit=8, out="scores")
    >>> found["gradient"].frame.nsmallest(2, "rank")[["layer", "head", "score"]].round(2)
        layer  head  score
    7       0     7   0.91
    15      1     7   0.85
    >>> found.folder
    PosixPath('scores')
    """
    chosen = [get_method(method)() if isinstance(method, str) else method for method in methods]
    variants = asked_variants(chosen, replacement, beside)
    chosen = [one.method for one in variants if not one.replacement]
    folder = None if out is None else Path(out)
    kinds = None if kinds is None else tuple(kinds)
    check_output(folder, force=force)
    text = read_data(data, model, limit=limit, limit_order=limit_order, seed=seed)
    adapter = open_model(model)
    if metric is not None:
        _check_metric(metric, adapter, chosen)
    sites = adapter.sites.restrict(kinds)  # an error here costs no work
    family = None
    if iterative:
        (family,) = families(sites, steps or STEPS, keep_one=False, per_kind=False)
    elif steps is not None:
        raise HeadtoolError("`steps` is for `iterative`; add it, or leave `steps` out")
    examples = encode(adapter, text, batch_tokens=batch_tokens, seed=seed)
    description = provenance(
        adapter,
        examples,
        "score",
        {
            "kinds": list(kinds or ()),
            **({"iterative": steps or STEPS} if iterative else {}),
            **{scorer.name: scorer.settings() for scorer in chosen},
            **({"beside": list(beside)} if beside else {}),
        },
        metric or "",
        seed,
    )
    sketch = Sketch("score", adapter)
    measures = resolve(adapter, metric)
    phases = [(one.name, one.method) for one in variants]
    sketch.methods(phases, examples, sites, measures)
    if family is not None:
        again = max(0, len(family.budgets) - 2)
        for name, scorer in phases:
            rescorer = scorer.scores_only()
            sketch.method(f"{name}.steps", rescorer, examples, sites, measures, times=again)
    meter = begin(progress, sketch.plan(), adapter, examples)
    results: list[HeadScores] = []
    others: dict[str, tuple[HeadScores, ...]] = {}
    seconds: dict[str, float] = {}
    shared = SharedPasses([one.method for one in variants])
    with open_workers(workers) as execute, stages(folder, description, force=force) as kept:

        def scored(
            by: Method, place: str, execute: Executor, reader: Reader | None = None
        ) -> HeadScores:
            return by.score(
                adapter,
                examples,
                kinds=kinds,
                metric=metric,
                seed=seed,
                execute=execute,
                progress=meter,
                keep=partial(_keep, kept, place),
                reader=reader,
            )

        try:
            for one in variants:
                started, scorer = time.perf_counter(), one.method
                with meter.phase(one.name):
                    found = scored(scorer, one.name, execute, shared)
                if family is not None:

                    def rescore(gone: int, one: Variant = one) -> HeadScores:
                        return scored(one.method.scores_only(), f"{one.name}.{gone}", in_turn)

                    with meter.phase(f"{one.name}.steps"):
                        found = removal_scores(
                            adapter, family, found, rescore, steps=steps or STEPS, seed=seed
                        )
                _warn_of_missing(found)
                spent = time.perf_counter() - started
                seconds[scorer.name] = seconds.get(scorer.name, 0.0) + spent
                if one.replacement:
                    others[one.replacement] = (*others.get(one.replacement, ()), found)
                    continue
                if beside and scorer.replaced_by:
                    found = replace(found, provenance={**found.provenance, "beside": list(beside)})
                results.append(found)
        except KeyboardInterrupt:
            # Where parts are kept, the same call continues, and must find its folder free.
            if folder is not None and results and not (kept.holds_any or beside):
                _write(folder, Scoring(tuple(results), seconds), command, kept, meter, force=force)
                missing = ",".join(scorer.name for scorer in chosen[len(results) :])
                _LOG.warning(
                    "%s keeps what was finished; give `methods` %s and another `out`",
                    folder,
                    missing,
                )
            raise
        seconds = {name: spent + shared.owed[name] for name, spent in seconds.items()}
        scoring = Scoring(tuple(results), seconds, folder, beside=others)
        if folder is not None:
            _write(folder, scoring, command, kept, meter, force=force)
    return scoring


def _warn_of_missing(scores: HeadScores) -> None:
    """Say so where heads have no score: they rank last."""
    missing = scores.frame[scores.frame["score"].isna()]
    if len(missing):
        _LOG.warning(
            "%s: %d of %d heads have no score (NaN), such as %s",
            scores.method,
            len(missing),
            len(scores.frame),
            head_name(missing.iloc[0]),
        )


def _keep(kept: Stages, method: str, part: str, compute: Any) -> Mapping[str, NDArray[Any]]:
    """Keep a part of a method's work beside the run to be."""
    return kept.keep(f"{method}.{part}", compute)


def _check_metric(metric: str, model: ModelAdapter, methods: Sequence[Method]) -> None:
    """Refuse a metric that the model cannot be measured by, or that no method uses."""
    used = any(method.uses_metric for method in methods)
    names = ",".join(method.name for method in methods)
    no_effect = f"`metric` {metric} has no effect on {names} with these options"
    try:
        metric_of_model(model, metric)
    except HeadtoolError as error:
        if used:
            raise
        raise HeadtoolError(f"{no_effect}; leave it out ({error})") from error
    if not used:
        raise HeadtoolError(f"{no_effect}; leave it out, or add ablation to `methods`")


def _write(
    folder: Path, scoring: Scoring, command: str, kept: Stages, meter: Meter, *, force: bool
) -> None:
    results = scoring.results
    tables = {"scores": joined_scores([result.frame for result in results]), **scoring.replacements}
    for result in results:
        tables |= _tables(result, result.method)
        if result.outcomes is not None:
            tables["sites"] = site_frame(result.outcomes.masks[0].sites)
    for name, others in scoring.beside.items():
        for result in others:
            tables |= _tables(result, f"{result.method}.{name}")
            tables.pop(f"{result.method}.{name}.references", None)  # those of the first
    write_run(
        folder,
        command=command,
        provenance={result.method: dict(result.provenance) for result in results},
        tables=tables,
        weights={
            f"{result.method}.weights": result.weights for result in results if result.weights
        },
        unfinished=kept.folder,
        cost=meter.record(),
        force=force,
    )


def _tables(result: HeadScores, place: str) -> dict[str, pd.DataFrame]:
    """What a method has besides scores, under the names of a run."""
    further = {**result.tables, **result.texts}
    if result.outcomes is not None:
        further["outcomes"] = result.outcomes.to_frame()
    return {f"{place}.{name}": table for name, table in further.items()}
