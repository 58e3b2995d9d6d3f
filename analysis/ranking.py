"""Which method ranks first over many comparisons, and by how much ranks must differ.

Each block (a model on a task, the mean over its seeds) ranks the methods by their value there, and
methods are compared by their mean ranks (Demšar 2006). Two levels of caution:

- **Blocks are independent.** Friedman's test, and Nemenyi's critical difference
  ``q_alpha sqrt(k (k + 1) / (6 n))``, with k methods and n blocks.
- **Units are independent**, blocks of one unit are not: several tasks of one model, say, tend to
  favour the same methods. Under the null hypothesis that the methods may change places within a
  unit, in all of its blocks at once, permuting them unit by unit gives the distribution of the
  largest difference of mean ranks, for ``p`` and the critical difference. Exact for any dependence
  within a unit; with as many units as blocks it is Nemenyi's test for few blocks. Few units give
  coarse distributions, and one unit gives none.

Intervals of means over units are Student's t over the units' means.

References
----------
Friedman (1937), The use of ranks to avoid the assumption of normality.
Nemenyi (1963), Distribution-free multiple comparisons.
Demšar (2006), Statistical comparisons of classifiers over multiple data sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range, t

from headtool.analysis.levels import check_level
from headtool.metrics.base import Array

__all__ = ["Ranking", "critical_difference", "mean_over_units", "rank_methods", "ranks_of"]

_PERMUTATIONS = 10_000
_MANY = 200_000_000.0  # degrees of freedom that scipy takes for infinite
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Ranking:
    """Mean ranks of methods, and what tells them apart.

    Attributes
    ----------
    mean_ranks
        1 for the best, shape [M].
    blocks, units
        How many there are.
    statistic, p
        Friedman's chi-squared with ties corrected, and its p-value; NaN for fewer than three
        methods or two blocks, and where all values are tied.
    critical
        Nemenyi's critical difference; NaN for fewer than two blocks.
    p_pairs
        p-values of the differences by Nemenyi, shape [M, M].
    p_units, critical_units, p_pairs_units
        The same with methods permuted by unit; ``p_units`` is that of the largest difference. NaN
        for one unit. The critical difference is infinite where none can be significant.
    """

    mean_ranks: Array
    blocks: int
    units: int
    statistic: float
    p: float
    critical: float
    p_pairs: Array
    p_units: float
    critical_units: float
    p_pairs_units: Array


def ranks_of(values: Array) -> Array:
    """Rank methods within each row, 1 for the largest value; equal ones share their mean rank.

    Parameters
    ----------
    values
        Shape [blocks, M]; values that differ by rounding alone are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.ranking import ranks_of
    >>> ranks_of(np.array([[0.2, 0.5, 0.2]]))
    array([[2.5, 1. , 2.5]])
    """
    rounded = np.round(np.asarray(values, dtype=np.float64), 12)
    return np.asarray(rankdata(-rounded, axis=1), dtype=np.float64)


def critical_difference(methods: int, blocks: int, *, alpha: float = 0.05) -> float:
    """Return Nemenyi's critical difference of mean ranks.

    Parameters
    ----------
    methods, blocks
        How many of each.
    alpha
        Level for all pairs together.

    Examples
    --------
    Demšar (2006), section 3.2.2: four classifiers on 14 data sets.

    >>> from headtool.analysis.ranking import critical_difference
    >>> round(critical_difference(4, 14), 2), round(critical_difference(5, 30, alpha=0.1), 3)
    (1.25, 1.004)
    """
    if methods < 2 or blocks < 1:
        return math.nan
    q = float(studentized_range.ppf(1 - alpha, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * blocks))


def rank_methods(
    values: Array,
    units: Sequence[str],
    *,
    alpha: float = 0.05,
    permutations: int = _PERMUTATIONS,
    rng: int = 0,
) -> Ranking:
    """Compare methods by their mean ranks over blocks.

    Parameters
    ----------
    values
        Higher is better, shape [blocks, M], without missing values.
    units
        The unit of each block, such as its model; blocks of different units are independent.
    alpha
        Level of the critical differences, for all pairs together.
    permutations
        Draws of the permutation test.
    rng
        Their seed.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.ranking import rank_methods
    >>> found = rank_methods(np.array([[3, 2, 1], [3, 2, 1], [3, 1, 2]]), ["a", "b", "c"])
    >>> found.mean_ranks.round(2), round(found.p, 3)
    (array([1.  , 2.33, 2.67]), 0.097)
    """
    check_level(alpha)
    ranks = ranks_of(values)
    blocks, methods = ranks.shape
    means = ranks.mean(axis=0)
    labels, codes = np.unique(np.asarray(units, dtype=str), return_inverse=True)
    statistic, p = _friedman(ranks)
    gaps = np.abs(means[:, None] - means[None, :])
    critical = p_units = critical_units = math.nan
    p_pairs = p_pairs_units = np.full((methods, methods), math.nan)
    if blocks > 1 and methods > 1:
        critical = critical_difference(methods, blocks, alpha=alpha)
        p_pairs = _nemenyi(gaps, blocks)
    if len(labels) > 1 and methods > 1:
        sums = np.zeros((len(labels), methods))
        np.add.at(sums, codes, ranks)
        spans = _spans(sums / blocks, permutations, np.random.default_rng(rng))
        critical_units = _critical(spans, alpha)
        p_pairs_units = _p_of(spans, gaps)
        p_units = float(_p_of(spans, np.array([means.max() - means.min()]))[0])
    return Ranking(
        *(means, blocks, len(labels), statistic, p, critical, p_pairs),
        *(p_units, critical_units, p_pairs_units),
    )


def _friedman(ranks: Array) -> tuple[float, float]:
    blocks, methods = ranks.shape
    if methods < 3 or blocks < 2 or (ranks == ranks[:, :1]).all():
        return math.nan, math.nan
    found = friedmanchisquare(*ranks.T)
    return float(found.statistic), float(found.pvalue)


def _nemenyi(gaps: Array, blocks: int) -> Array:
    """p-values of differences of mean ranks, by the studentized range."""
    methods = len(gaps)
    scaled = gaps / math.sqrt(methods * (methods + 1) / (12 * blocks))
    unique, places = np.unique(np.round(scaled, 9), return_inverse=True)
    p = np.minimum(1.0, studentized_range.sf(unique, methods, _MANY))
    return np.asarray(p[places].reshape(gaps.shape))


def _spans(sums: Array, permutations: int, rng: np.random.Generator) -> Array:
    """Largest differences of mean ranks, methods permuted by unit; shape [permutations]."""
    units, methods = sums.shape
    means = np.zeros((permutations, methods))
    for unit in range(units):
        order = np.argsort(rng.random((permutations, methods)), axis=1)
        means += sums[unit][order]
    return np.asarray(np.ptp(means, axis=1))


def _p_of(spans: Array, gaps: Array) -> Array:
    """How often a span is at least as large, what was observed counted in."""
    ordered = np.sort(spans)
    as_large = len(spans) - np.searchsorted(ordered, gaps - _ROUNDING)
    return np.asarray((1 + as_large) / (1 + len(spans)))


def _critical(spans: Array, alpha: float) -> float:
    """The smallest span that is significant; infinite if none is."""
    unique = np.unique(np.round(spans, 9))
    significant = unique[_p_of(spans, unique) <= alpha]
    return float(significant[0]) if len(significant) else math.inf


def mean_over_units(
    values: Array, units: Sequence[str], *, alpha: float = 0.05
) -> tuple[float, float, float]:
    """Return the mean of the units' means, with its interval.

    Parameters
    ----------
    values
        A value for each cell, shape [n]; NaN is left out.
    units
        The unit of each cell.
    alpha
        The interval, Student's t over the units' means, has level ``1 - alpha``.

    Returns
    -------
    tuple
        Mean, and ends of the interval: NaN for one unit.

    Examples
    --------
    >>> from headtool.analysis.ranking import mean_over_units
    >>> [round(x, 3) for x in mean_over_units([1, 3, 4], ["a", "a", "b"])]
    [3.0, -9.706, 15.706]
    """
    given = np.asarray(values, dtype=np.float64)
    labels, known = np.asarray(units, dtype=str), ~np.isnan(given)
    means = np.array([given[known & (labels == u)].mean() for u in np.unique(labels[known])])
    if len(means) == 0:
        return math.nan, math.nan, math.nan
    mean = float(means.mean())
    if len(means) < 2:
        return mean, math.nan, math.nan
    half = float(t.ppf(1 - alpha / 2, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means)))
    return mean, mean - half, mean + half
