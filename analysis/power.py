"""How small an effect these data could show, and how many examples would settle a head.

Means and functions of sums: the power of the paired t-test with the standard deviation that the
data show (statsmodels). Accuracy: the exact power of the exact McNemar test, because with few
discordant examples the normal approximation promises effects that the test can never find, and the
number of examples by simulating tables at the upper bound of the discordance: one that was never
seen is not zero.

References
----------
Cohen (1988), Statistical Power Analysis for the Behavioral Sciences.
Guenther (1981), Sample size formulas for normal theory t tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom, norm

from headtool.analysis.equivalence import costs_of, tango_p
from headtool.analysis.paired import Paired
from headtool.analysis.rare_costs import RAREST, largest_costs, total_cost_p
from headtool.analysis.significance import mcnemar_p
from headtool.metrics.base import Array

__all__ = [
    "TARGET_POWER",
    "discordance_bound",
    "examples_needed",
    "mcnemar_power",
    "minimum_detectable_effect",
]

TARGET_POWER = 0.8

_DRAWS = 1000  # simulated tables; the standard error of a power near .8 is then .013
_BOUND = 0.95  # of the discordance
_MOST_EXAMPLES = 2.0**40
_BISECTIONS = 12  # from a factor of two to below a thousandth
_EFFECT_BISECTIONS = 18  # of [0, 1]: to 4e-6
_TAIL = 1e-10  # probability that a sum over a binomial distribution leaves out on either side


def minimum_detectable_effect(
    paired: Paired, level: float, *, power: float = TARGET_POWER
) -> Array:
    """Return the smallest true effect of each head that would be found with that power, [M].

    In the metric's unit, positive: the size of a delta. For the data's number of examples and
    the head's own variability; for accuracy the discordance is the observed one, or the effect
    itself where that is larger.

    Parameters
    ----------
    paired
        The outcomes.
    level
        Two-sided level of the single test; see `multiplicity.first_level`.
    power
        Wanted probability to find the effect.

    Returns
    -------
    numpy.ndarray
        NaN where the standard error is undefined or zero, or where no effect can be found with so
        few examples.
    """
    if paired.form == "binary":
        only_whole, only_masked = paired.discordant
        effect = _mcnemar_effect(only_whole + only_masked, paired.n_examples, level, power)
        return (paired.unit or 1.0) * effect
    from statsmodels.stats.power import TTestPower

    n = paired.n_examples
    # A number, or at some levels (.00988 with 60 examples) an array that holds it.
    standardised = np.asarray(TTestPower().solve_power(nobs=n, alpha=level, power=power)).item()
    spread = np.where(paired.stderr > 0, paired.stderr, np.nan)
    return np.asarray(spread * np.sqrt(n) * standardised, dtype=np.float64)


def mcnemar_power(effect: ArrayLike, discordance: ArrayLike, n: int, level: float) -> Array:
    """Return the exact power of the exact two-sided McNemar test.

    Sums, over the number of discordant examples, the probability of that number times the
    probability that the test then rejects.

    Parameters
    ----------
    effect
        True difference of the two shares, in [0, 1]; shape [H].
    discordance
        True share of discordant examples, at least `effect`; shape [H].
    n
        Number of examples.
    level
        Two-sided level.
    """
    effect = np.atleast_1d(np.asarray(effect, dtype=np.float64))
    discordance = np.atleast_1d(np.asarray(discordance, dtype=np.float64))
    first = np.asarray(binom.ppf(_TAIL, n, discordance))
    last = np.asarray(binom.isf(_TAIL, n, discordance))
    m = np.minimum(first[:, None] + np.arange(int((last - first).max(initial=0)) + 1), n)
    weight = np.asarray(binom.pmf(m, n, discordance[:, None]))
    weight[:, 1:][m[:, 1:] == m[:, :-1]] = 0.0  # beyond n
    occurring, where = np.unique(m, return_inverse=True)
    critical = np.asarray(binom.ppf(level / 2, occurring, 0.5))
    critical = critical - (binom.cdf(critical, occurring, 0.5) > level / 2)
    critical = critical[where].reshape(m.shape)
    share = (1 + effect / np.where(discordance > 0, discordance, 1))[:, None] / 2
    rejects = binom.cdf(critical, m, share) + binom.cdf(critical, m, 1 - share)
    return np.asarray((weight * rejects).sum(axis=1), dtype=np.float64)


def examples_needed(
    paired: Paired,
    which: NDArray[np.bool_],
    *,
    margin: float,
    level: float,
    level_noninferior: float,
    power: float = TARGET_POWER,
    rng: np.random.Generator,
) -> Array:
    """Return how many examples would settle some heads with that power, shape [M].

    The number at which the head is either significant or shown non-inferior, if its effect is the
    observed one. The discordance of accuracy is taken at its upper 95% bound (Clopper & Pearson),
    so that heads which changed nothing yet do not pass for heads that never will. For other
    metrics spread, skewness and the largest cost are the observed ones.

    It plans a sample only if the effect is known better than from these data: an observed effect
    may be off by its standard error, and where it lies close to the margin no number settles it.

    Parameters
    ----------
    paired
        The outcomes.
    which
        The heads to answer for, shape [M]; NaN for the others.
    margin
        Margin of non-inferiority in the metric's unit.
    level
        Two-sided level of the test for a difference.
    level_noninferior
        One-sided level of the non-inferiority test.
    power
        Wanted probability of a verdict.
    rng
        Source of randomness of the simulation; used for accuracy only.

    Returns
    -------
    numpy.ndarray
        Total examples; NaN where the effect or its standard error is undefined.
    """
    needed = np.full(paired.n_masks, np.nan)
    if paired.form == "binary":
        lost, won = (counts[which] for counts in paired.discordant)
        if not paired.higher_is_better:
            lost, won = won, lost
        effect = (won - lost) / paired.n_examples
        discordance = discordance_bound(lost + won, paired.n_examples)
        lose, win = (discordance - effect) / 2, (discordance + effect) / 2
        needed[which] = _simulated_examples(
            lose, win, margin / (paired.unit or 1.0), (level, level_noninferior), power, rng
        )
        return needed
    benefit, deviation = paired.benefit[which], paired.stderr[which] * np.sqrt(paired.n_examples)
    for_difference = _examples(np.abs(benefit), deviation, level / 2, power)
    for_noninferiority = _low_cost_examples(paired, which, margin, level_noninferior, power)
    fewest = np.ceil(np.minimum(for_difference, for_noninferiority))
    # Below this number not even equal signs of all examples are significant.
    fewest = np.maximum(fewest, math.ceil(-math.log2(min(level, level_noninferior))))
    needed[which] = np.where(np.isnan(benefit + deviation), np.nan, fewest)
    return needed


def discordance_bound(discordant: ArrayLike, n: int) -> Array:
    """Return the upper 95% bound of a share, having seen some of N examples (Clopper-Pearson).

    Parameters
    ----------
    discordant
        How many examples were discordant; any shape.
    n
        Out of how many, N.

    Examples
    --------
    >>> from headtool.analysis.power import discordance_bound
    >>> discordance_bound([0, 3], 300).round(4)
    array([0.0099, 0.0256])
    """
    seen = np.asarray(discordant, dtype=np.float64)
    bound = beta.ppf(_BOUND, seen + 1, np.maximum(n - seen, 1))
    return np.asarray(np.where(seen == n, 1.0, bound), dtype=np.float64)


def _low_cost_examples(
    paired: Paired, which: NDArray[np.bool_], margin: float, level: float, power: float
) -> Array:
    """Examples at which the bound on rare costs reaches the level, at moments as observed."""
    costs = costs_of(paired)
    top = largest_costs(costs)[which]
    known = costs[which]
    mean = known.mean(axis=1)
    away = known - mean[:, None]
    squares, cubes = (away**2).mean(axis=1), (away**3).mean(axis=1)

    def reached(n: Array) -> NDArray[np.bool_]:
        # A mean as unlucky as one sample in five has, and the probability to miss rare examples.
        unlucky = mean + norm.ppf(power) * np.sqrt(squares / n)
        p = total_cost_p(n, unlucky, squares, cubes, top, margin=margin)
        return np.asarray(np.maximum(p, (1 - RAREST) ** (n * paired.n_masks)) <= level)

    return _bisected(reached, np.full(len(mean), 2.0))


def _examples(effect: Array, deviation: Array, tail: float, power: float) -> Array:
    """Examples at which a one-tailed t-test finds effects; infinite if not positive.

    The normal test's number plus Guenther's correction for the t-test, z^2 / 2.
    """
    from statsmodels.stats.power import normal_sample_size_one_tail

    positive = effect > 0
    size = normal_sample_size_one_tail(np.where(positive, effect, 1.0), power, tail, deviation)
    return np.where(positive, size + norm.isf(tail) ** 2 / 2, np.inf)


def _mcnemar_effect(discordant: Array, n: int, level: float, power: float) -> Array:
    """Bisect for the effect at which the exact power is reached, for all heads at once."""
    counts, where = np.unique(discordant, return_inverse=True)
    observed = counts / n
    low, high = np.zeros(len(counts)), np.ones(len(counts))
    never = mcnemar_power(high, high, n, level) < power
    for _ in range(_EFFECT_BISECTIONS):
        middle = (low + high) / 2
        enough = mcnemar_power(middle, np.maximum(observed, middle), n, level) >= power
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.where(never, np.nan, high)[where]


def _simulated_examples(
    lose: Array,
    win: Array,
    margin: float,
    levels: tuple[float, float],
    power: float,
    rng: np.random.Generator,
) -> Array:
    """Bisect, on a log scale, for the number of examples at which simulated tables settle."""
    seed = int(rng.integers(2**63))

    def settled(examples: Array) -> NDArray[np.bool_]:
        drawn = np.random.default_rng(seed)  # common random numbers: less noise between steps
        n = examples.astype(np.int64)
        lost = drawn.binomial(n, lose, (_DRAWS, len(n))).astype(np.float64)
        rest = win / np.maximum(1 - lose, np.finfo(float).tiny)
        won = drawn.binomial(n - lost.astype(np.int64), np.minimum(rest, 1.0)).astype(np.float64)
        different = mcnemar_p(lost, won) <= levels[0]
        noninferior = tango_p(lost, won, n, bound=-margin, greater=True) <= levels[1]
        return np.asarray((different | noninferior).mean(axis=0) >= power)

    return _bisected(settled, np.full(len(lose), 2.0))


def _bisected(enough: Callable[[Array], NDArray[np.bool_]], high: Array) -> Array:
    """Return the least numbers that are enough, on a log scale; infinite beyond all reason."""
    while not (done := enough(high)).all() and high.max() < _MOST_EXAMPLES:
        high = np.where(done, high, 2 * high)
    low = high / 2
    for _ in range(_BISECTIONS):
        middle = np.floor(np.sqrt(low * high))
        done = enough(middle)
        high, low = np.where(done, middle, high), np.where(done, low, middle)
    return np.where(high >= _MOST_EXAMPLES, np.inf, high)
