"""What ablations cost: tables of outcomes (Michel, Levy & Neubig 2019, sec. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError
from headtool.masks.singles import Ablated
from headtool.metrics.base import Metric
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ablation_frame", "best_single_heads", "whole_values"]


def ablation_frame(
    ablated: Sequence[Ablated], outcomes: Outcomes, metrics: Sequence[Metric]
) -> pd.DataFrame:
    """Tabulate what ablation changes: masked minus whole, in the metric's unit.

    Parameters
    ----------
    ablated
        The heads, with their masks.
    outcomes
        Outcomes of these masks.
    metrics
        The metrics to measure by.

    Returns
    -------
    DataFrame
        A row per metric and head: kind, layer, head, delta, stderr, metric.
    """
    rows = []
    for metric in metrics:
        whole = metric.compute(outcomes.whole)
        for number, item in enumerate(ablated):
            masked = outcomes.row(number)
            delta = metric.compute(masked) - whole
            stderr = metric.jackknife_stderr(masked, outcomes.whole)
            head = item.head
            rows.append((head.kind, head.layer, head.index, delta, stderr, metric.name))
    return TABLES["ablation"].frame(rows)


def whole_values(outcomes: Outcomes, metrics: Sequence[Metric]) -> dict[str, float]:
    """The unmasked model's value of every metric.

    Parameters
    ----------
    outcomes
        The outcomes.
    metrics
        The metrics to measure by.
    """
    return {metric.name: metric.compute(outcomes.whole) for metric in metrics}


def best_single_heads(
    ablated: Sequence[Ablated], outcomes: Outcomes, metric: Metric, *, seed: int
) -> pd.DataFrame:
    """Per site, the head that does best alone, chosen on one half and reported on the other.

    Choosing and reporting on the same examples is optimistic; `delta_chosen_on` shows by how much.

    Parameters
    ----------
    ablated
        All-but-one ablations, as `keep_one_masks` made them.
    outcomes
        Their outcomes.
    metric
        What "best" means.
    seed
        Draws the two halves.

    Returns
    -------
    DataFrame
        The table ``best`` of `headtool.schema`: ``delta`` is on the half that did not choose.

    References
    ----------
    Michel, Levy & Neubig 2019, sec. 3.3 and appendix A.
    """
    count = len(next(iter(outcomes.whole.values())))
    if count < 2:
        raise HeadtoolError(
            f"choosing on one half and reporting on the other needs 2 examples, got {count}"
        )
    order = np.random.default_rng(seed).permutation(count)
    halves = np.sort(order[: count // 2]), np.sort(order[count // 2 :])
    on_first, on_second = (_deltas(outcomes, metric, half) for half in halves)
    sign = 1.0 if metric.higher_is_better else -1.0
    rows = []
    for site in dict.fromkeys((item.head.kind, item.head.layer) for item in ablated):
        members = [i for i, item in enumerate(ablated) if (item.head.kind, item.head.layer) == site]
        best = max(members, key=lambda i: (sign * on_first[i], -i))
        head = ablated[best].head
        rows.append(
            (head.kind, head.layer, head.index, on_second[best], on_first[best], metric.name)
        )
    return TABLES["best"].frame(rows)


def _deltas(outcomes: Outcomes, metric: Metric, examples: NDArray[np.int64]) -> NDArray[np.float64]:
    """Delta of each mask on some of the examples."""
    whole = metric.compute({name: values[examples] for name, values in outcomes.whole.items()})
    masked = [
        metric.compute({name: values[examples] for name, values in outcomes.row(i).items()})
        for i in range(len(outcomes.masks))
    ]
    return np.array(masked) - whole
