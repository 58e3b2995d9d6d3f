"""How far the rounding of a short number format moves what is measured.

A head closed early changes every later rounding as well, so that an effect holds the difference of
two rounding errors. It is found without a copy of the model in more digits: the outputs of the
first layer's heads go to the next number up or down, at random, which means nothing and changes
every later rounding. That is random rounding (CESTAC, Vignes 1993; Parker 1997), done once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from headtool.engine.counting import mask_shares
from headtool.engine.evaluation import evaluate
from headtool.engine.metering import Meter
from headtool.engine.replacement import Fill, Replacement
from headtool.engine.units import Executor, in_turn
from headtool.heads import AttentionSite, Head, HeadMask
from headtool.metrics.base import Metric
from headtool.metrics.translation import TranslationMetric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.progress import Progress, silent
from headtool.work import Passes, Size

__all__ = ["measure_rounding", "rounding_work"]

_EXAMPLES = 64
_SHORT = ("bfloat16", "float16")


def rounding_work(
    model: ModelAdapter, examples: Examples, metrics: Sequence[Metric]
) -> tuple[Examples, Passes] | None:
    """Say what `measure_rounding` runs, and over which examples; None: nothing.

    Parameters
    ----------
    model, examples, metrics
        As for `measure_rounding`.
    """
    if not _measured(model, examples, metrics):
        return None
    share = mask_shares(model, [_first_closed(model)])[0]
    return _some(examples), Passes(forward=2 + share, what="rounding")  # see `_NextNumber`


def measure_rounding(
    model: ModelAdapter,
    examples: Examples,
    metrics: Sequence[Metric],
    *,
    seed: int = 0,
    execute: Executor = in_turn,
    meter: Meter | None = None,
) -> dict[str, Any] | None:
    """Measure what an effect would be if nothing but the rounding changed.

    Parameters
    ----------
    model, examples
        The model, and the data set on which effects are measured; 64 of its examples are used, at
        equal distances.
    metrics
        What effects are measured by; those that decode are left out.
    seed
        Draws which way each number goes.
    execute
        Who runs the units.
    meter
        Counts the work, as the phase ``rounding``.

    Returns
    -------
    dict
        As JSON can hold it: ``dtype``, ``examples`` and, by metric, ``noise``: the standard error
        of the change over these examples, in the metric's unit. For metrics that compare
        predictions, which any change raises, it is the change itself. None if the model computes
        with more digits, or nothing is left to measure.
    """
    measured = _measured(model, examples, metrics)
    if not measured:
        return None
    some = _some(examples)
    with contextlib.nullcontext() if meter is None else meter.phase("rounding"):
        outcomes = evaluate(
            *(model, some, [_first_closed(model)]),
            replacement=_NextNumber(next(iter(model.sites)), seed),
            divergence=any(metric.compares for metric in measured),
            execute=execute,
            progress=silent if meter is None else meter,
        )
    moved = outcomes.row(0)
    noise = {
        metric.name: metric.compute(moved)
        if metric.compares
        else metric.jackknife_stderr(moved, outcomes.whole)
        for metric in measured
    }
    known = {name: float(value) for name, value in noise.items() if np.isfinite(value)}
    return {"dtype": model.placement["dtype"], "examples": len(some), "noise": known}


def _measured(model: ModelAdapter, examples: Examples, metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics whose noise is measured; none where the model computes with more digits."""
    if model.placement["dtype"] not in _SHORT or len(examples) < 2:
        return []
    return [metric for metric in metrics if not isinstance(metric, TranslationMetric)]


def _some(examples: Examples) -> Examples:
    count = min(_EXAMPLES, len(examples))
    return examples.take(np.arange(count) * len(examples) // count)


def _first_closed(model: ModelAdapter) -> HeadMask:
    """The mask that closes all heads of the first site."""
    first = next(iter(model.sites))
    heads = [Head(first.kind, first.layer, index) for index in range(first.n_heads)]
    return HeadMask.without(model.sites, heads)


@dataclass(frozen=True)
class _NextNumber(Replacement):
    """A head's own output, every number of it moved to the next one up or down.

    Attributes
    ----------
    site
        Where; the outputs of later sites would have to be those after the move.
    seed
        Draws which way.
    """

    name: ClassVar[str] = "next number"
    aligned: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    site: AttentionSite
    seed: int

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Take the outputs from a pass of the whole model."""

        def fill(batch: Batch) -> Mapping[AttentionSite, Tensor]:
            found: dict[AttentionSite, Tensor] = {}
            draws = torch.Generator().manual_seed(self.seed + int(batch.index[0]))

            def move(site: AttentionSite, contexts: Tensor) -> None:
                if site == self.site:
                    up = torch.randint(0, 2, contexts.shape, generator=draws).to(contexts.device)
                    half = torch.finfo(contexts.dtype).eps / 2  # of a step, at least; rounds to one
                    moved = contexts.float() * (1 + half * (2 * up - 1))
                    found[site] = moved.to(contexts.dtype)

            with model.intercept(move, batch):
                model.forward(batch)
            return found

        return fill

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Run the whole model once more."""
        return (Passes(forward=1, what="rounding"),)
