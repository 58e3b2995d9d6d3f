"""Ablating heads one at a time, or all but one per site (Michel, Levy & Neubig 2019, sec. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.masks.singles import Ablated
from headtool.metrics.base import Metric
from headtool.models.base import Examples, ModelAdapter
from headtool.progress import Progress, silent
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Decider", "ablate_until_decided", "ablation_frame", "best_single_heads", "whole_values"]


def ablation_frame(
    ablated: Sequence[Ablated], outcomes: Outcomes, metrics: Sequence[Metric]
) -> pd.DataFrame:
    """Tabulate kind, layer, head, delta (masked - whole, in the metric's unit), stderr, metric."""
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
    """The unmasked model's value of every metric."""
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


class Decider(Protocol):
    """Takes paired outcomes block by block and says for which masks it wants more."""

    @property
    def active(self) -> NDArray[np.int64]:
        """Numbers of the masks that are not decided."""
        ...

    def update(self, outcomes: NDArray[np.float64]) -> None:
        """Take the next examples' outcomes of the active masks, [active, examples]."""
        ...


def ablate_until_decided(
    model: ModelAdapter,
    examples: Examples,
    ablated: Sequence[Ablated],
    decider: Decider,
    *,
    seed: int,
    block: int = 64,
    progress: Progress = silent,
) -> int:
    """Ablate heads of a classifier until each is decided, or the examples are used up.

    Examples come in one random order. A head's outcome on an example is whether it is classified
    rightly without the head, minus whether it is with it: 1, 0 or -1.

    Parameters
    ----------
    model, examples, ablated
        The model, its data and the heads.
    decider
        Decides; see `headtool.analysis.sequential`.
    seed
        Draws the order of the examples.
    block
        Examples between two looks.
    progress
        Reports progress.

    Returns
    -------
    int
        How many times a masked model was run on an example; a full ablation does so
        ``heads x examples`` times.
    """
    order = np.random.default_rng(seed).permutation(len(examples))
    starts = range(0, len(order), block)
    runs = 0
    for start in progress(starts, total=len(starts), label="ablate"):
        active = decider.active
        if not len(active):
            break
        part = examples.take(order[start : start + block])
        masks = [ablated[i].mask for i in active]
        outcomes = evaluate(model, part, masks)
        gold = outcomes.whole["gold"]
        whole = outcomes.whole["prediction"] == gold
        masked = outcomes.masked["prediction"] == gold
        decider.update(masked.astype(np.float64) - whole)
        runs += masked.size
    return runs


def _deltas(outcomes: Outcomes, metric: Metric, examples: NDArray[np.int64]) -> NDArray[np.float64]:
    """Delta of each mask on some of the examples."""
    whole = metric.compute({name: values[examples] for name, values in outcomes.whole.items()})
    masked = [
        metric.compute({name: values[examples] for name, values in outcomes.row(i).items()})
        for i in range(len(outcomes.masks))
    ]
    return np.array(masked) - whole
