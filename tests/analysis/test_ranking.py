"""Ranks over blocks: against published figures, scipy and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, studentized_range
from scipy.stats import t as student

from headtool.analysis.ranking import (
    critical_difference,
    mean_over_units,
    rank_methods,
    ranks_of,
)

# Demšar (2006), table 6: AUC of four classifiers on 14 data sets. In the last row but one, two are
# printed alike and ranked apart; the fourth digit of the better one is ours.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def names(count: int) -> list[str]:
    return [str(number) for number in range(count)]


# Demšar (2006), table 5(a): q_0.05 of the two-tailed Nemenyi test for 2 to 10 classifiers.
Q = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)


@pytest.mark.parametrize(("methods", "q"), list(enumerate(Q, start=2)))
def test_critical_differences_are_those_of_the_published_table(methods: int, q: float) -> None:
    found = critical_difference(methods, 20)
    # The table was rounded, and its entry for three is 2.343 where scipy says 2.3437.
    assert found / math.sqrt(methods * (methods + 1) / 120) == pytest.approx(q, abs=0.0011)


def test_the_published_example() -> None:
    found = rank_methods(DEMSAR, names(14))
    assert found.mean_ranks.round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    assert found.critical == pytest.approx(1.25, abs=0.005)
    n, k = DEMSAR.shape
    plain = 12 * n / (k * (k + 1)) * ((found.mean_ranks**2).sum() - k * (k + 1) ** 2 / 4)
    assert plain == pytest.approx(9.28, abs=0.005)  # Demšar's, without the correction for ties
    expected = friedmanchisquare(*DEMSAR.T)
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_p_values_of_pairs_fit_the_critical_difference() -> None:
    found = rank_methods(DEMSAR, names(14))
    gaps = np.abs(found.mean_ranks[:, None] - found.mean_ranks[None])
    for (i, j), gap in np.ndenumerate(gaps):
        scaled = gap / math.sqrt(4 * 5 / (12 * 14))
        expected = min(1.0, float(studentized_range.sf(scaled, 4, np.inf)))
        assert found.p_pairs[i, j] == pytest.approx(expected, abs=1e-6)
        assert (found.p_pairs[i, j] <= 0.05) == (gap >= found.critical)
        assert (found.p_pairs_units[i, j] <= 0.05) == (gap >= found.critical_units - 1e-9)


def test_permutations_by_unit_are_those_of_an_enumeration() -> None:
    ranks = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [2.0, 1.0, 3.0]])
    units = ["a", "a", "b"]  # both blocks of a change places together
    spans = []
    for first, second in itertools.product(itertools.permutations(range(3)), repeat=2):
        means = (ranks[:2].sum(axis=0)[list(first)] + ranks[2][list(second)]) / 3
        spans.append(np.ptp(means))
    found = rank_methods(-ranks, units, permutations=40_000)
    own = np.ptp(ranks.mean(axis=0))
    exact = np.mean(np.array(spans) >= own - 1e-9)
    assert found.p_units == pytest.approx(exact, abs=0.01)
    assert math.isinf(found.critical_units)  # the widest span has probability 1/3
    assert found.units == 2


def test_ties_share_their_rank_and_rounding_makes_none_better() -> None:
    third = 0.1 + 0.2
    assert ranks_of(np.array([[0.3, third, 0.1]])).tolist() == [[1.5, 1.5, 3.0]]
    found = rank_methods(np.ones((4, 3)), names(4))
    assert found.mean_ranks.tolist() == [2.0, 2.0, 2.0]
    assert math.isnan(found.p)
    assert found.p_units == 1.0


def test_what_too_small_a_design_cannot_say() -> None:
    one = rank_methods(np.array([[2.0, 1.0, 0.0]]), ["a"])
    assert math.isnan(one.p)
    assert math.isnan(one.critical)
    assert math.isnan(one.p_units)
    alone = rank_methods(np.array([[2.0], [1.0]]), ["a", "b"])
    assert math.isnan(alone.critical)
    pair = rank_methods(np.array([[2.0, 1.0]] * 6), names(6))
    assert math.isnan(pair.p)  # Friedman's test needs three methods
    assert pair.critical == pytest.approx(1.96 * math.sqrt(2 * 3 / (6 * 6)), abs=1e-3)
    # All six units prefer the same one of two: 2 in 2^6.
    assert pair.p_units == pytest.approx(2 / 64, abs=0.006)


def test_mean_over_units_is_a_t_interval_over_their_means() -> None:
    values, units = np.array([1.0, 2.0, 4.0, np.nan, 7.0]), ["a", "a", "b", "b", "c"]
    means = np.array([1.5, 4.0, 7.0])
    half = student.ppf(0.975, 2) * means.std(ddof=1) / math.sqrt(3)
    mean = means.mean()
    assert mean_over_units(values, units) == pytest.approx((mean, mean - half, mean + half))
    assert math.isnan(mean_over_units(values[:2], units[:2])[1])
    assert math.isnan(mean_over_units(np.array([np.nan]), ["a"])[0])


def test_levels_hold_where_tasks_of_a_model_are_alike() -> None:
    # Five models prefer methods of their own, on four tasks each: no method is better over models.
    rng = np.random.default_rng(5)
    blind = by_unit = 0
    for turn in range(300):
        tastes = np.repeat(rng.normal(size=(5, 4)), 4, axis=0)
        values = tastes + 0.5 * rng.normal(size=tastes.shape)
        units = [str(i // 4) for i in range(20)]
        found = rank_methods(values, units, permutations=400, rng=turn)
        blind += found.p <= 0.05
        by_unit += found.p_units <= 0.05
    assert blind > 90  # Friedman's test takes 20 blocks to be independent
    assert by_unit <= 15 + 3 * math.sqrt(300 * 0.05 * 0.95)
