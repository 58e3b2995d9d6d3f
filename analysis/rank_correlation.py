"""Pearson, Spearman and Kendall correlation of many pairs of vectors at once.

Each function takes arrays [R, M] (one of them may be [1, M]) and correlates row by row: R
resamples or permutations cost a few array operations instead of R calls. NaN where either vector
is constant or holds a NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from headtool.metrics.base import Array, ratio

__all__ = ["COEFFICIENTS", "in_orders", "is_constant", "kendall", "pearson", "spearman"]

# Relative to the largest value: values that differ by less are equal but for rounding.
_ROUNDING = 1e-12
_BLOCK_ROWS = 512


def is_constant(values: Array) -> NDArray[np.bool_]:
    """Return whether the last axis of finite values holds one value only, up to rounding."""
    spread = values.max(axis=-1) - values.min(axis=-1)
    return np.asarray(spread <= _ROUNDING * np.abs(values).max(axis=-1))


def pearson(x: Array, y: Array) -> Array:
    """Return the product-moment correlation of each row, shape [R]; NaN for a constant row.

    Parameters
    ----------
    x, y
        Shapes [R, M]; one of them may be [1, M].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.rank_correlation import pearson
    >>> pearson(np.array([[1.0, 2, 3], [1, 1, 1]]), np.array([[1.0, 3, 2]]))
    array([0.5, nan])
    """
    x, y = _centred(_usable(x)), _centred(_usable(y))
    spread = np.sqrt((x * x).sum(axis=1)) * np.sqrt((y * y).sum(axis=1))
    return np.clip(ratio((x * y).sum(axis=1), spread), -1.0, 1.0)


def spearman(x: Array, y: Array) -> Array:
    """Return Spearman's rho of each row, shape [R]: Pearson's correlation of midranks.

    Parameters
    ----------
    x, y
        Shapes [R, M]; one of them may be [1, M].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.rank_correlation import spearman
    >>> spearman(np.array([[1.0, 2, 9]]), np.array([[4.0, 5, 6]]))
    array([1.])
    """
    return pearson(rankdata(_usable(x), axis=1), rankdata(_usable(y), axis=1))


def kendall(x: Array, y: Array) -> Array:
    """Return Kendall's tau-b of each row, shape [R].

    ``(concordant - discordant) / sqrt((pairs - tied in x) (pairs - tied in y))`` over all pairs of
    heads (Kendall 1945).

    Parameters
    ----------
    x, y
        Shapes [R, M]; one of them may be [1, M].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.rank_correlation import kendall
    >>> kendall(np.array([[1.0, 2, 3, 4]]), np.array([[1.0, 2, 4, 3]])).round(3)
    array([0.667])
    """
    ranks_x, ranks_y = _dense_ranks(_usable(x)), _dense_ranks(_usable(y))
    untied = np.sqrt(_untied_pairs(ranks_x)) * np.sqrt(_untied_pairs(ranks_y))
    return _tau(ranks_x, ranks_y, untied)


def _tau(ranks_x: NDArray[np.int16], ranks_y: NDArray[np.int16], untied: Array) -> Array:
    """Kendall's tau-b from ranks; `untied` is the geometric mean of the pairs without ties."""
    surplus = np.empty(max(len(ranks_x), len(ranks_y)))
    for start in range(0, len(surplus), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        surplus[rows] = _concordant_surplus(
            ranks_x if len(ranks_x) == 1 else ranks_x[rows],
            ranks_y if len(ranks_y) == 1 else ranks_y[rows],
        )
    return np.clip(ratio(surplus, untied), -1.0, 1.0)


COEFFICIENTS: dict[str, Callable[[Array, Array], Array]] = {
    "pearson": pearson,
    "spearman": spearman,
    "kendall": kendall,
}


def in_orders(x: Array, y: Array, orders: NDArray[np.int64]) -> dict[str, Array]:
    """Return all coefficients of one vector with another in many orders, by name, each [R].

    They are those of `COEFFICIENTS`, to the bit. Ranks move with their values, so that one ranking
    serves all orders.

    Parameters
    ----------
    x, y
        Shape [M] each.
    orders
        Orders of the second, shape [R, M].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.rank_correlation import in_orders
    >>> one, other = np.array([1.0, 2, 9]), np.array([4.0, 5, 6])
    >>> in_orders(one, other, np.array([[0, 1, 2], [2, 1, 0]]))["spearman"]
    array([ 1., -1.])
    """
    x, y = _usable(x[None]), _usable(y[None])
    mid_x, mid_y = rankdata(x, axis=1), rankdata(y, axis=1)
    ranks_x, ranks_y = _dense_ranks(x), _dense_ranks(y)
    untied = np.sqrt(_untied_pairs(ranks_x)) * np.sqrt(_untied_pairs(ranks_y))
    return {
        "pearson": pearson(x, y[0, orders]),
        "spearman": pearson(mid_x, mid_y[0, orders]),
        "kendall": _tau(ranks_x, ranks_y[0, orders], np.broadcast_to(untied, len(orders))),
    }


def _usable(values: Array) -> Array:
    """Rows without a correlation (constant, or not all finite) as exact zeros."""
    finite = np.isfinite(values).all(axis=1, keepdims=True)
    values = np.where(finite, values, 0.0)
    return np.where(is_constant(values)[:, None], 0.0, values)


def _centred(values: Array) -> Array:
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def _dense_ranks(values: Array) -> NDArray[np.int16]:
    """Ranks from 0, equal for ties and without gaps."""
    return (rankdata(values, method="dense", axis=1) - 1).astype(np.int16)


def _untied_pairs(ranks: NDArray[np.int16]) -> Array:
    rows, count = ranks.shape
    cells = ranks.astype(np.int64) + count * np.arange(rows)[:, None]
    tied = np.bincount(cells.ravel(), minlength=rows * count).reshape(rows, count)
    return np.asarray((count * (count - 1) - (tied * (tied - 1)).sum(axis=1)) / 2)


def _concordant_surplus(x: NDArray[np.int16], y: NDArray[np.int16]) -> Array:
    """Concordant less discordant pairs of each row; heads come first, so that rows vectorise."""
    x, y = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
    surplus = np.zeros(max(x.shape[1], y.shape[1]))
    for head in range(len(x) - 1):
        agreement = np.sign(x[head + 1 :] - x[head]) * np.sign(y[head + 1 :] - y[head])
        surplus += agreement.sum(axis=0, dtype=np.int64)
    return surplus
