"""How well scores find what is known to matter: pure functions of scores and truth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError

__all__ = ["area_under_roc", "average_precision", "mean_interval", "share_above"]

Array = NDArray[np.float64]


def share_above(higher: Array, lower: Array) -> float:
    """Share of pairs in which the first has the higher score; equal scores count half.

    Parameters
    ----------
    higher, lower
        Scores, shapes [P] and [N]; neither empty.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.known_truth import share_above
    >>> share_above(np.array([3.0, 1.0]), np.array([1.0, 0.0]))
    0.875
    """
    above = np.sign(higher[:, None] - lower[None, :])
    return float((above + 1).mean() / 2)


def area_under_roc(scores: Array, positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve: how often a head that matters outranks one that does not.

    Parameters
    ----------
    scores
        Higher is more important, shape [heads].
    positive
        Which heads matter, shape [heads]; some do and some do not.

    Raises
    ------
    HeadtoolError
        If all heads are alike.
    """
    _check(positive)
    return share_above(scores[positive], scores[~positive])


def average_precision(scores: Array, positive: NDArray[np.bool_]) -> float:
    """Mean over the heads that matter of the share of such heads among those ranked as high.

    Heads of equal scores are taken in together.

    Parameters
    ----------
    scores, positive
        As for `area_under_roc`.

    Raises
    ------
    HeadtoolError
        If all heads are alike.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.known_truth import average_precision
    >>> average_precision(np.array([3.0, 2.0, 1.0]), np.array([True, False, True]))
    0.8333333333333333
    """
    _check(positive)
    precisions = [positive[scores >= score].mean() for score in scores[positive]]
    return float(np.mean(precisions))


def mean_interval(values: Sequence[float], *, level: float = 0.95) -> tuple[float, float, float]:
    """Mean over models with its t interval; both ends are NaN for a single model.

    Parameters
    ----------
    values
        One number per model.
    level
        Level of the interval.

    Returns
    -------
    mean, low, high
        The interval is not cut to the range of the values.
    """
    from scipy.stats import t

    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, math.nan, math.nan
    reach = float(t.ppf((1 + level) / 2, len(values) - 1))
    reach *= float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean, mean - reach, mean + reach


def _check(positive: NDArray[np.bool_]) -> None:
    if positive.all() or not positive.any():
        raise HeadtoolError("all heads are alike: there is nothing to find")
