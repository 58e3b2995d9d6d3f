"""Heads that cost the margin, and heads that cost nothing, by several bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import scipy.stats

from headtool.analysis.betting import FRACTIONS
from headtool.analysis.multiplicity import adjust
from headtool.analysis.rare_costs import low_cost_p
from headtool.analysis.resampling import counts_of
from simulations.printing import ALPHA, Array, rate, table

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

MARGIN, HEADS = 0.01, 24


def hits(share: float, size: float, noise: float, *, variable: bool = False) -> Draw:
    """Costs of a few examples, beside noise; the mean is the margin."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        sizes = rng.exponential(size, shape) if variable else size
        return np.asarray((rng.random(shape) < share) * sizes + noise * rng.normal(size=shape))

    return draw


COSTS: dict[str, Draw] = {
    "normal, sd .1": lambda rng, shape: MARGIN + 0.1 * rng.normal(size=shape),
    "normal, sd .03": lambda rng, shape: MARGIN + 0.03 * rng.normal(size=shape),
    "2% hit by .5": hits(0.02, 0.5, 0.0),
    "2% hit by .5 on average": hits(0.02, 0.5, 0.0, variable=True),
    "0.5% hit by 2": hits(0.005, 2.0, 0.0),
    "0.5% hit by 2, noise .02": hits(0.005, 2.0, 0.02),
    "0.5% hit by 2, noise .07": hits(0.005, 2.0, 0.07),
    "lognormal, sigma 1": lambda rng, shape: MARGIN * rng.lognormal(-0.5, 1.0, shape),
    "lognormal, sigma 1.5": lambda rng, shape: MARGIN * rng.lognormal(-1.125, 1.5, shape),
    "t with 3 df, scale .1": lambda rng, shape: MARGIN + 0.1 * rng.standard_t(3, size=shape),
    "0.1% hit by 10 (beyond what is promised)": hits(0.001, 10.0, 0.02),
}


def t_p(costs: Array) -> Array:
    """The plain bound."""
    n = costs.shape[1]
    spread = costs.std(axis=1, ddof=1) / math.sqrt(n)
    t = (MARGIN - costs.mean(axis=1)) / np.where(spread > 0, spread, 1.0)
    p = scipy.stats.t.sf(t, n - 1)
    return np.asarray(np.where(spread > 0, p, np.where(costs.mean(axis=1) < MARGIN, 0.0, 1.0)))


def bootstrapped(rng: np.random.Generator, costs: Array, resamples: int) -> tuple[Array, Array]:
    """Means and standard deviations in resamples that all heads share, each [R, M]."""
    n = costs.shape[1]
    weights = counts_of(rng.integers(0, n, (resamples, n)), n).astype(np.float64)
    means = weights @ costs.T / n
    squares = weights @ (costs**2).T / n
    return means, np.sqrt(np.maximum(squares - means**2, 0))


def studentised_p(rng: np.random.Generator, costs: Array, resamples: int = 1_999) -> Array:
    """Bootstrap t; a resample without spread counts as extreme."""
    means, spreads = bootstrapped(rng, costs, resamples)
    mean, spread = costs.mean(axis=1), costs.std(axis=1)
    observed = (mean - MARGIN) / np.where(spread > 0, spread, 1.0)
    drawn = np.where(spreads > 0, (means - mean) / np.where(spreads > 0, spreads, 1), -np.inf)
    p = (1 + (drawn <= observed).sum(axis=0)) / (resamples + 1)
    return np.where(spread > 0, p, np.where(mean < MARGIN, 0.0, 1.0))


def bca_p(rng: np.random.Generator, costs: Array, resamples: int = 1_999) -> Array:
    """The level at which the upper BCa limit is the margin."""
    means, _ = bootstrapped(rng, costs, resamples)
    mean = costs.mean(axis=1)
    edge = 1 / (resamples + 1)

    def z(share: Array) -> Array:
        return np.asarray(scipy.stats.norm.ppf(np.clip(share, edge, 1 - edge)))

    bias = z(((means < mean).mean(axis=0) + (means <= mean).mean(axis=0)) / 2)
    away = costs - mean[:, None]
    spread = (away**2).sum(axis=1)
    acceleration = (away**3).sum(axis=1) / (6 * np.where(spread > 0, spread, 1) ** 1.5)
    shifted = z((means <= MARGIN).mean(axis=0)) - bias
    p = scipy.stats.norm.sf(shifted / (1 + acceleration * shifted) - bias)
    return np.where(spread > 0, p, np.where(mean < MARGIN, 0.0, 1.0))


