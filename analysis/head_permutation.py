"""Would heads at random correlate as much? Permutation tests over heads.

Free permutation breaks every link between two data sets, the layer of a head included. Its null
hypothesis is that importance on one data set says nothing about importance on the other. Because
layers differ in importance (last layers, cross attention), it is false for almost any pair of
data sets, also where heads of a layer are interchangeable. Permutation within layers keeps what
layers have in common and asks what is left: do the same heads *of a layer* matter?

p-values are two-sided, twice the smaller one-sided one: the null distribution within layers is not
centred on zero but on the correlation between layers.

References
----------
Phipson & Smyth (2010), Permutation p-values should never be zero.
Nichols & Holmes (2002), Nonparametric permutation tests for functional neuroimaging, on
exchangeability blocks.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.rank_correlation import COEFFICIENTS, in_orders
from headtool.metrics.base import Array

__all__ = ["head_orders", "permutation_p"]

# Far above rounding, far below what a swap of two heads changes.
_TIE = 1e-11


def permutation_p(
    x: Array,
    y: Array,
    *,
    layers: NDArray[np.int64] | None = None,
    permutations: int = 10_000,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return two-sided permutation p-values of the three coefficients.

    Exact, over all orders of the heads, where there are at most `permutations` of them;
    ``(c + 1) / (permutations + 1)`` for random orders else, c those at least as extreme.

    Parameters
    ----------
    x, y
        Importance of the same M heads on two data sets.
    layers
        A number per head; heads of equal numbers are exchanged. None: all heads are.
    permutations
        Number of random orders.
    rng
        The source of randomness.

    Returns
    -------
    dict
        ``pearson``, ``spearman`` and ``kendall``: p-values, above 0; NaN where the coefficient is
        undefined, or no two heads share a layer.
    """
    groups = np.zeros(len(x), dtype=np.int64) if layers is None else layers
    if np.bincount(groups).max() < 2:
        return dict.fromkeys(COEFFICIENTS, math.nan)
    orders, exact = head_orders(groups, permutations=permutations, rng=rng)
    result = {}
    for name, null in in_orders(x, y, orders).items():
        observed = COEFFICIENTS[name](x[None], y[None])[0]
        if np.isnan(observed):
            result[name] = math.nan
            continue
        above = np.count_nonzero(null >= observed - _TIE)
        below = np.count_nonzero(null <= observed + _TIE)
        # All orders include the one observed; random ones are joined by it.
        smaller = min(above, below) / len(null)
        if not exact:
            smaller = (min(above, below) + 1) / (len(null) + 1)
        result[name] = min(1.0, 2 * smaller)
    return result


def head_orders(
    groups: NDArray[np.int64], *, permutations: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], bool]:
    """Return orders of the heads that exchange them within groups.

    Parameters
    ----------
    groups
        A number per head, equal for heads that are exchanged, shape [M].
    permutations
        Number of random orders; all orders are returned where there are no more.
    rng
        The source of randomness.

    Returns
    -------
    orders : ndarray
        Shape [R, M]. In each row, position i takes the value of head ``order[i]``, of the same
        group.
    exact : bool
        Whether these are all orders.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.head_permutation import head_orders
    >>> groups, rng = np.array([0, 0, 1]), np.random.default_rng(0)
    >>> orders, exact = head_orders(groups, permutations=10, rng=rng)
    >>> orders.tolist(), exact
    ([[0, 1, 2], [1, 0, 2]], True)
    """
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    if math.prod(math.factorial(len(heads)) for heads in members) <= permutations:
        every = itertools.product(*(itertools.permutations(heads) for heads in members))
        joined = np.array([list(itertools.chain(*parts)) for parts in every], dtype=np.int64)
        exact = True
    else:
        keys = rng.random((permutations, len(groups)))
        joined = np.argsort(groups + keys, axis=1)
        exact = False
    orders = np.empty_like(joined)
    orders[:, np.concatenate(members)] = joined
    return orders, exact
