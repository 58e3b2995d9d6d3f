"""A bound on what a head costs that holds where a few examples carry most of the cost.

Closing a head often leaves the loss of most examples alone and raises that of a few by a lot. A
sample with too few of these has too small a mean and, at the same time, too small a standard error:
at a true cost equal to the margin the t bound calls such heads cheap in .1 to .25 of the samples
instead of .05, and a correction for many heads makes it worse.

The p-value here is that of a gamma distribution (Pearson's type III) for the total cost, with one
example added that costs `top`. With costs c_i, their mean c and N examples it has

    mean N c + top,   variance sum (c_i - c)^2 + top^2,
    skewness 2 (sum (c_i - c)^3 + top^3) / variance^1.5, at least 0,

and p is the probability that it exceeds N times the margin. If h of N examples cost `top` and the
rest nothing, this is in effect the exact Poisson bound, ``P(Poisson(N margin / top) <= h)``: the
added example is the one that might have been hit and was not, as in the rule of three. If no
example stands out, it is close to the t bound. The idea is Fay and Feuer's, for sums of weighted
counts; the doubled skewness is that of a confidence distribution. p is never below that of the t
test.

`top` is the largest cost to be reckoned with. One head alone may not show it, but the others do: it
is the largest cost among the head's own examples or, if that is larger, the one that three heads of
four do not exceed. With so few examples that they need not show what befalls one in 200 (``.995^N >
.05``: fewer than 598), it is the largest cost of any head. And no p-value is below the probability
that all heads together miss one example in 200, ``.995^(N heads)``. A cost that is rarer than that,
and larger, no sample of that size can show.

References
----------
Fay & Feuer (1997), Confidence intervals for directly standardized rates: a method based on the
gamma distribution, Statistics in Medicine 16.
Hanley & Lippman-Hand (1983), If nothing goes wrong, is everything all right?
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc
from scipy.stats import norm
from scipy.stats import t as student

from headtool.metrics.base import Array

__all__ = ["RAREST", "dominated", "largest_costs", "low_cost_p", "total_cost_p"]

RAREST = 1 / 200
"""Share of examples; a cost that befalls fewer of them is not reckoned with."""

_UNSEEN = 0.05  # more probable than this, and examples alone do not show what befalls one in 200
_HEADS = 0.75  # quantile over heads
_STRAIGHT = 1e-3  # skewness below which the distribution is taken as normal
_NO_SPREAD = 1e-13  # relative to the costs: a spread this small is rounding
_FEW, _MOST = 0.01, 0.5  # so few examples with so much of the variance dominate


def largest_costs(costs: Array) -> Array:
    """Return the largest cost of one example that is to be reckoned with, for every head, [M].

    Parameters
    ----------
    costs
        What closing a head costs on an example, shape [M, N]; negative where it helps.
    """
    own: Array = np.maximum(costs.max(axis=1), 0.0)
    if not len(own):
        return own
    if (1 - RAREST) ** costs.shape[1] > _UNSEEN:
        return np.full(len(own), np.nanmax(own))
    return np.asarray(np.maximum(own, np.quantile(own, _HEADS, method="higher")))


def low_cost_p(costs: Array, margin: float) -> Array:
    """Return p-values [M] against "the mean cost is at least the margin".

    Parameters
    ----------
    costs
        As for :func:`largest_costs`; for metrics that are no means the jackknife's pseudo-values.
    margin
        In the unit of the costs.

    Returns
    -------
    numpy.ndarray
        NaN where a cost is undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.rare_costs import low_cost_p
    >>> costs = np.zeros((2, 1000))
    >>> costs[:, 0] = 2.0
    >>> low_cost_p(costs, 0.01).round(4)  # one example of 1,000: P(Poisson(5) <= 1)
    array([0.0404, 0.0404])
    """
    masks, n = costs.shape
    p = np.full(masks, np.nan)
    defined = np.isfinite(costs).all(axis=1)
    if not defined.any():
        return p
    known = costs[defined]
    mean = known.mean(axis=1)
    away = known - mean[:, None]
    squares, cubes = (away**2).mean(axis=1), (away**3).mean(axis=1)
    top = largest_costs(known)
    at_least = (1 - RAREST) ** (n * len(known))
    gamma = total_cost_p(n, mean, squares, cubes, top, margin=margin)
    spread = np.sqrt(squares / (n - 1))
    varies = spread > _NO_SPREAD * np.abs(known).max(axis=1)
    t = student.sf((margin - mean) / np.where(varies, spread, 1.0), n - 1)
    t = np.where(varies, t, np.where(mean < margin, 0.0, 1.0))
    p[defined] = np.maximum(np.maximum(gamma, t), at_least)
    return p


def total_cost_p(
    n: Array | int, mean: Array, squares: Array, cubes: Array, top: Array, *, margin: float
) -> Array:
    """Return the gamma p-values from moments; see the module's text.

    Parameters
    ----------
    n
        Examples.
    mean, squares, cubes
        Mean of the costs, and their second and third central moments, any common shape.
    top
        The largest cost to be reckoned with.
    margin
        In the unit of the costs.
    """
    variance = n * squares + top**2
    varies = variance > 0
    spread = np.sqrt(np.where(varies, variance, 1.0))
    skewness = 2 * np.maximum(n * cubes + top**3, 0.0) / spread**3
    z = (n * (margin - mean) - top) / spread
    shape = 4 / np.maximum(skewness, _STRAIGHT) ** 2
    gamma = gammaincc(shape, np.maximum(shape + np.sqrt(shape) * z, 0.0))
    p = np.where(skewness < _STRAIGHT, norm.sf(z), gamma)
    return np.asarray(np.where(varies, p, np.where(mean < margin, 0.0, 1.0)), dtype=np.float64)


def dominated(costs: Array) -> NDArray[np.bool_]:
    """Say of which heads one example in a hundred carries half of the variance or more, [M].

    Parameters
    ----------
    costs
        As for :func:`largest_costs`.
    """
    squares = np.sort((costs - costs.mean(axis=1, keepdims=True)) ** 2, axis=1)
    few = max(1, round(_FEW * costs.shape[1]))
    total = squares.sum(axis=1)
    return np.asarray((squares[:, -few:].sum(axis=1) >= _MOST * total) & (total > 0))
