"""Noise ceiling: how well importance could correlate, given how noisy it is.

Scores from few examples are noisy, and noise lowers every correlation. The split-half reliability
says by how much: split the examples at random, score the heads on both halves, and correlate. The
Spearman-Brown formula turns the reliability of half of the data into that of all of it. Dividing a
correlation by the geometric mean of the two reliabilities estimates the correlation that an
unlimited number of examples would show.

References
----------
Spearman (1904), The proof and measurement of association between two things.
Spearman (1910), Correlation calculated from faulty data; Brown (1910), Some experimental results
in the correlation of mental abilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from headtool.analysis.importance import Importance
from headtool.analysis.rank_correlation import pearson
from headtool.metrics.base import Array

__all__ = ["MIN_RELIABILITY", "disattenuate", "spearman_brown", "split_half_reliability"]

MIN_RELIABILITY = 0.3


def spearman_brown(reliability: float, factor: float = 2.0) -> float:
    """Return the reliability of `factor` times as many examples.

    ``factor r / (1 + (factor - 1) r)``; NaN where the denominator is not positive.

    Parameters
    ----------
    reliability
        Reliability of the scores.
    factor
        How many times as many examples; 2 for the whole from its halves.

    Examples
    --------
    >>> from headtool.analysis.reliability import spearman_brown
    >>> round(spearman_brown(0.5), 3)
    0.667
    """
    denominator = 1 + (factor - 1) * reliability
    return factor * reliability / denominator if denominator > 0 else math.nan


def split_half_reliability(
    data: Importance,
    *,
    splits: int,
    rng: np.random.Generator,
    coefficient: Callable[[Array, Array], Array] = pearson,
) -> float:
    """Return the reliability of the scores on all examples.

    The Pearson correlation over heads between the scores on two random halves of the examples,
    averaged over the splits and stepped up by Spearman-Brown. 1 means no noise, 0 nothing but
    noise; it may come out negative. NaN for scores without examples, and where a score is
    undefined or the same for all heads.

    Parameters
    ----------
    data
        Importance on one data set.
    splits
        Number of random splits. Those on which a half has no correlation are left out.
    rng
        The source of randomness.
    coefficient
        Correlates halves row by row; `rank_correlation.spearman` for the reliability of ranks.
    """
    if data.rescore is None or np.isnan(pearson(data.scores[None], data.scores[None])[0]):
        return math.nan
    r = np.concatenate([coefficient(*halves) for halves in data.halves(splits=splits, rng=rng)])
    defined = r[~np.isnan(r)]
    return spearman_brown(float(defined.mean())) if len(defined) else math.nan


def disattenuate(
    r: float, reliability_x: float, reliability_y: float, *, minimum: float = MIN_RELIABILITY
) -> float:
    """Return the correlation without the effect of noise, ``r / sqrt(r_xx r_yy)``.

    NaN where a reliability is unknown or below the minimum: the quotient of two noisy small numbers
    means nothing. May exceed 1 by sampling error; it is not clipped, which would hide that.
    Assumes that the noise of the two data sets is independent: they share no examples.

    Parameters
    ----------
    r
        The observed correlation.
    reliability_x, reliability_y
        Reliabilities of the two sets of scores.
    minimum
        Least reliability with which to correct.

    Examples
    --------
    >>> from headtool.analysis.reliability import disattenuate
    >>> round(disattenuate(0.42, 0.6, 0.7), 3)
    0.648
    """
    if not (reliability_x >= minimum and reliability_y >= minimum):  # NaN is not enough either
        return math.nan
    return r / math.sqrt(reliability_x * reliability_y)
