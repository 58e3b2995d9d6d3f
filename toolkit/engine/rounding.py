"""How far the rounding of a short number format moves what is measured.

A head closed early changes every later rounding as well, so that an effect holds the difference of
two rounding errors. It is found without a copy of the model in more digits: the outputs of the
first layer's heads go to the next number up or down, at random, which means nothing and changes
every later rounding. That is random rounding (CESTAC, Vignes 1993; Parker 1997), done once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import Fill, Replacement
from headtool.engine.units import Executor, in_turn
from headtool.heads import AttentionSite, Head, HeadMask
from headtool.metrics.base import Metric
from headtool.metrics.translation import TranslationMetric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.progress import Progress
from headtool.work import Passes, Size

__all__ = ["measure_rounding"]

_EXAMPLES = 64
_SHORT = ("bfloat16", "float16")


def measure_rounding(
    model: ModelAdapter,
    examples: Examples,
    metrics: Sequence[Metric],
    *,
    seed: int = 0,
    execute: Executor = in_turn,
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

    Returns
    -------
    dict
        As JSON can hold it: ``dtype``, ``examples`` and, by metric, ``noise``: the standard error
        of the change over these examples, in the metric's unit. For metrics that compare
        predictions, which any change raises, it is the change itself. None if the model computes
        with more digits, or nothing is left to measure.
    """
    dtype = model.placement["dtype"]
    measured = [metric for metric in metrics if not isinstance(metric, TranslationMetric)]
    if dtype not in _SHORT or not measured or len(examples) < 2:
        return None
    count = min(_EXAMPLES, len(examples))
    some = examples.take(np.arange(count) * len(examples) // count)
    first = next(iter(model.sites))
    heads = [Head(first.kind, first.layer, index) for index in range(first.n_heads)]
    outcomes = evaluate(
        *(model, some, [HeadMask.without(model.sites, heads)]),
        replacement=_NextNumber(first, seed),
        divergence=any(metric.compares for metric in measured),
        execute=execute,
    )
    moved = outcomes.row(0)
    noise = {
        metric.name: metric.compute(moved)
        if metric.compares
        else metric.jackknife_stderr(moved, outcomes.whole)
        for metric in measured
    }
    known = {name: float(value) for name, value in noise.items() if np.isfinite(value)}
    return {"dtype": dtype, "examples": count, "noise": known}


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
