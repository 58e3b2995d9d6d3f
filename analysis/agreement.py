"""Do methods rank the same heads high? Pairs of methods, and all of them together.

Only the ranks of heads are compared: scores of different methods have different units. Two p-values
go with every number, as in `head_permutation`: any order of the heads as alternative, and orders
within layers only, because methods that agree on nothing but which layers matter agree as well.

References
----------
Kendall (1945), The treatment of ties in ranking problems; Kendall & Babington Smith (1939), The
problem of m rankings.
Bonett & Wright (2000), Sample size requirements for estimating Pearson, Kendall and Spearman
correlations.
Webber, Moffat & Zobel (2010), A similarity measure for indefinite rankings.
Corsi & Urbano (2024), The treatment of ties in rank-biased overlap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from headtool.analysis.head_permutation import head_orders, permutation_p
from headtool.analysis.rank_correlation import kendall, spearman
from headtool.errors import HeadtoolError
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "agreement",
    "concordance",
    "expected_overlap",
    "kendall_w",
    "rank_biased_overlap",
]


PERSISTENCE = 0.9
"""Rank-biased overlap's p: the first ten ranks have 86% of the weight (Webber et al. 2010)."""

# Far above rounding, far below what a swap of two heads changes.
_TIE = 1e-11


def agreement(
    scores: Mapping[str, Array],
    layers: NDArray[np.int64],
    *,
    alpha: float = 0.05,
    permutations: int = 10_000,
    rng: np.random.Generator | int = 0,
) -> pd.DataFrame:
    """Compare the rankings of every pair of methods.

    Parameters
    ----------
    scores
        Scores [M] of the same heads by method; higher means more important.
    layers
        A number per head, equal for heads of one attention site, shape [M].
    alpha
        Level of the intervals, which are over heads: they suppose that heads are a random sample.
        ``tanh(atanh(r) +- z s)`` with ``s^2 = (1 + r^2 / 2) / (M - 3)`` for Spearman's rho and
        ``0.437 / (M - 4)`` for Kendall's tau (Bonett & Wright 2000).
    permutations
        Orders of the heads behind the p-values; all orders where there are no more.
    rng
        Generator, or a seed.

    Returns
    -------
    pandas.DataFrame
        The table ``agreement``, a row per pair. NaN where a method gives all heads one score.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.agreement import agreement
    >>> scores = {"a": np.array([4.0, 3, 2, 1]), "b": np.array([4.0, 3, 1, 2])}
    >>> agreement(scores, np.zeros(4, int))[["tau_b", "tau_b_p", "rbo"]].round(3)
       tau_b  tau_b_p    rbo
    0  0.667    0.333  0.973
    """
    _check(scores, layers)
    generator = np.random.default_rng(rng)
    rows = []
    for (name_x, x), (name_y, y) in itertools.combinations(scores.items(), 2):
        row: dict[str, object] = {"method_x": name_x, "method_y": name_y, "heads": len(x)}
        tau, rho = float(kendall(x[None], y[None])[0]), float(spearman(x[None], y[None])[0])
        row["tau_b"], row["spearman"] = tau, rho
        kendall_variance = 0.437 / (len(x) - 4) if len(x) > 4 else math.inf
        spearman_variance = (1 + rho**2 / 2) / (len(x) - 3) if len(x) > 3 else math.inf
        row["tau_b_low"], row["tau_b_high"] = _interval(tau, kendall_variance, alpha)
        row["spearman_low"], row["spearman_high"] = _interval(rho, spearman_variance, alpha)
        kernel = _overlap_kernel(x, y, PERSISTENCE)
        row["rbo"] = float(np.trace(kernel))
        row["rbo_expected"] = float(kernel.mean() * len(x))
        for suffix, groups in (("_p", None), ("_p_within_layers", layers)):
            p = permutation_p(x, y, layers=groups, permutations=permutations, rng=generator)
            row["tau_b" + suffix], row["spearman" + suffix] = p["kendall"], p["spearman"]
            row["rbo" + suffix] = _kernel_p(kernel, groups, permutations, generator)
        rows.append(row)
    return TABLES["agreement"].frame(rows)


def concordance(
    scores: Mapping[str, Array],
    layers: NDArray[np.int64],
    *,
    permutations: int = 10_000,
    rng: np.random.Generator | int = 0,
) -> pd.DataFrame:
    """Return Kendall's W of all methods with one-sided permutation p-values.

    Every method's ranks are permuted for themselves; p is ``(c + 1) / (permutations + 1)``.

    Parameters
    ----------
    scores, layers, permutations, rng
        As for :func:`agreement`.

    Returns
    -------
    pandas.DataFrame
        The table ``concordance``, one row; none for fewer than two methods.
    """
    _check(scores, layers)
    rows = []
    if len(scores) > 1:
        matrix = np.stack(list(scores.values()))
        observed = kendall_w(matrix)
        row = {"methods": len(scores), "heads": matrix.shape[1], "w": observed}
        generator = np.random.default_rng(rng)
        ranks = rankdata(matrix, axis=1)
        squares = _squares(ranks.sum(axis=0)[None])[0]
        for suffix, groups in (("w_p", np.zeros_like(layers)), ("w_p_within_layers", layers)):
            row[suffix] = math.nan
            if not math.isnan(observed) and np.bincount(groups).max() > 1:
                totals = np.broadcast_to(ranks[0], (permutations, ranks.shape[1])).copy()
                for other in ranks[1:]:
                    keys = generator.random((permutations, len(groups)))
                    place = np.argsort(groups, kind="stable")
                    totals[:, place] += other[np.argsort(groups + keys, axis=1)]
                reached = np.count_nonzero(_squares(totals) >= squares * (1 - _TIE))
                row[suffix] = (reached + 1) / (permutations + 1)
        rows.append(row)
    return TABLES["concordance"].frame(rows)


