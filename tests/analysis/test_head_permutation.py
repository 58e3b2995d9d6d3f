"""Permutation of heads against scipy, exhaustive enumeration, and simulation under the null."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from headtool.analysis.head_permutation import head_orders, permutation_p
from headtool.analysis.rank_correlation import COEFFICIENTS, in_orders

SCIPY = {
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: scipy.stats.kendalltau(x, y).statistic,
}


@pytest.mark.parametrize("ties", [False, True])
def test_free_exact_p_equals_scipy(ties):
    rng = np.random.default_rng(3)
    for _ in range(2):
        x, y = rng.integers(0, 3, (2, 6)) * 1.0 if ties else rng.normal(size=(2, 6))
        x[:2], y[:2] = [7, 8], [8, 9]
        found = permutation_p(x, y, permutations=720, rng=rng)
        for name, statistic in SCIPY.items():
            expected = scipy.stats.permutation_test(
                (x,),
                lambda shuffled, s=statistic, y=y: s(shuffled, y),
                permutation_type="pairings",
                n_resamples=np.inf,
                vectorized=False,
            )
            assert found[name] == pytest.approx(min(1, expected.pvalue), abs=1e-12)


def literal_orders(layers):
    """Every order of the heads that leaves each in its layer, by trying all orders."""
    count = len(layers)
    for order in itertools.permutations(range(count)):
        if all(layers[i] == layers[j] for i, j in enumerate(order)):
            yield list(order)


@pytest.mark.parametrize("layers", [[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 2, 0], [0, 1, 2, 0, 1, 1, 2]])
def test_exact_p_within_layers_equals_enumeration(layers):
    rng = np.random.default_rng(len(layers))
    x, y = rng.normal(size=(2, len(layers)))
    y[1] = y[2]
    found = permutation_p(x, y, layers=np.array(layers), permutations=5000, rng=rng)
    orders = list(literal_orders(layers))
    for name, statistic in SCIPY.items():
        null = np.array([statistic(x, y[order]) for order in orders])
        observed = statistic(x, y)
        tails = (np.mean(null >= observed - 1e-12), np.mean(null <= observed + 1e-12))
        assert found[name] == pytest.approx(min(1, 2 * min(tails)), abs=1e-12)


def test_random_orders_stay_within_groups_and_are_uniform():
    groups = np.array([1, 0, 1, 0, 1])
    orders, exact = head_orders(groups, permutations=11, rng=np.random.default_rng(0))
    assert not exact
    assert (groups[orders] == groups).all()
    orders, _ = head_orders(np.zeros(4, int), permutations=23, rng=np.random.default_rng(0))
    every, exact = head_orders(np.zeros(4, int), permutations=24, rng=np.random.default_rng(0))
    assert exact
    assert len({tuple(order) for order in every}) == 24
    drawn = [
        tuple(order)
        for seed in range(100)
        for order in head_orders(
            np.zeros(4, int), permutations=23, rng=np.random.default_rng(seed)
        )[0]
    ]
    counts = np.array([drawn.count(tuple(order)) for order in every])
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    assert len(orders) == 23


def test_random_orders_approach_the_exact_p_and_are_never_zero():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 7))
    exact = permutation_p(x, y, permutations=5040, rng=rng)
    approximate = permutation_p(x, y, permutations=5039, rng=rng)
    for name in COEFFICIENTS:
        assert approximate[name] == pytest.approx(exact[name], abs=0.03)
    same = permutation_p(np.arange(30.0), np.arange(30.0), permutations=99, rng=rng)
    assert set(same.values()) == {2 / 100}


def null_p(trials, *, layer_effect, within):
    """p-values of Pearson and Kendall where heads of a layer are interchangeable."""
    layers = np.repeat(np.arange(4), 5)
    rng = np.random.default_rng(17)
    effect = layer_effect * np.arange(4)[layers]
    found = []
    for _ in range(trials):
        x, y = effect + rng.standard_t(3, size=(2, 20)) * (1 + layers)
        p = permutation_p(x, y, layers=layers if within else None, permutations=99, rng=rng)
        found.append((p["pearson"], p["spearman"], p["kendall"]))
    return np.array(found).T


def is_uniform(p):
    """Kolmogorov-Smirnov on two-sided p-values k/50, smeared over their steps."""
    smeared = p - np.random.default_rng(0).random(len(p)) * 0.02
    return scipy.stats.kstest(smeared, "uniform").pvalue > 1e-3


@pytest.mark.slow
def test_p_within_layers_is_uniform_under_the_null_also_where_layers_differ():
    pearson, spearman, kendall = null_p(2000, layer_effect=3.0, within=True)
    assert is_uniform(pearson)
    assert is_uniform(spearman)
    for level in (0.02, 0.1, 0.5):  # ties of tau make p-values larger, never smaller
        assert np.mean(kendall <= level) <= level + 3 * math.sqrt(level * (1 - level) / 2000)


@pytest.mark.slow
def test_free_p_is_uniform_under_its_null_and_rejects_too_often_where_layers_differ():
    rng = np.random.default_rng(23)
    found = []
    for _ in range(2000):
        x, y = rng.standard_t(3, size=(2, 20))
        found.append(list(permutation_p(x, y, permutations=99, rng=rng).values()))
    pearson, spearman, _ = np.array(found).T
    assert is_uniform(pearson)
    assert is_uniform(spearman)
    for p in null_p(400, layer_effect=3.0, within=False):
        assert np.mean(p <= 0.05) > 0.2  # layers alone correlate


@pytest.mark.parametrize("ties", [False, True])
def test_orders_of_ranks_are_ranks_of_orders(ties: bool) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 20)).round(0 if ties else 9)
    orders = np.argsort(rng.random((50, 20)), axis=1)
    found = in_orders(x, y, orders)
    assert list(found) == list(COEFFICIENTS)
    for name, coefficient in COEFFICIENTS.items():
        assert np.array_equal(found[name], coefficient(x[None], y[orders]))
    constant = in_orders(np.ones(20), y, orders)
    assert all(np.isnan(values).all() for values in constant.values())
