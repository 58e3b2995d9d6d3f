"""Random scores: the baseline that every other method has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headtool.methods.base import Job, Method, Scored
from headtool.work import Passes, Size

__all__ = ["Random"]


@dataclass(frozen=True)
class Random(Method):
    """A ranking of the heads that is drawn at random, all rankings being equally likely.

    The score is uniform on [0, 1), drawn from the seed; it looks at neither model nor data and has
    no standard error (NaN). One draw shows what a ranking without information looks like. What a
    method gains over many draws, among all heads and within each layer, is what pruning curves
    show: they draw their own (`headtool.masks.curves`).

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("random")().score(model, examples, seed=1)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score"]].round(2)
        layer  head  score
    23      2     7   0.98
    29      3     5   0.97
    24      3     0   0.96
    """

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "a random ranking, drawn from the seed: the baseline to beat"
    reference: ClassVar[str] = "baseline"

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take no pass over the examples."""
        return ()

    def compute(self, job: Job) -> Scored:
        """Draw a number per head."""
        heads = job.sites.n_heads
        return Scored(np.random.default_rng(job.seed).random(heads), np.full(heads, np.nan))
