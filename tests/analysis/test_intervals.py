"""Intervals against scipy.stats.bootstrap, published figures and limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray
from statsmodels.stats.proportion import proportion_confint

from headtool.analysis.assessment import assess
from headtool.analysis.intervals import (
    bca_interval,
    choose_interval,
    newcombe_interval,
    newcombe_of,
    percentile_interval,
)
from headtool.analysis.paired import Paired
from headtool.analysis.resampling import bootstrap_deltas
from headtool.errors import HeadtoolError
from headtool.metrics import get_metric


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(23)


def skewed(rng: np.random.Generator) -> Paired:
    whole = rng.exponential(size=60)
    masked = whole + rng.exponential(size=(3, 60)) * 0.3 - 0.1
    return Paired.from_values(whole, masked, higher_is_better=False)


@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_bootstrap_intervals_equal_scipy_on_the_same_resamples(
    rng: np.random.Generator, method: str
) -> None:
    paired = skewed(rng)
    deltas = bootstrap_deltas(paired, resamples=800, rng=np.random.default_rng(9))
    if method == "BCa":
        low, high = bca_interval(paired, deltas, level=0.9)
    else:
        low, high = percentile_interval(deltas, level=0.9)
    for mask, row in enumerate(paired.masked[..., 0]):
        theirs = scipy.stats.bootstrap(
            (row, paired.whole[:, 0]),
            lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
            paired=True,
            vectorized=True,
            n_resamples=800,
            confidence_level=0.9,
            method=method,
            rng=np.random.default_rng(9),
        ).confidence_interval
        assert (low[mask], high[mask]) == pytest.approx(tuple(theirs), rel=1e-9)


def test_bca_of_a_corpus_metric_equals_scipy(rng: np.random.Generator) -> None:
    gold = rng.normal(size=50)
    metric = get_metric("pearson", task="regression")

    def statistics(noise: float) -> NDArray[np.float64]:
        prediction = gold + noise * rng.normal(size=50)
        return metric.per_example({"prediction": prediction, "gold": gold})

    whole, masked = statistics(0.3), statistics(0.6)
    paired = Paired(whole, masked[None], metric.from_sums, higher_is_better=True)
    deltas = bootstrap_deltas(paired, resamples=500, rng=np.random.default_rng(2))

    def delta(index: NDArray[np.int64]) -> float:
        index = index.astype(int)
        value = metric.from_sums(masked[index].sum(0)) - metric.from_sums(whole[index].sum(0))
        return float(value)

    theirs = scipy.stats.bootstrap(
        (np.arange(50),),
        delta,
        vectorized=False,
        n_resamples=500,
        method="BCa",
        rng=np.random.default_rng(2),
    ).confidence_interval
    low, high = bca_interval(paired, deltas)
    assert (low[0], high[0]) == pytest.approx(tuple(theirs), rel=1e-9)


def test_all_equal_outcomes_have_an_empty_interval(rng: np.random.Generator) -> None:
    whole = rng.random(30)
    paired = Paired.from_values(whole, whole[None], higher_is_better=True)
    deltas = bootstrap_deltas(paired, resamples=50, rng=rng)
    for low, high in (percentile_interval(deltas), bca_interval(paired, deltas)):
        assert (low[0], high[0]) == (0.0, 0.0)


def test_undefined_resamples_widen_the_interval_until_it_is_nan() -> None:
    deltas = np.repeat(np.linspace(-1, 1, 1001)[:, None], 2, axis=1)
    deltas[500:510, 0] = np.nan
    deltas[500:530, 1] = np.nan
    low, high = percentile_interval(deltas)
    assert low[0] == pytest.approx(-0.95 - 0.02, abs=1e-9)
    assert high[0] == pytest.approx(0.95 + 0.02, abs=1e-9)
    assert np.isnan([low[1], high[1]]).all()


def test_newcombe_equals_the_published_example() -> None:
    """Newcombe (1998), table III, 36, 12, 2, 0: method 10 gives 0.0569 to 0.3404."""
    low, high = newcombe_interval(36, 2, 12, 0)
    assert (float(low), float(high)) == pytest.approx((0.0569, 0.3404), abs=5e-5)


def test_newcombe_is_antisymmetric_and_uses_wilson(rng: np.random.Generator) -> None:
    a, b, c, d = rng.integers(0, 30, (4, 200))
    low, high = newcombe_interval(a, b, c, d)
    swapped_low, swapped_high = newcombe_interval(a, c, b, d)
    np.testing.assert_allclose(low, -swapped_high, atol=1e-12)
    np.testing.assert_allclose(high, -swapped_low, atol=1e-12)
    assert ((low >= -1 - 1e-12) & (low <= (c - b) / (a + b + c + d)) & (high <= 1 + 1e-12)).all()
    # Nobody right in the first system, no correlation: the half lengths are Wilson's own.
    low, high = newcombe_interval(0, 0, 7, 13)
    wilson = proportion_confint(7, 20, method="wilson")
    none = proportion_confint(0, 20, method="wilson")
    share = 7 / 20
    assert float(low) == pytest.approx(share - np.hypot(share - wilson[0], none[1]), rel=1e-9)
    assert float(high) == pytest.approx(share + (wilson[1] - share), rel=1e-9)


def test_newcombe_has_length_without_discordant_examples() -> None:
    low, high = newcombe_interval(90, 0, 0, 10)
    assert low < 0 < high


def test_newcombe_of_paired_keeps_sign_and_unit() -> None:
    whole = np.array([1.0] * 48 + [0.0] * 2)
    masked = whole.copy()
    masked[:12] = 0  # the published table with the systems exchanged
    masked[[48, 49]] = 1
    statistics = [np.stack([row, np.ones(50)], axis=1) for row in (whole, masked)]
    paired = Paired(
        statistics[0],
        statistics[1][None],
        lambda sums: 100 * sums[..., 0] / sums[..., 1],
        higher_is_better=True,
    )
    low, high = newcombe_of(paired)
    assert (low[0], high[0]) == pytest.approx((-34.04, -5.69), abs=5e-3)


def test_interval_is_chosen_by_the_metric_and_refused_where_not_defined(
    rng: np.random.Generator,
) -> None:
    right = Paired.from_values([1.0, 0, 1], [[1.0, 1, 1]], higher_is_better=True)
    assert (choose_interval(right), choose_interval(skewed(rng))) == ("newcombe", "percentile")
    with pytest.raises(HeadtoolError, match="'newcombe' needs right or wrong per example"):
        choose_interval(skewed(rng), "newcombe")
    with pytest.raises(HeadtoolError, match="unknown interval 'bc'; did you mean 'bca'"):
        choose_interval(skewed(rng), "bc")


def test_the_default_interval_covers_heads_that_change_next_to_nothing() -> None:
    """Exactly, by the sum over all tables: 200 examples of which a share of .004 is lost.

    With [0, 0] where no prediction changed it would be .55: as rarely as any changes.
    """
    n, lost = 200, 0.004
    whole = np.ones(n)
    masked = np.stack([np.where(np.arange(n) < count, 0.0, 1.0) for count in range(31)])
    paired = Paired.from_values(whole, masked, higher_is_better=True)
    frame = assess(paired, correction="none").frame
    covers = (frame["ci_low"] <= -lost) & (-lost <= frame["ci_high"])
    weights = scipy.stats.binom.pmf(np.arange(31), n, lost)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert weights @ covers.to_numpy() > 0.95
    assert (frame["ci_low"] < frame["ci_high"]).all()
    assert 1 - weights[0] == pytest.approx(0.55, abs=0.005)
