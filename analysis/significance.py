"""Is a head's effect real? Two-sided p-values of paired tests, one per mask.

Which test is valid depends on what the metric is on the data (`Paired.form`):

- ``binary`` (accuracy over examples): the exact McNemar test. Differences are -1, 0 or 1, so that
  "mean difference zero" and "signs are fair coins" are the same hypothesis, and the number of
  examples that only the whole model gets right is binomial given the discordant ones.
- ``mean`` (any mean of per-example values, and loss per token or token accuracy, whose
  denominator no mask changes): sign flips of the per-example differences of the *sums* (summed
  loss, not loss per token, so that long examples count by their tokens). It is exact if whole and
  masked model are exchangeable within an example, and asymptotically valid for "mean difference
  zero" without that (Romano 1990).
- ``function`` (F1, Matthews and other correlations, BLEU, perplexity, ratios whose denominators a
  mask changes): approximate randomisation. The two systems' statistics are swapped per example
  and the metric is computed anew on both sides. Sign flips of deltas would be invalid: such a
  metric has no per-example deltas that add up. Exact under exchangeability within examples; for
  the weaker "the metric is equal" it is an approximation. Spearman's ranks are those of
  the original data.

Monte Carlo p-values are ``(c + 1) / (R + 1)``, c the resamples at least as extreme as observed
(ties count, and so do resamples on which the metric is undefined); never zero and never
anti-conservative (Phipson & Smyth 2010). Where all ``2^n`` patterns fit into R they are
enumerated, and p is the exact share, the observed pattern included.

References
----------
McNemar (1947), Note on the sampling error of the difference between correlated proportions.
Fagerland, Lydersen & Laake (2013), The McNemar test for binary matched-pairs data: mid-p and
asymptotic are better than exact conditional.
Riezler & Maxwell (2005), On some pitfalls in automatic evaluation and significance testing for MT.
Romano (1990), On the behavior of randomization tests without a group invariance assumption.
Phipson & Smyth (2010), Permutation p-values should never be zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc
from scipy.stats import binom

from headtool.analysis.paired import Paired
from headtool.analysis.resampling import Swaps, swap_deltas
from headtool.errors import HeadtoolError, unknown
from headtool.metrics.base import Array

__all__ = ["TESTS", "PairedTests", "choose_test", "mcnemar_p", "paired_tests"]

TestName = Literal["mcnemar", "mcnemar-midp", "sign-flip", "randomisation"]
TESTS: tuple[TestName, ...] = ("mcnemar", "mcnemar-midp", "sign-flip", "randomisation")


@dataclass(frozen=True, eq=False)
class PairedTests:
    """Raw p-values of all masks, and what a joint correction needs.

    Attributes
    ----------
    test
        One of `TESTS`.
    p
        Two-sided p-values, shape [M]; NaN where delta is undefined.
    statistic
        Shape [M]; larger is more extreme and comparable between masks: minus the p-value for
        McNemar, the absolute delta over its standard deviation under swaps otherwise.
    null
        The same in every shared resample, shape [R, M]; None unless `joint` was asked for.
    resamples
        Patterns that were used, R; 0 where no resampling was needed.
    exact
        Whether these were all patterns that there are.
    """

    test: TestName
    p: Array
    statistic: Array
    null: Array | None
    resamples: int
    exact: bool


def mcnemar_p(only_first: ArrayLike, only_second: ArrayLike, *, mid_p: bool = False) -> Array:
    """Return the exact two-sided McNemar p-values, ``min(1, 2 P(X <= min(b, c)))``.

    X is binomial with b + c trials and probability 1/2.

    Parameters
    ----------
    only_first, only_second
        Examples that only one of the two systems gets right, b and c; any common shape.
    mid_p
        Count the observed table with half its probability: less conservative, no longer
        guaranteed to stay below the level, in practice close to it (Fagerland et al. 2013).

    Returns
    -------
    numpy.ndarray
        p-values of that shape; 1 where no example is discordant.

    Examples
    --------
    >>> from headtool.analysis.significance import mcnemar_p
    >>> mcnemar_p([5, 2, 0], [0, 2, 0])
    array([0.0625, 1.    , 1.    ])
    """
    b, c = np.asarray(only_first, dtype=np.float64), np.asarray(only_second, dtype=np.float64)
    fewer, n = np.minimum(b, c), b + c
    # The binomial distribution function at `fewer`, as an incomplete beta function.
    p = np.minimum(1.0, 2 * betainc(np.maximum(n - fewer, 1), fewer + 1, 0.5))
    if mid_p:
        observed = binom.pmf(fewer, n, 0.5)
        p = np.where(b == c, 1 - observed / 2, p - observed)
    return np.where(n == 0, 1.0, p)


def choose_test(paired: Paired, test: str = "auto") -> TestName:
    """Return the test to use, after checking that it is valid for the metric on these data.

    Parameters
    ----------
    paired
        The outcomes.
    test
        One of `TESTS`, or ``auto`` for the sharpest that is valid.

    Raises
    ------
    HeadtoolError
        If the test is unknown or not valid for the metric.
    """
    if test == "auto":
        by_form: dict[str, TestName] = {
            "binary": "mcnemar",
            "mean": "sign-flip",
            "function": "randomisation",
        }
        return by_form[paired.form]
    found = next((name for name in TESTS if name == test), None)
    if found is None:
        raise unknown("test", test, [*TESTS, "auto"])
    if found.startswith("mcnemar") and paired.form != "binary":
        raise HeadtoolError(
            f"test '{test}' needs right or wrong per example, which {paired.name} here is not; "
            f"use {choose_test(paired)}"
        )
    if found == "sign-flip" and paired.form == "function":
        raise HeadtoolError(
            f"test 'sign-flip' is invalid for {paired.name}, which is not a mean over examples "
            "with a shared denominator; use randomisation"
        )
    return found


def paired_tests(
    paired: Paired,
    *,
    test: str = "auto",
    resamples: int = 10_000,
    rng: np.random.Generator,
    joint: bool = False,
) -> PairedTests:
    """Test every mask against the whole model; see the module's text for what is tested.

    Parameters
    ----------
    paired
        The outcomes; unchanged.
    test
        One of `TESTS`, or ``auto``.
    resamples
        Monte Carlo patterns R. Not used by McNemar unless `joint`.
    rng
        The source of randomness; all masks share the patterns.
    joint
        Also return the null distribution of all masks together, 8 R M bytes.

    Returns
    -------
    PairedTests
        Raw p-values, and the joint null if asked for.

    Raises
    ------
    HeadtoolError
        If the test is unknown or not valid for the metric.
    """
    name = choose_test(paired, test)
    if name.startswith("mcnemar"):
        return _mcnemar(paired, name, resamples=resamples, rng=rng, joint=joint)
    swaps = Swaps(paired)
    exact = 2 ** len(swaps.active) <= resamples
    observed = np.abs(paired.delta)
    extreme = np.zeros(paired.n_masks)
    kept, total = [], 0
    for block in swap_deltas(paired, swaps, resamples=resamples, rng=rng):
        size = np.where(np.isnan(block), np.inf, np.abs(block))
        extreme += (size >= observed - swaps.tolerance).sum(axis=0)
        total += len(block)
        if joint:
            kept.append(size)
    p = extreme / total if exact else (extreme + 1) / (total + 1)
    p = np.where(np.isnan(observed), np.nan, p)
    if not joint:
        return PairedTests(name, p, observed, None, total, exact)
    null = np.concatenate(kept)
    # A tie with the observed delta must stay one after the division: give it the same value.
    null = np.where(np.abs(null - observed) <= swaps.tolerance, observed, null)
    spread = _spread(null, observed)
    return PairedTests(name, p, observed / spread, null / spread, total, exact)


def _spread(null: Array, observed: Array) -> Array:
    """Return each mask's standard deviation under swaps; 1 where nothing varies.

    The observed delta is one of the swaps, so it counts too: the scale then treats it like them.
    """
    finite = np.where(np.isfinite(null), null, np.nan)
    count = np.isfinite(null).sum(axis=0) + 1
    variance = (np.nansum(finite**2, axis=0) + observed**2) / count
    return np.where(variance > 0, np.sqrt(variance), 1.0)


def _mcnemar(
    paired: Paired, name: TestName, *, resamples: int, rng: np.random.Generator, joint: bool
) -> PairedTests:
    """Exact p-values; for the joint null the exact p-value of every swapped table."""
    mid_p = name == "mcnemar-midp"
    only_whole, only_masked = paired.discordant
    p = mcnemar_p(only_whole, only_masked, mid_p=mid_p)
    if not joint:
        return PairedTests(name, p, -p, None, 0, True)
    swaps = Swaps(paired)
    n = only_whole + only_masked
    # One table of p-values for all heads: the head's first entry, then as many as it has losses.
    entries = n.astype(np.int64) + 1
    first = np.cumsum(entries) - entries
    lost = np.arange(entries.sum()) - np.repeat(first, entries)
    table = mcnemar_p(lost, np.repeat(n, entries) - lost, mid_p=mid_p)
    per_delta = paired.n_examples / (paired.unit or 1.0)
    kept = []
    for deltas in swap_deltas(paired, swaps, resamples=resamples, rng=rng):
        surplus = np.rint(deltas * per_delta)
        kept.append(-table[first + ((n - surplus) / 2).astype(np.int64)])
    null = np.concatenate(kept)
    return PairedTests(name, p, -p, null, len(null), 2 ** len(swaps.active) <= resamples)
