"""Bets against a mean: evidence that may be looked at after every example.

Somebody claims that values in [0, 1] have a mean of at most m. Bet on the contrary: with a capital
of 1, stake a share lambda_i before each value, and let ``K = prod(1 + lambda_i (x_i - m_i))``. If
the claim holds, the capital does not grow on average, and so it ever reaches 1/alpha with
probability at most alpha (Ville's inequality), whenever one stops looking. m_i is m for values
drawn with replacement. For values drawn without replacement from N of them it is the mean that
those left must have, ``(N m - sum_{j<i} x_j) / (N - i + 1)``.

The capital is spread over a few constant fractions g: ``lambda_i = g / m_i``, the largest close to
1 / m_i, at which a value of 0 takes everything. The mean of their capitals cannot grow under the
claim either, and it grows nearly as fast as that of the best fraction otherwise. Evidence against
a mean of at least m is that of 1 - x against a mean of at most 1 - m.

The capital falls in m. So the means that are not refuted form an interval, its ends are found by
bisection, and a mean is outside if and only if its own test refutes it.

References
----------
Waudby-Smith & Ramdas (2024), Estimating means of bounded random variables by betting, Journal of
the Royal Statistical Society B: the capital process, its hedged form, sampling without replacement,
and mixtures of constant bets ("diversified Kelly"). Their adaptive bets (aGRAPA, predictable
plug-in) did no better on outcomes that are mostly zero, and with aGRAPA the capital need not fall
in m.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from headtool.metrics.base import Array

__all__ = ["FRACTIONS", "log_capital", "lower_bound", "upper_bound"]

FRACTIONS = np.array([0.03, 0.1, 0.3, 0.6, 0.9])

_BISECTIONS = 22
# Sums of x are compared with N * m up to this much per example.
_ROUNDING = 1e-9


def log_capital(
    x: ArrayLike,
    m: float,
    *,
    total: int | None = None,
    before: tuple[int, Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return the logarithm of the capital after each value, betting on a mean above m.

    Parameters
    ----------
    x
        Values in [0, 1] in the order in which they were drawn, shape [H, n].
    m
        The mean that is refuted by a large capital, in (0, 1).
    total
        How many values there are to be drawn without replacement; None: they are drawn with
        replacement, or independently from a population.
    before
        What went before: the number of values, their sums [H], and the second result [G, H].

    Returns
    -------
    capital : ndarray
        Shape [H, n]; infinite from where on the drawn values alone exceed ``total * m``.
    fractions : ndarray
        The logarithm of the capital of each of the G fractions after the last value, shape [G, H].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.betting import log_capital
    >>> capital, _ = log_capital([[1, 1, 1, 1, 0, 1]], 0.5)
    >>> np.exp(capital).round(2)
    array([[1.39, 2.03, 3.12, 5.01, 1.67, 2.37]])
    """
    values = np.asarray(x, dtype=np.float64)
    seen, seen_sum, capitals = before or (0, np.zeros(len(values)), np.zeros((1, 1)))
    sums = seen_sum[:, None] + np.cumsum(values, axis=1)
    paths = capitals[..., None] + np.cumsum(_log_factors(values, m, total, seen, sums), axis=-1)
    fractions = paths[..., -1] if values.shape[1] else paths.sum(axis=-1)
    capital = np.logaddexp.reduce(paths, axis=0) - math.log(len(FRACTIONS))
    if total is not None:
        capital = np.where(sums > total * (m + _ROUNDING), np.inf, capital)
    return capital, fractions


def lower_bound(x: ArrayLike, threshold: float, *, total: int | None = None) -> float:
    """Return the largest mean m that the values [n] refute, so that the mean is above it.

    Parameters
    ----------
    x
        Values in [0, 1] in the order in which they were drawn.
    threshold
        Capital that refutes, such as 1/alpha for a one-sided bound.
    total
        As for :func:`log_capital`.
    """
    values = np.asarray(x, dtype=np.float64)[None]
    sums = np.cumsum(values, axis=1)
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        m = (low + high) / 2
        growth = _log_factors(values, m, total, 0, sums).sum(axis=-1)
        capital = np.logaddexp.reduce(growth[:, 0]) - math.log(len(FRACTIONS))
        impossible = total is not None and values.sum() > total * (m + _ROUNDING)
        if impossible or capital >= math.log(threshold):
            low = m
        else:
            high = m
    return low


def upper_bound(x: ArrayLike, threshold: float, *, total: int | None = None) -> float:
    """Return the smallest mean that the values refute, so that the mean is below it.

    Parameters
    ----------
    x
        Values in [0, 1] in the order in which they were drawn, shape [n].
    threshold
        Capital that refutes, such as 1/alpha for a one-sided bound.
    total
        As for :func:`log_capital`.

    Examples
    --------
    >>> from headtool.analysis.betting import lower_bound, upper_bound
    >>> x = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    >>> round(lower_bound(x, 20), 3), round(upper_bound(x, 20), 3)
    (0.001, 0.524)
    >>> round(upper_bound(x, 20, total=12), 3)  # two values are left: at most 3 of 12
    0.25
    """
    return 1.0 - lower_bound(1.0 - np.asarray(x, dtype=np.float64), threshold, total=total)


def _log_factors(x: Array, m: float, total: int | None, seen: int, sums: Array) -> Array:
    """Logarithms of 1 + g (x - m_i) / m_i, shape [G, H, n]; `sums` include x itself."""
    if total is None:
        return np.log1p(FRACTIONS[:, None, None] * (x / m - 1.0))
    left = total - seen - np.arange(x.shape[1])
    rest = total * m - (sums - x)  # what all values left must sum to
    # With nothing left there is nothing to bet on: any value above zero makes m impossible.
    bets = rest > total * _ROUNDING
    ratio = np.where(bets, x * left / np.where(bets, rest, 1.0), 1.0)
    return np.log1p(FRACTIONS[:, None, None] * (ratio - 1.0))
