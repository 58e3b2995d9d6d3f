"""Single-head ablation (Michel, Levy & Neubig 2019, sec. 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headtool.evaluation import evaluate
from headtool.heads import HeadMask
from headtool.methods.base import Job, Method, Scored, option
from headtool.metrics import get_metric
from headtool.replacement import REPLACEMENTS, replacement

__all__ = ["Ablation"]


@dataclass(frozen=True)
class Ablation(Method):
    """What the metric loses when the head alone is closed.

    ``score_h = metric(whole) - metric(head h closed)`` on the same examples, with the sign turned
    for metrics where lower is better: positive means that the head helps. The standard error is
    that of the paired difference (delete-one jackknife over examples). The per-example outcomes
    of every mask stay with the result, so that tests need no further run.

    References
    ----------
    Michel, Levy & Neubig 2019, "Are Sixteen Heads Really Better than One?", sec. 3.2;
    McGrath et al. 2023, "The Hydra Effect", for why zero is not the only replacement.
    """

    name: ClassVar[str] = "ablation"
    summary: ClassVar[str] = "what the metric loses when the head alone is closed"
    reference: ClassVar[str] = "Michel, Levy & Neubig 2019, sec. 3.2"

    signal: str = option(
        "metric",
        "the metric (--metric, or the task's own), or the mean loss",
        choices=("metric", "loss"),
    )
    replacement: str = option(
        "zero",
        "what a closed head puts out: zero, its mean over the data set, or its output on another "
        "example",
        choices=REPLACEMENTS,
    )

    @property
    def uses_metric(self) -> bool:
        """Whether it is not the loss that is compared."""
        return self.signal == "metric"

    def compute(self, job: Job) -> Scored:
        """Run one mask per head."""
        metric = get_metric("loss", task=job.model.task) if self.signal == "loss" else job.metric
        masks = [HeadMask.without(job.model.sites, [head]) for head in job.sites.heads]
        outcomes = evaluate(
            job.model,
            job.examples,
            masks,
            replacement=replacement(self.replacement, seed=job.seed),
            progress=job.progress,
        )
        whole = metric.compute(outcomes.whole)
        masked = np.array([metric.compute(outcomes.row(i)) for i in range(len(masks))])
        stderr = np.array(
            [metric.jackknife_stderr(outcomes.whole, outcomes.row(i)) for i in range(len(masks))]
        )
        sign = 1.0 if metric.higher_is_better else -1.0
        return Scored(
            sign * (whole - masked), stderr, columns={metric.name: masked}, outcomes=outcomes
        )
