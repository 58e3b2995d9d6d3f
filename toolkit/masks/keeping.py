"""Keep-only curves: only the most important heads stay open, at the shares that MIB uses.

Read backwards, a pruning curve that goes down to no head is a keep-only curve. So these masks are
those of the pruning curves wherever both have a point, and only points that are missing are added.

References
----------
Mueller et al. 2025, "MIB: A Mechanistic Interpretability Benchmark", 2504.13151, whose released
code keeps ``int(share * heads)`` heads at each of `SHARES`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from headtool.masks.order import Family

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHARES", "budgets_at_shares", "by_size", "keep_only"]

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the heads that stay, between which areas are taken."""


def budgets_at_shares(heads: int) -> tuple[int, ...]:
    """Return how many heads are closed at each of `SHARES`; with few heads, some are equal.

    Parameters
    ----------
    heads
        How many heads there are.

    Examples
    --------
    >>> from headtool.masks.keeping import budgets_at_shares
    >>> budgets_at_shares(72)
    (72, 72, 72, 72, 71, 69, 65, 58, 36, 0)
    """
    return tuple(heads - int(share * heads) for share in SHARES)


def keep_only(family: Family) -> Family:
    """Return the same heads with the points of their keep-only curve, down to no head.

    Parameters
    ----------
    family
        The heads, and the points of their pruning curve, which stay among the points.
    """
    points = {*family.budgets, *budgets_at_shares(family.sites.n_heads)}
    return dataclasses.replace(family, budgets=tuple(sorted(points)), keep_one=False)


def by_size(scores: pd.DataFrame) -> pd.DataFrame:
    """Rank heads by the absolute value of their scores; equal ones stay as they were ranked.

    Parameters
    ----------
    scores
        Scores with ranks, as in `headtool.results.scores.HeadScores.frame`.

    Examples
    --------
    >>> import pandas as pd
    >>> from headtool.masks.keeping import by_size
    >>> scores = pd.DataFrame({"score": [-3.0, 1.0, 2.0], "rank": [3, 2, 1]})
    >>> by_size(scores)["rank"].tolist()
    [1, 3, 2]
    """
    size = scores["score"].abs()
    order = np.lexsort((scores["rank"].to_numpy(), -size.to_numpy(np.float64)))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    mean_rank = size.rank(ascending=False, method="average").to_numpy(np.float64)
    return scores.assign(rank=rank, mean_rank=mean_rank)
