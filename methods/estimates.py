"""Shared by several methods: ratios over examples, standard errors, and the best heads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headtool.results.scores import ranks

__all__ = ["highest", "influence_stderr", "ratio_of_sums"]


def highest(score: NDArray[np.float64], heads: int, *, seed: int = 0) -> NDArray[np.bool_]:
    """Mark the heads with the highest scores; of equal ones, those that rank higher by the seed.

    Parameters
    ----------
    score
        Shape [H].
    heads
        How many to mark.
    seed
        As for `headtool.results.scores.ranks`.

    Returns
    -------
    ndarray
        Booleans, shape [H].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.methods.estimates import highest
    >>> highest(np.array([0.3, 0.9, 0.4, 0.1]), 2).tolist()
    [False, True, True, False]
    """
    rank, _ = ranks(score, seed=seed)
    return rank <= heads


def influence_stderr(influence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard error of statistics whose first-order influence values are given.

    Parameters
    ----------
    influence
        Influence of each unit (example, batch) on each statistic, [units, statistics]; to first
        order, the error of a statistic is the mean of its column.

    Returns
    -------
    ndarray
        ``sqrt(sum influence^2 / (n (n - 1)))``, shape [statistics]; NaN for fewer than two units.
    """
    units = len(influence)
    if units < 2:
        return np.full(influence.shape[1], np.nan)
    result: NDArray[np.float64] = np.sqrt((influence**2).sum(axis=0) / (units * (units - 1)))
    return result


def ratio_of_sums(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ratio of sums over examples, and each example's influence on it (delta method).

    Parameters
    ----------
    numerator, denominator
        Shape [N, heads].

    Returns
    -------
    ratio, influence
        Shapes [heads] and [N, heads]; NaN where the denominators add up to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.methods.estimates import influence_stderr, ratio_of_sums
    >>> ratio, influence = ratio_of_sums(np.array([[1.0], [3.0]]), np.array([[2.0], [2.0]]))
    >>> ratio.tolist(), influence.tolist()
    ([1.0], [[-0.5], [0.5]])
    >>> influence_stderr(influence).round(3).tolist()
    [0.5]
    """
    total = denominator.sum(axis=0)
    ratio = numerator.sum(axis=0) / np.where(total > 0, total, np.nan)
    return ratio, (numerator - ratio * denominator) / np.where(total > 0, total, np.nan) * len(
        numerator
    )
