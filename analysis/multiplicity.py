"""Corrections for testing many heads at once, and how many resamples they need.

The family is all heads of a sweep. Westfall and Young's step-down keeps the family-wise error rate
and uses the dependence between heads, which the shared resamples show: heads that change the same
examples cost little more than one of them. It is exact if the whole and all unimportant masked
models are exchangeable within examples. With "no mean difference" alone it is asymptotic, since
swaps keep the covariances between heads but not the skewness: in the worst case that we could
build, two discordant examples a head with gains shared by all 72 heads and losses by none, its
error rate at .05 was .06 to .08 (simulated). Holm assumes nothing about dependence;
Benjamini-Hochberg keeps the false discovery rate under positive dependence, Benjamini-Yekutieli
under any.

References
----------
Westfall & Young (1993), Resampling-Based Multiple Testing, algorithm 2.8.
Ge, Dudoit & Speed (2003), Resampling-based multiple testing for microarray data analysis.
Holm (1979), A simple sequentially rejective multiple test procedure.
Benjamini & Hochberg (1995), Controlling the false discovery rate; Benjamini & Yekutieli (2001), The
control of the false discovery rate in multiple testing under dependency.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.stats import norm

from headtool.analysis.significance import PairedTests
from headtool.errors import unknown
from headtool.metrics.base import Array

__all__ = [
    "CORRECTIONS",
    "DEFAULT_RESAMPLES",
    "Correction",
    "adjust",
    "check_correction",
    "default_resamples",
    "first_level",
    "resamples_needed",
    "step_down",
]

Correction = Literal["westfall-young", "holm", "bh", "by", "none"]
CORRECTIONS: tuple[Correction, ...] = ("westfall-young", "holm", "bh", "by", "none")
DEFAULT_RESAMPLES = 10_000


def check_correction(name: str) -> Correction:
    """Return the correction of that name; unknown ones are an error with the nearest name."""
    found = next((known for known in CORRECTIONS if known == name), None)
    if found is None:
        raise unknown("correction", name, CORRECTIONS)
    return found


def adjust(p: Array, correction: Correction) -> Array:
    """Return p-values corrected for their number, shape [M].

    Parameters
    ----------
    p
        Raw p-values. NaN marks heads that were not tested; they stay NaN and do not count.
    correction
        ``holm``, ``bh``, ``by`` or ``none``. ``westfall-young`` needs :func:`step_down` instead.

    Raises
    ------
    ValueError
        For ``westfall-young``.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.multiplicity import adjust
    >>> adjust(np.array([0.01, 0.04, np.nan, 0.03]), "holm").round(2)
    array([0.03, 0.06,  nan, 0.06])
    """
    if correction == "westfall-young":
        raise ValueError("westfall-young works on resamples: use step_down")
    tested = ~np.isnan(p)
    adjusted = p.copy()
    if correction != "none" and tested.any():
        adjusted[tested] = _holm(p[tested]) if correction == "holm" else _fdr(p[tested], correction)
    return adjusted


# Not by multipletests of statsmodels, which collects garbage at every call: a tenth of a second and
# more with a model in memory, some twenty times a comparison.
def _holm(p: Array) -> Array:
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return adjusted


def _fdr(p: Array, correction: Correction) -> Array:
    from statsmodels.stats.multitest import fdrcorrection

    corrected = fdrcorrection(p, method="indep" if correction == "bh" else "negcorr")[1]
    return np.asarray(corrected, dtype=np.float64)


def step_down(tests: PairedTests) -> Array:
    """Return Westfall and Young's step-down adjusted p-values, shape [M].

    With statistics sorted from the most extreme, the j-th adjusted p-value is the share of
    resamples in which the largest statistic among heads j, j+1, ... reaches the observed j-th one,
    made monotone. On standardised deltas this is max-T. On minus the McNemar p-values it is min-P
    with exact marginal p-values: heads with too few discordant examples to ever reach a small p
    cost the others nothing. Never below the raw p-value.

    Parameters
    ----------
    tests
        Result of ``paired_tests(..., joint=True)``; heads with a NaN p-value are left out.
    """
    if tests.null is None:
        raise ValueError("step_down needs paired_tests(..., joint=True)")
    tested = np.flatnonzero(~np.isnan(tests.p))
    adjusted = np.full(len(tests.p), np.nan)
    if len(tested) == 0:
        return adjusted
    order = tested[np.argsort(-tests.statistic[tested], kind="stable")]
    largest = np.maximum.accumulate(tests.null[:, order[::-1]], axis=1)[:, ::-1]
    reached = (largest >= tests.statistic[order]).sum(axis=0)
    p = reached / len(largest) if tests.exact else (reached + 1) / (len(largest) + 1)
    if len(order) == 1:
        p = tests.p[order]  # nothing to correct for; the raw p-value may be exact
    adjusted[order] = np.maximum.accumulate(np.maximum(p, tests.p[order]))
    return adjusted


def resamples_needed(correction: Correction, alpha: float, n_tests: int) -> int:
    """Return the R below which a single effect could never be significant.

    The smallest Monte Carlo p-value is 1 / (R + 1). Holm and Benjamini-Hochberg compare the
    smallest one with alpha / M, Benjamini-Yekutieli with alpha / (M (1 + 1/2 + ... + 1/M)).

    Parameters
    ----------
    correction
        The correction.
    alpha
        Level of the family, in (0, 1).
    n_tests
        Number of tests M.

    Examples
    --------
    >>> from headtool.analysis.multiplicity import resamples_needed
    >>> resamples_needed("holm", 0.01, 288), resamples_needed("westfall-young", 0.01, 288)
    (28799, 99)
    """
    return max(0, math.ceil(round(1 / _first_threshold(correction, alpha, n_tests), 6)) - 1)


def default_resamples(correction: Correction, alpha: float, n_tests: int) -> int:
    """Return `DEFAULT_RESAMPLES`, raised to the next multiple where the correction needs it.

    Parameters
    ----------
    correction, alpha, n_tests
        As for :func:`resamples_needed`.

    Examples
    --------
    >>> from headtool.analysis.multiplicity import default_resamples
    >>> default_resamples("holm", 0.05, 32), default_resamples("holm", 0.01, 288)
    (10000, 30000)
    """
    needed = resamples_needed(correction, alpha, n_tests)
    return DEFAULT_RESAMPLES * max(1, math.ceil(needed / DEFAULT_RESAMPLES))


def first_level(tests: PairedTests, correction: Correction, alpha: float) -> float:
    """Return the raw level at which a single effect would be declared significant.

    For Westfall-Young read off the resamples: the level of the critical value of the largest
    statistic over all heads. Later steps are less strict, so this is the level to plan with.

    Parameters
    ----------
    tests
        The tests of M heads.
    correction
        The correction.
    alpha
        Level of the family, in (0, 1).

    Returns
    -------
    float
        A level of raw p-values, in (0, alpha].
    """
    tested = ~np.isnan(tests.p)
    bonferroni = _first_threshold(correction, alpha, max(1, int(tested.sum())))
    if correction != "westfall-young" or tests.null is None or not tested.any():
        return bonferroni
    lowest = alpha / max(1, int(tested.sum()))
    largest = tests.null[:, tested].max(axis=1)
    critical = float(np.quantile(largest, 1 - alpha, method="higher"))
    level = -critical if tests.test.startswith("mcnemar") else 2 * float(norm.sf(critical))
    return min(alpha, max(lowest, level))


def _first_threshold(correction: Correction, alpha: float, n_tests: int) -> float:
    if correction in ("none", "westfall-young") or n_tests == 0:
        return alpha
    if correction == "by":
        return alpha / (n_tests * sum(1 / rank for rank in range(1, n_tests + 1)))
    return alpha / n_tests
