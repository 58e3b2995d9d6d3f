"""Magnitude of the heads' weights: a baseline that needs no labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headtool.attention.weights import weight_of
from headtool.methods.base import Job, Method, Scored
from headtool.methods.slices import head_slices
from headtool.work import Passes, Size

__all__ = ["Magnitude"]


@dataclass(frozen=True)
class Magnitude(Method):
    """Frobenius norm of the head's slices of W_Q, W_K, W_V and W_O.

    ``sqrt(|W_Q^h|^2 + |W_K^h|^2 + |W_V^h|^2 + |W_O^h|^2)``, biases left out. A higher score means
    more important. Which rows of a projection belong to which head is measured, not read off its
    shape, so that fused projections count like separate ones. Keys and values that several heads
    share count in full for each of them.

    The score looks at the weights alone: a few tokens are run to find them, and no example. There
    is no standard error (NaN). Layers of different scale are compared as they are.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("magnitude")().score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score"]].round(2)
        layer  head  score
    15      1     7   6.12
    13      1     5   6.02
    29      3     5   6.00
    """

    name: ClassVar[str] = "magnitude"
    summary: ClassVar[str] = "norm of the head's query, key, value and output weights"
    reference: ClassVar[str] = "baseline; Frobenius norm"

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take no pass over the examples."""
        return ()

    def compute(self, job: Job) -> Scored:
        """Add the squares of each head's slices."""
        squares = np.zeros(job.model.sites.n_heads)
        for site, parts in head_slices(job, biases=False).items():
            for part in parts:
                weight = weight_of(job.model.module, part.name).double()
                sums = part.sums(weight.square().cpu().numpy())
                squares[job.model.sites.columns(site)] += sums
        return Scored(np.sqrt(job.columns(squares)), np.full(job.sites.n_heads, np.nan))
