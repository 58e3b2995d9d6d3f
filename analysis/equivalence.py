"""Can this head be removed? Equivalence and non-inferiority within a margin, and the verdicts.

"Not significant" is not "no effect": too few examples make everything insignificant. A head may go
if its removal is shown to cost less than a margin that was declared beforehand.

Two one-sided tests (Schuirmann 1987): the p-value of equivalence is the larger of those against
"delta <= -margin" and "delta >= margin". Non-inferiority is one of them alone, on the side that
hurts. Which one-sided test depends on the metric's form:

- shares of right answers: Tango's score test, whose variance is the one that is most likely under
  the hypothesis. It stays meaningful where a head changes few examples or none: with none
  changed of N, z = sqrt(N m / (1 - m)), so that 100 examples do not show that a head costs less
  than one percent, and 1,000 do. A variance estimated from such differences would be zero.
- everything else: a bound on the mean of per-example costs that holds where a few examples carry
  most of the cost, see `rare_costs`. For functions of sums (BLEU, F1) the costs are the
  jackknife's pseudo-values, and the bound is asymptotic.

`one_sided_p` is the plain t test, (delta - bound) / jackknife standard error with N - 1 degrees of
freedom; for a mean of per-example values the paired t-test. Under skew it says "removable" far too
often, and serves to tell what the other bound holds back.

References
----------
Schuirmann (1987), A comparison of the two one-sided tests procedure and the power approach.
Tango (1998), Equivalence test and confidence interval for the difference in proportions for the
paired-sample design, equation 9.
Lakens (2017), Equivalence tests: a practical primer.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from scipy.stats import t as student

from headtool.analysis.paired import Paired
from headtool.analysis.rare_costs import dominated, low_cost_p
from headtool.errors import HeadtoolError
from headtool.metrics.base import Array

__all__ = [
    "DEFAULT_MARGIN",
    "VERDICTS",
    "Verdict",
    "check_margin",
    "costs_of",
    "equivalence_p",
    "held_back",
    "noninferiority_p",
    "one_sided_p",
    "plain_noninferiority_p",
    "tango_p",
    "verdicts",
]

Verdict = Literal["needed", "removable", "harmful", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("needed", "removable", "harmful", "undecided")
DEFAULT_MARGIN = 0.01  # share of the metric's scale

# Relative to the values: a standard error this small is rounding.
_NO_SPREAD = 1e-13


def check_margin(paired: Paired, margin: float | None = None) -> float:
    """Return the margin in the metric's unit: the one given, or 1% of the metric's scale.

    A margin must be below the metric's scale and below the whole model's value: a model cannot lose
    more accuracy than it has, and allowing a loss to double would be no criterion. Values
    of any sign (plain arrays) have neither limit, nor a default.

    Parameters
    ----------
    paired
        The outcomes.
    margin
        In the metric's unit; None for `DEFAULT_MARGIN` of the metric's scale.

    Raises
    ------
    HeadtoolError
        If the margin is not a positive number or makes no sense, or there is no default.
    """
    value = paired.whole_value
    if not math.isfinite(value):
        raise HeadtoolError(
            f"{paired.name} of the whole model is {value:g} on these {paired.n_examples} examples; "
            "choose another metric or more examples"
        )
    signed = paired.scale is None and bool((paired.whole < 0).any())
    limit = math.inf if signed else min(paired.length, abs(value))
    if value == 0 and paired.scale is not None and not paired.higher_is_better:
        limit = paired.length  # nothing to double: a divergence is 0 for the whole model itself
    chosen = DEFAULT_MARGIN * paired.length if margin is None else float(margin)
    if margin is None and (signed or not 0 < chosen < limit):
        raise HeadtoolError(
            f"no default margin for {paired.name}, which is {value:g} for the whole model; "
            "give a margin in its unit"
        )
    if not math.isfinite(chosen) or chosen <= 0:
        raise HeadtoolError(
            f"`margin` must be a positive number in the unit of {paired.name}, got {chosen:g}"
        )
    if chosen >= limit:
        raise HeadtoolError(
            f"a margin of {chosen:g} makes no sense for {paired.name}, which is {value:g} for the "
            f"whole model; give one below {limit:g}, such as {DEFAULT_MARGIN * limit:.2g}"
        )
    return chosen


def tango_p(
    only_first: ArrayLike, only_second: ArrayLike, n: ArrayLike, *, bound: float, greater: bool
) -> Array:
    """Return Tango's one-sided score p-values for a difference of paired proportions.

    The hypothesis is that the second proportion less the first is at most `bound` (`greater`), or
    at least `bound`. With bound 0 the statistic is McNemar's (b - c) / sqrt(b + c).

    Parameters
    ----------
    only_first, only_second
        Examples that only one of the systems gets right; any common shape.
    n
        All examples.
    bound
        The difference under the hypothesis, in (-1, 1).
    greater
        Side of the alternative.
    """
    lost, won = np.asarray(only_first, dtype=np.float64), np.asarray(only_second, dtype=np.float64)
    n = np.asarray(n, dtype=np.float64)
    # Most likely share of losses under the hypothesis: root of 2 n q^2 + linear q + constant = 0.
    linear = (2 * n - won + lost) * bound - lost - won
    constant = -lost * bound * (1 - bound)
    root = np.sqrt(np.maximum(linear**2 - 8 * n * constant, 0))
    share = np.maximum((root - linear) / (4 * n), max(0.0, -bound))
    variance = n * (2 * share + bound * (1 - bound))
    surplus = won - lost - n * bound
    z = np.where(variance > 0, surplus / np.sqrt(np.where(variance > 0, variance, 1)), 0.0)
    return np.asarray(norm.sf(z) if greater else norm.cdf(z), dtype=np.float64)


def one_sided_p(paired: Paired, bound: float, *, greater: bool) -> Array:
    """Return p-values [M] against "delta <= bound" (`greater`), or "delta >= bound".

    NaN where delta or its standard error is undefined. Where all examples differ equally the
    p-value is 2^-N, that of flipping signs.

    Parameters
    ----------
    paired
        The outcomes of M masks.
    bound
        The delta under the hypothesis, in the metric's unit.
    greater
        Side of the alternative.

    Returns
    -------
    ndarray
        Shape [M].
    """
    if paired.form == "binary":
        only_whole, only_masked = paired.discordant
        return tango_p(
            only_whole,
            only_masked,
            paired.n_examples,
            bound=bound / (paired.unit or 1.0),
            greater=greater,
        )
    distance = paired.delta - bound if greater else bound - paired.delta
    spread = paired.stderr
    size = abs(paired.whole_value) + np.abs(paired.masked_values)
    constant = spread <= _NO_SPREAD * size
    t = distance / np.where(constant, 1.0, spread)
    p = student.sf(t, paired.n_examples - 1)
    without_spread = np.where(distance > 0, 0.5 ** min(paired.n_examples, 1000), 1.0)
    return np.where(np.isnan(distance), np.nan, np.where(constant, without_spread, p))


def plain_noninferiority_p(paired: Paired, margin: float) -> Array:
    """Return what `noninferiority_p` does by Tango's test or the plain t test, shape [M].

    Parameters
    ----------
    paired
        The outcomes of M masks.
    margin
        Tolerated change, above 0, in the metric's unit.
    """
    greater = paired.higher_is_better
    return one_sided_p(paired, -margin if greater else margin, greater=greater)


def noninferiority_p(paired: Paired, margin: float) -> Array:
    """Return p-values [M] against "masking costs at least the margin".

    Parameters
    ----------
    paired
        The outcomes of M masks.
    margin
        Tolerated change, above 0, in the metric's unit.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.paired import Paired
    >>> from headtool.analysis.equivalence import noninferiority_p
    >>> whole, masked = np.ones(1000), np.ones((1, 1000))
    >>> unchanged = Paired.from_values(whole, masked, higher_is_better=True, name="accuracy")
    >>> noninferiority_p(unchanged, 0.01).round(4)
    array([0.0007])
    """
    if paired.form == "binary":
        return plain_noninferiority_p(paired, margin)
    return low_cost_p(costs_of(paired), margin)


def equivalence_p(paired: Paired, margin: float) -> Array:
    """Return TOST p-values [M] against "masking changes the metric by at least the margin".

    Parameters
    ----------
    paired
        The outcomes of M masks.
    margin
        Tolerated change, above 0, in the metric's unit.
    """
    if paired.form == "binary":
        return np.maximum(
            one_sided_p(paired, -margin, greater=True), one_sided_p(paired, margin, greater=False)
        )
    costs = costs_of(paired)
    return np.maximum(low_cost_p(costs, margin), low_cost_p(-costs, margin))


def costs_of(paired: Paired) -> Array:
    """Return what masking costs on every example in the metric's unit, shape [M, N].

    The jackknife's pseudo-values, whose mean is the delta, signed so that positive means worse: for
    a mean of per-example values simply the differences.

    Parameters
    ----------
    paired
        The outcomes of M masks on N examples.
    """
    left_out = paired.jackknife
    with np.errstate(invalid="ignore"):
        away = (paired.n_examples - 1) * (left_out.mean(axis=1, keepdims=True) - left_out)
        costs: Array = -(paired.delta[:, None] + away)
    same = (paired.differing == 0) & np.isfinite(paired.delta)
    costs[same] = 0.0  # what differs then is rounding
    return costs if paired.higher_is_better else -costs


def held_back(
    paired: Paired, p_plain: Array, verdict: ArrayLike, *, alpha: float
) -> NDArray[np.object_]:
    """Say why undecided heads are not removable that the plain t bound calls so, shape [M].

    Parameters
    ----------
    paired
        The outcomes.
    p_plain
        p-values of `plain_noninferiority_p`, corrected.
    verdict
        One of `VERDICTS` per head.
    alpha
        Level.

    Returns
    -------
    numpy.ndarray
        ``few examples dominate`` where a hundredth of the examples has half of the variance or
        more; ``too few examples`` to show a rare large cost otherwise; "" for all other heads.
    """
    reason = np.full(paired.n_masks, "", dtype=object)
    held = (np.asarray(verdict) == "undecided") & (p_plain <= alpha)
    if held.any() and paired.form != "binary":
        reason[held] = np.where(
            dominated(costs_of(paired)[held]), "few examples dominate", "too few examples"
        )
    return reason


def verdicts(
    benefit: Array, p_difference: Array, p_noninferior: Array, *, alpha: float
) -> NDArray[np.object_]:
    """Return one of `VERDICTS` per head, from p-values that are corrected already.

    - ``harmful``: masking helps significantly.
    - ``removable``: masking is shown to cost less than the margin. That holds even where the
      small cost is significant: which cost is tolerable is what the margin declares. Otherwise
      enough examples would make every head needed.
    - ``needed``: masking hurts significantly, and may hurt by more than the margin.
    - ``undecided``: none of these; more examples are needed.

    Parameters
    ----------
    benefit
        Deltas signed so that positive means better, shape [M].
    p_difference
        Two-sided p-values of the difference.
    p_noninferior
        p-values of non-inferiority.
    alpha
        Level. Each of the two families of claims has it as its error rate, needed and harmful
        being one and removable the other: together up to twice as much.
    """
    different = p_difference <= alpha  # NaN compares as False
    result = np.full(len(benefit), "undecided", dtype=object)
    result[different & (benefit < 0)] = "needed"
    result[p_noninferior <= alpha] = "removable"
    result[different & (benefit > 0)] = "harmful"
    return result
