"""What a model is worth whole, with heads closed, and pruned: values and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.intervals import percentile_interval
from headtool.analysis.paired import Paired
from headtool.analysis.resampling import bootstrap_deltas
from headtool.engine.divergence import compared
from headtool.engine.measurement import Measures, measure
from headtool.engine.replacement import Replacement
from headtool.engine.units import Executor, in_turn
from headtool.heads import HeadMask
from headtool.metrics import metric_of_model
from headtool.metrics.base import Metric
from headtool.metrics.translation import TranslationMetric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, silent
from headtool.schema import TABLES
from headtool.searching import Search

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Candidate", "curve_frame", "worth_frame"]

_RESAMPLES = 2000

Statistics = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model to be measured: another one, or the whole one with some heads closed.

    Attributes
    ----------
    stage
        What the tables call it.
    model
        The model.
    mask
        Which heads are open; None: all.
    replacement
        What closed heads put out; None: zero.
    place
        For curves: how many heads are closed.
    """

    stage: str
    model: ModelAdapter
    mask: HeadMask | None = None
    replacement: Replacement | None = None
    place: int = 0

    def measured(
        self,
        whole: ModelAdapter,
        examples: Examples,
        metric: Metric,
        search: Search | None,
        execute: Executor,
        progress: Progress,
    ) -> Statistics:
        """Return the statistics of every example.

        Parameters
        ----------
        whole
            The whole model, with which some metrics compare.
        examples, metric, search, execute, progress
            As for `headtool.engine.measurement.measure`.
        """
        if metric.compares and self.mask is None:
            return compared(whole, self.model, examples)
        masks = [] if self.mask is None else [self.mask]
        found = measure(
            self.model,
            examples,
            masks,
            metric,
            search=search if isinstance(metric, TranslationMetric) else None,
            replacement=self.replacement,
            execute=execute,
            progress=progress,
        ).outcomes
        return found.row(0) if masks else found.whole


def worth_frame(
    whole: ModelAdapter,
    candidates: Sequence[Candidate],
    examples: Examples,
    measures: Measures,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> pd.DataFrame:
    """Measure models by the metric and the loss, the table ``recovery`` of `headtool.schema`.

    Parameters
    ----------
    whole
        The whole model, which is the first row by each metric.
    candidates
        The models.
    examples
        What to measure on.
    measures
        The metric, and how it decodes.
    alpha
        Intervals have level ``1 - alpha``.
    seed
        Seed of the resamples.
    execute, progress
        As for `headtool.engine.measurement.measure`.
    """
    rows: list[tuple[object, ...]] = []
    first = measures.metric
    metrics = [first] if first.name == "loss" else [first, metric_of_model(whole, "loss")]
    known: dict[str, list[Statistics]] = {}
    for one in metrics:
        decoded = one.name if isinstance(one, TranslationMetric) or one.compares else ""
        if decoded not in known:
            known[decoded] = [
                each.measured(whole, examples, one, measures.search, execute, progress)
                for each in (Candidate("whole", whole), *candidates)
            ]
        for candidate, row in zip(
            (Candidate("whole", whole), *candidates),
            _compared(known[decoded], one, alpha=alpha, seed=seed),
            strict=True,
        ):
            rows.append((candidate.stage, one.name, *row))
    return TABLES["recovery"].frame(rows)


def curve_frame(
    whole: ModelAdapter,
    candidates: Sequence[Candidate],
    examples: Examples,
    measures: Measures,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> pd.DataFrame:
    """Measure the points of pruning curves by the metric alone, the table ``pruning_curve``.

    Parameters
    ----------
    whole, candidates, examples, measures, alpha, seed, execute, progress
        As for `worth_frame`; `Candidate.place` says where on the curve each is.
    """
    one, search, total = measures.metric, measures.search, whole.sites.n_heads
    stages = list(dict.fromkeys(each.stage for each in candidates))
    measured = [Candidate("whole", whole).measured(whole, examples, one, search, execute, progress)]
    bar = progress(candidates, total=len(candidates), label="curve")
    measured += [each.measured(whole, examples, one, search, execute, silent) for each in bar]
    first, *others = _compared(measured, one, alpha=alpha, seed=seed)
    rows: list[tuple[object, ...]] = [(stage, 0, 0.0, one.name, *first) for stage in stages]
    for candidate, row in zip(candidates, others, strict=True):
        share = candidate.place / total
        rows.append((candidate.stage, candidate.place, share, one.name, *row))
    frame = TABLES["pruning_curve"].frame(rows)
    return frame.sort_values(["replacement", "budget"], kind="stable", ignore_index=True)


def _compared(
    measured: Sequence[Statistics], metric: Metric, *, alpha: float, seed: int
) -> list[tuple[float, float, float, float]]:
    """Value, difference to the first and its interval, of each."""
    statistics = np.stack([metric.per_example(one) for one in measured])
    values = [metric.compute(one) for one in measured]
    low = high = np.full(len(measured) - 1, np.nan)
    if statistics.shape[1] > 1 and np.isfinite(statistics).all():
        first, others = statistics[0], statistics[1:]
        better = metric.higher_is_better
        paired = Paired(first, others, metric.from_sums, higher_is_better=better, name=metric.name)
        rng = np.random.default_rng([seed, 37])
        drawn = bootstrap_deltas(paired, resamples=_RESAMPLES, rng=rng)
        low, high = percentile_interval(drawn, level=1 - alpha)
    rows = zip(values[1:], low.tolist(), high.tolist(), strict=True)
    return [(values[0], 0.0, 0.0, 0.0), *((one, one - values[0], *ends) for one, *ends in rows)]
