"""Confidence intervals of a head's effect: paired bootstrap, and Newcombe's paired score interval.

For shares of right answers the score interval is the default. A head that changes few predictions
leaves the bootstrap nothing to vary: with 2 to 5 discordant examples of 872, 95% intervals of the
bootstrap hold the truth 81 to 87% of the time, Newcombe's 99% (simulated). Beyond some 20
discordant examples the two agree.

References
----------
Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapters 13 and 14.
Newcombe (1998), Improved confidence intervals for the difference between binomial proportions
based on paired data, method 10.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from headtool.analysis.paired import Paired
from headtool.errors import HeadtoolError, unknown
from headtool.metrics.base import Array

__all__ = [
    "INTERVALS",
    "IntervalName",
    "bca_interval",
    "choose_interval",
    "newcombe_interval",
    "newcombe_of",
    "percentile_interval",
]

IntervalName = Literal["percentile", "bca", "newcombe"]
INTERVALS: tuple[IntervalName, ...] = ("percentile", "bca", "newcombe")


def choose_interval(paired: Paired, name: str = "auto") -> IntervalName:
    """Return the interval to use, after checking that it is defined for the metric.

    Parameters
    ----------
    paired
        The outcomes.
    name
        One of `INTERVALS`, or ``auto``: ``newcombe`` for shares of right answers, else
        ``percentile``.

    Raises
    ------
    HeadtoolError
        If the interval is unknown, or not defined for the metric.
    """
    if name == "auto":
        return "newcombe" if paired.form == "binary" else "percentile"
    found = next((known for known in INTERVALS if known == name), None)
    if found is None:
        raise unknown("interval", name, [*INTERVALS, "auto"])
    if found == "newcombe" and paired.form != "binary":
        raise HeadtoolError(
            f"interval 'newcombe' needs right or wrong per example, which {paired.name} here is "
            "not; use percentile or bca"
        )
    return found


def percentile_interval(deltas: Array, *, level: float = 0.95) -> tuple[Array, Array]:
    """Return the percentile interval of every mask, each end of shape [M].

    Resamples on which the metric is undefined count as extreme on both sides: a few make the
    interval wider, more than the tail holds make it NaN.

    Parameters
    ----------
    deltas
        Bootstrap deltas, shape [R, M].
    level
        Nominal coverage.
    """
    tail = (1 - level) / 2
    low = _quantile(np.where(np.isnan(deltas), -np.inf, deltas), tail)
    high = _quantile(np.where(np.isnan(deltas), np.inf, deltas), 1 - tail)
    return low, high


def bca_interval(paired: Paired, deltas: Array, *, level: float = 0.95) -> tuple[Array, Array]:
    """Return the bias-corrected and accelerated interval of every mask, each end of shape [M].

    The bias is the normal quantile of the share of resamples below the observed delta, ties by
    half; the acceleration is a sixth of the jackknife skewness. Second-order accurate where the
    percentile interval is first-order, at the price of N further evaluations of the metric.

    Parameters
    ----------
    paired
        The outcomes.
    deltas
        Their bootstrap deltas, shape [R, M].
    level
        Nominal coverage.

    Returns
    -------
    tuple of numpy.ndarray
        Low and high ends; both the observed delta where no resample differs from it, NaN where the
        metric is undefined on a resample or with one example left out.
    """
    low, high = np.full(paired.n_masks, np.nan), np.full(paired.n_masks, np.nan)
    tails = ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    for mask, (observed, drawn) in enumerate(zip(paired.delta, deltas.T, strict=True)):
        if not np.isfinite(drawn).all():
            continue
        if (drawn == drawn[0]).all():
            low[mask] = high[mask] = observed
            continue
        below = ((drawn < observed).mean() + (drawn <= observed).mean()) / 2
        edge = 1 / (len(drawn) + 1)  # keeps the bias finite where no resample lies on one side
        bias = ndtri(np.clip(below, edge, 1 - edge))
        shifted = bias + tails
        levels = ndtr(bias + shifted / (1 - _acceleration(paired.jackknife[mask]) * shifted))
        if np.isfinite(levels).all():
            low[mask], high[mask] = np.quantile(drawn, levels)
    return low, high


def newcombe_interval(
    both: ArrayLike,
    only_first: ArrayLike,
    only_second: ArrayLike,
    neither: ArrayLike,
    *,
    level: float = 0.95,
) -> tuple[Array, Array]:
    """Return Newcombe's interval for the second proportion minus the first, in paired data.

    Combines the Wilson intervals of the two proportions, given their correlation phi, which is
    corrected for continuity. Keeps its level with few discordant pairs, where the
    bootstrap is too short, and has a positive length even with none.

    Parameters
    ----------
    both, only_first, only_second, neither
        Number of examples that both systems, one of them or none gets right; any common shape.
    level
        Nominal coverage.
    """
    a, b, c, d = (np.asarray(x, dtype=np.float64) for x in (both, only_first, only_second, neither))
    n = a + b + c + d
    first, second = (a + b) / n, (a + c) / n
    (low1, high1), (low2, high2) = (_wilson(share, n, level) for share in (first, second))
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    surplus = a * d - b * c
    surplus = np.where(surplus > 0, np.maximum(surplus - n / 2, 0), surplus)
    phi = np.where(margins > 0, surplus / np.sqrt(np.where(margins > 0, margins, 1)), 0.0)
    down = _hypotenuse(second - low2, high1 - first, phi)
    up = _hypotenuse(high2 - second, first - low1, phi)
    return second - first - down, second - first + up


def newcombe_of(paired: Paired, *, level: float = 0.95) -> tuple[Array, Array]:
    """Return :func:`newcombe_interval` of every mask's delta, each end of shape [M].

    Parameters
    ----------
    paired
        Outcomes of the form ``binary``.
    level
        Nominal coverage.
    """
    only_whole, only_masked = paired.discordant
    right = (paired.whole[:, 0] != 0).sum()
    both = right - only_whole
    neither = paired.n_examples - right - only_masked
    low, high = newcombe_interval(both, only_whole, only_masked, neither, level=level)
    unit = paired.unit or 1.0
    return unit * low, unit * high


def _quantile(deltas: Array, q: float) -> Array:
    with np.errstate(invalid="ignore"):  # between two infinite values
        ends = np.asarray(np.quantile(deltas, q, axis=0), dtype=np.float64)
    return np.where(np.isfinite(ends), ends, np.nan)


def _acceleration(left_out: Array) -> float:
    influence = left_out.mean() - left_out
    spread = float((influence**2).sum())
    return float((influence**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0


def _wilson(share: Array, n: Array, level: float) -> tuple[Array, Array]:
    z = float(ndtri((1 + level) / 2))
    centre = share + z**2 / (2 * n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = (centre - half) / (1 + z**2 / n), (centre + half) / (1 + z**2 / n)
    return np.where(share == 0, 0.0, low), np.where(share == 1, 1.0, high)


def _hypotenuse(x: Array, y: Array, phi: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(x**2 - 2 * phi * x * y + y**2, 0)), dtype=np.float64)