def bernstein_p(costs: Array, bound: float) -> Array:
    """Empirical Bernstein (Maurer & Pontil 2009) for costs in [-bound, bound], by bisection."""
    n = costs.shape[1]
    mean, variance = costs.mean(axis=1), costs.var(axis=1, ddof=1)
    low, high = np.full(len(costs), -60.0), np.zeros(len(costs))
    for _ in range(40):
        middle = (low + high) / 2
        log = math.log(2) - middle
        upper = mean + np.sqrt(2 * variance * log / n) + 14 * bound * log / (3 * (n - 1))
        low, high = np.where(upper <= MARGIN, low, middle), np.where(upper <= MARGIN, middle, high)
    return np.exp(high)


def betting_p(costs: Array, bound: float) -> Array:
    """Bets that costs in [-bound, bound] have a mean below the margin; 1 / capital at the end."""
    x = (bound - np.clip(costs, -bound, bound)) / (2 * bound)
    m = (bound - MARGIN) / (2 * bound)
    # The whole range of bets, of which the largest risks everything on a cost of `bound`.
    fractions = np.concatenate([FRACTIONS / 100, FRACTIONS / 10, FRACTIONS, [0.99]])
    growth = np.array([np.log1p(g * (x / m - 1)).sum(axis=1) for g in fractions])
    capital = np.logaddexp.reduce(growth, axis=0) - math.log(len(fractions))
    return np.asarray(np.exp(-np.maximum(capital, 0)))


BOUNDS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "t": lambda _, costs: t_p(costs),
    "bootstrap t": studentised_p,
    "BCa": bca_p,
    "Bernstein, bound 2": lambda _, costs: bernstein_p(costs, 2.0),
    "betting, bound 2": lambda _, costs: betting_p(costs, 2.0),
    "headtool": lambda _, costs: low_cost_p(costs, MARGIN),
}


def removable() -> None:
    """Heads whose true cost is the margin, .01, and that a bound calls cheaper; level .05."""
    families = 40

    def rows() -> Iterator[list[str]]:
        for name, draw in COSTS.items():
            for n in (300, 872):
                rng = np.random.default_rng([n, len(name)])
                wrong = dict.fromkeys(BOUNDS, 0)
                for _ in range(families):
                    costs = draw(rng, (HEADS, n))
                    for bound, p in BOUNDS.items():
                        wrong[bound] += int((p(rng, costs) <= ALPHA).sum())
                yield [name, str(n), *(rate(count, families * HEADS) for count in wrong.values())]

    table(["costs", "examples", *BOUNDS], rows())


def removable_families() -> None:
    """Families of 24 heads that cost the margin, some of which are called removable after Holm."""
    families = 200

    def rows() -> Iterator[list[str]]:
        for name, draw in COSTS.items():
            for n in (300, 872):
                rng = np.random.default_rng([n, len(name), 1])
                found = {"t": 0, "headtool": 0}
                alone = 0
                for _ in range(families):
                    costs = draw(rng, (HEADS, n))
                    for bound in found:
                        found[bound] += int(
                            (adjust(BOUNDS[bound](rng, costs), "holm") <= 0.05).any()
                        )
                    alone += sum(int(low_cost_p(costs[[i]], MARGIN)[0] <= ALPHA) for i in range(4))
                shown = [rate(count, families) for count in found.values()]
                yield [name, str(n), *shown, rate(alone, 4 * families)]

    table(["costs", "examples", "t", "headtool", "headtool, one head alone, no Holm"], rows())


def removable_power() -> None:
    """Heads without any cost that are called removable, normal costs."""
    families = 20

    def rows() -> Iterator[list[str]]:
        for spread in (0.03, 0.05, 0.07, 0.1):
            for n in (300, 872, 3_000):
                rng = np.random.default_rng([n, round(1000 * spread)])
                found = {(bound, holm): 0 for bound in BOUNDS for holm in (False, True)}
                for _ in range(families):
                    costs = spread * rng.normal(size=(HEADS, n))
                    for bound, p in BOUNDS.items():
                        raw = p(rng, costs)
                        found[bound, False] += int((raw <= ALPHA).sum())
                        found[bound, True] += int((adjust(raw, "holm") <= ALPHA).sum())
                shown = [
                    f"{found[bound, False] / families / HEADS:.2f} / "
                    f"{found[bound, True] / families / HEADS:.2f}"
                    for bound in BOUNDS
                ]
                yield [f"{spread:g}", str(n), *shown]

    table(["sd", "examples", *BOUNDS], rows())