def kendall_w(scores: Array) -> float:
    """Return Kendall's coefficient of concordance of m rankings of M heads, corrected for ties.

    ``W = 12 S / (m^2 (M^3 - M) - m sum_j T_j)``, S the sum of squared deviations of the heads' rank
    sums and ``T_j = sum (t^3 - t)`` over the groups of t tied heads of ranking j. 1 means equal
    rankings, 0 rank sums that are all the same. NaN where every ranking is one tie.

    Parameters
    ----------
    scores
        Shape [m, M].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.agreement import kendall_w
    >>> kendall_w(np.array([[1.0, 2, 3], [1, 2, 3], [2, 1, 3]])).__round__(3)
    0.778
    """
    m, n = scores.shape
    ranks = rankdata(scores, axis=1)
    tied = 0.0
    for row in ranks:
        counts = np.unique(row, return_counts=True)[1].astype(np.float64)
        tied += float((counts**3 - counts).sum())
    most = m**2 * (n**3 - n) - m * tied
    return float(12 * _squares(ranks.sum(axis=0)[None])[0] / most) if most > 0 else math.nan


def rank_biased_overlap(x: Array, y: Array, *, persistence: float = PERSISTENCE) -> float:
    """Return the extrapolated rank-biased overlap of two complete rankings.

    ``sum_d (1 - p) p^(d-1) A_d + p^M`` over depths d = 1 .. M, ``A_d`` the share of heads that the
    first d of both rankings have in common (Webber et al. 2010, eq. 32 at full depth, where A is
    1). Ties are broken in every possible way and the results averaged (RBO^a of Corsi & Urbano
    2024), so that two equal rankings with ties have less than 1.

    Parameters
    ----------
    x, y
        Scores of the same M heads; the highest is ranked first.
    persistence
        p in (0, 1); the larger, the deeper it looks.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.agreement import rank_biased_overlap
    >>> overlap = rank_biased_overlap(np.array([3.0, 2, 1]), np.array([2.0, 3, 1]), persistence=0.5)
    >>> round(overlap, 3)
    0.5
    """
    if not 0 < persistence < 1:
        raise HeadtoolError(f"`persistence` must be between 0 and 1, got {persistence:g}")
    return float(np.trace(_overlap_kernel(x, y, persistence)))


def expected_overlap(x: Array, y: Array, *, persistence: float = PERSISTENCE) -> float:
    """Return the mean of :func:`rank_biased_overlap` over all orders of the heads.

    Parameters
    ----------
    x, y
        Scores of the same M heads, shape [M].
    persistence
        As for :func:`rank_biased_overlap`.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.agreement import expected_overlap
    >>> x = np.array([3.0, 2, 1])
    >>> round(expected_overlap(x, x, persistence=0.5), 3)
    0.583
    """
    return float(_overlap_kernel(x, y, persistence).mean() * len(x))


def _overlap_kernel(x: Array, y: Array, persistence: float) -> Array:
    """K[i, j]: what a head ranked as i by x and as j by y contributes to rank-biased overlap."""
    n = len(x)
    depth = np.arange(1, n + 1)
    weight = (1 - persistence) * persistence ** (depth - 1.0)
    weight[-1] += persistence**n
    return np.asarray((_among_first(x) * (weight / depth)) @ _among_first(y).T)


def _among_first(scores: Array) -> Array:
    """Probability that a head is among the first d, ties broken at random; [M, d = 1 .. M]."""
    first = rankdata(-scores, method="min")[:, None]
    last = rankdata(-scores, method="max")[:, None]
    depth = np.arange(1, len(scores) + 1)
    return np.asarray(np.clip((depth - first + 1) / (last - first + 1), 0.0, 1.0))


def _kernel_p(
    kernel: Array, groups: NDArray[np.int64] | None, permutations: int, rng: np.random.Generator
) -> float:
    """Two-sided permutation p of the kernel's trace."""
    layers = np.zeros(len(kernel), dtype=np.int64) if groups is None else groups
    if np.bincount(layers).max() < 2:
        return math.nan
    orders, exact = head_orders(layers, permutations=permutations, rng=rng)
    null = kernel[np.arange(len(kernel)), orders].sum(axis=1)
    observed = np.trace(kernel)
    above = np.count_nonzero(null >= observed - _TIE)
    below = np.count_nonzero(null <= observed + _TIE)
    smaller = min(above, below) / len(null)
    if not exact:  # random orders are joined by the observed one
        smaller = (min(above, below) + 1) / (len(null) + 1)
    return float(min(1.0, 2 * smaller))


def _interval(r: float, variance: float, alpha: float) -> tuple[float, float]:
    if math.isnan(r):
        return math.nan, math.nan
    if abs(r) == 1:
        return r, r
    if math.isinf(variance):
        return -1.0, 1.0
    reach = float(norm.isf(alpha / 2)) * math.sqrt(variance)
    return math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach)


def _squares(totals: Array) -> Array:
    """Sum of squared deviations from the mean of each row."""
    return np.asarray(((totals - totals.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))


def _check(scores: Mapping[str, Array], layers: NDArray[np.int64]) -> None:
    for name, values in scores.items():
        if values.shape != layers.shape:
            raise HeadtoolError(
                f"'{name}' scores {len(values)} heads and not {len(layers)}; rankings are compared "
                "over the same heads"
            )
        if not np.isfinite(values).all():
            raise HeadtoolError(
                f"'{name}' leaves {np.count_nonzero(~np.isfinite(values))} heads without a score; "
                "rankings are compared over the same heads"
            )
