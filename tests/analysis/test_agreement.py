"""Agreement of methods against scipy, literal loops, enumeration and published examples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from headtool.analysis.agreement import (
    agreement,
    concordance,
    kendall_w,
    rank_biased_overlap,
)
from headtool.errors import HeadtoolError
from headtool.schema import TABLES


def plain_overlap(first, second, p):
    """Webber et al. (2010), eq. 32, word for word: two lists, an evaluation depth, a sum."""
    depth = len(first)
    common = [len(set(first[:d]) & set(second[:d])) for d in range(1, depth + 1)]
    total = sum(common[d - 1] / d * p**d for d in range(1, depth + 1))
    return common[-1] / depth * p**depth + (1 - p) / p * total


def rankings(scores):
    """Every order of the heads that the scores allow."""
    for order in itertools.permutations(range(len(scores))):
        if all(scores[i] >= scores[j] for i, j in itertools.pairwise(order)):
            yield list(order)


@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
def test_rank_biased_overlap_without_ties_is_the_sum_of_the_paper(p):
    rng = np.random.default_rng(0)
    for n in (2, 5, 30):
        x, y = rng.normal(size=(2, n))
        expected = plain_overlap(np.argsort(-x).tolist(), np.argsort(-y).tolist(), p)
        assert rank_biased_overlap(x, y, persistence=p) == pytest.approx(expected, abs=1e-12)


def test_rank_biased_overlap_by_hand():
    # a b c against b a c: agreement 0, 1, 1 at depths 1, 2, 3.
    by_hand = (1 - 0.5) * (0 + 0.5 * 1 + 0.25 * 1) + 0.125
    x, y = np.array([3.0, 2, 1]), np.array([2.0, 3, 1])
    assert rank_biased_overlap(x, y, persistence=0.5) == pytest.approx(by_hand)
    assert rank_biased_overlap(x, x) == pytest.approx(1)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([2, 2, 1, 1, 0], [5, 4, 3, 2, 1]),
        ([1, 1, 1, 1], [4, 3, 2, 1]),
        ([3, 2, 2, 2, 1], [1, 1, 2, 2, 3]),
        ([1, 1, 1], [1, 1, 1]),
    ],
)
def test_ties_average_over_all_ways_to_break_them(x, y):
    broken = [plain_overlap(first, second, 0.8) for first in rankings(x) for second in rankings(y)]
    found = rank_biased_overlap(np.array(x, float), np.array(y, float), persistence=0.8)
    assert found == pytest.approx(np.mean(broken), abs=1e-12)


@pytest.mark.parametrize("persistence", [0.0, 1.0, -0.1, math.nan])
def test_a_persistence_out_of_range_is_refused(persistence):
    with pytest.raises(HeadtoolError, match="persistence"):
        rank_biased_overlap(np.arange(3.0), np.arange(3.0), persistence=persistence)


def test_agreement_is_that_of_scipy():
    rng = np.random.default_rng(1)
    scores = {name: rng.integers(0, 8, 24) * 1.0 for name in "abc"}
    frame = agreement(scores, np.repeat(np.arange(4), 6), permutations=200)
    assert tuple(frame.columns) == TABLES["agreement"].names
    assert frame[["method_x", "method_y"]].to_numpy().tolist() == [
        ["a", "b"],
        ["a", "c"],
        ["b", "c"],
    ]
    for row in frame.to_dict("records"):
        x, y = scores[row["method_x"]], scores[row["method_y"]]
        assert row["tau_b"] == pytest.approx(scipy.stats.kendalltau(x, y).statistic)
        assert row["spearman"] == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
        assert row["tau_b_low"] < row["tau_b"] < row["tau_b_high"]
        assert row["spearman_low"] < row["spearman"] < row["spearman_high"]


def test_exact_p_values_equal_enumeration():
    layers = np.array([0, 0, 0, 1, 1, 1])
    x, y = np.random.default_rng(5).normal(size=(2, 6))
    (row,) = agreement({"x": x, "y": y}, layers, permutations=720).to_dict("records")
    for suffix, allowed in (("_p", np.zeros(6)), ("_p_within_layers", layers)):
        orders = [
            list(order)
            for order in itertools.permutations(range(6))
            if (allowed[list(order)] == allowed).all()
        ]
        null = np.array([rank_biased_overlap(x, y[order]) for order in orders])
        observed = rank_biased_overlap(x, y)
        tails = np.mean(null >= observed - 1e-12), np.mean(null <= observed + 1e-12)
        assert row["rbo" + suffix] == pytest.approx(min(1, 2 * min(tails)))
        tau = np.array([scipy.stats.kendalltau(x, y[order]).statistic for order in orders])
        tails = np.mean(tau >= row["tau_b"] - 1e-12), np.mean(tau <= row["tau_b"] + 1e-12)
        assert row["tau_b" + suffix] == pytest.approx(min(1, 2 * min(tails)))
        if suffix == "_p":
            assert row["rbo_expected"] == pytest.approx(null.mean())


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    """Heads drawn from a bivariate normal population, whose tau and rho are known."""
    rng, r, n = np.random.default_rng(2), 0.6, 40
    truth = {"tau_b": 2 / np.pi * np.arcsin(r), "spearman": 6 / np.pi * np.arcsin(r / 2)}
    held = dict.fromkeys(truth, 0)
    for _ in range(300):
        x = rng.normal(size=n)
        y = r * x + math.sqrt(1 - r**2) * rng.normal(size=n)
        (row,) = agreement({"x": x, "y": y}, np.zeros(n, int), permutations=1).to_dict("records")
        for name, value in truth.items():
            held[name] += row[f"{name}_low"] <= value <= row[f"{name}_high"]
    assert all(0.91 <= count / 300 <= 0.99 for count in held.values()), held


def test_w_against_its_relation_to_spearman_and_by_hand():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(4, 15))
    mean_rho = np.mean(
        [scipy.stats.spearmanr(*pair).statistic for pair in itertools.combinations(scores, 2)]
    )
    assert kendall_w(scores) == pytest.approx((mean_rho * 3 + 1) / 4)
    # With ties, W is also the variance of rank sums over the largest there can be.
    tied = np.array([[1, 1, 2, 3], [2, 1, 3, 3], [1.0, 1, 1, 2]])
    # ranks: 1.5 1.5 3 4 / 2 1 3.5 3.5 / 2 2 2 4, sums 5.5 4.5 8.5 11.5 about 7.5: S = 30;
    # T = 6 + 6 + 24 = 36; W = 12 * 30 / (9 * 60 - 3 * 36) = 360 / 432.
    assert kendall_w(tied) == pytest.approx(360 / 432)
    assert kendall_w(np.array([scores[0], scores[0]])) == pytest.approx(1)
    assert math.isnan(kendall_w(np.ones((2, 4))))


def test_concordance_p_is_that_of_friedman_for_many_heads():
    """W is Friedman's statistic over m (n - 1); its chi-squared p is what permutation nears."""
    rng = np.random.default_rng(4)
    common = rng.normal(size=30)
    scores = {str(i): 0.45 * common + rng.normal(size=30) for i in range(5)}
    frame = concordance(scores, np.repeat(np.arange(3), 10), permutations=20_000)
    assert tuple(frame.columns) == TABLES["concordance"].names
    friedman = scipy.stats.friedmanchisquare(*np.stack(list(scores.values())).T)
    (row,) = frame.to_dict("records")
    assert row["w"] == pytest.approx(friedman.statistic / (5 * 29))
    assert row["w_p"] == pytest.approx(friedman.pvalue, abs=0.01)
    assert 0 < row["w_p"] < 0.2


def test_within_layers_there_is_no_agreement_where_layers_explain_it():
    rng = np.random.default_rng(6)
    layers = np.repeat(np.arange(6), 8)
    scores = {str(i): layers * 5 + rng.normal(size=48) for i in range(3)}
    (row,) = concordance(scores, layers, permutations=999).to_dict("records")
    assert row["w_p"] == pytest.approx(0.001)
    assert row["w_p_within_layers"] > 0.01
    assert (agreement(scores, layers, permutations=999)["rbo_p_within_layers"] > 0.01).all()


@pytest.mark.slow
def test_p_is_uniform_where_methods_have_nothing_in_common():
    rng = np.random.default_rng(7)
    layers = np.repeat(np.arange(2), 6)
    p = []
    for _ in range(150):
        scores = {"a": rng.normal(size=12), "b": rng.normal(size=12)}
        (row,) = agreement(scores, layers, permutations=199, rng=rng).to_dict("records")
        p.append([row["tau_b_p"], row["rbo_p"], row["rbo_p_within_layers"]])
    for values in np.array(p).T:
        assert scipy.stats.kstest(values, "uniform").pvalue > 1e-3


def test_one_method_has_nobody_to_agree_with():
    alone = {"gradient": np.arange(4.0)}
    layers = np.array([0, 0, 1, 1])
    assert agreement(alone, layers).empty
    assert concordance(alone, layers).empty
    assert tuple(agreement(alone, layers).columns) == TABLES["agreement"].names


def test_constant_scores_have_no_correlation():
    scores = {"a": np.ones(4), "b": np.arange(4.0)}
    (row,) = agreement(scores, np.array([0, 0, 1, 1]), permutations=24).to_dict("records")
    assert math.isnan(row["tau_b"])
    assert math.isnan(row["tau_b_low"])
    assert math.isnan(row["spearman_p"])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.array([1.0, np.nan, 2]), "leaves 1 heads without a score"),
        (np.array([1.0, 2]), "scores 2 heads and not 3"),
    ],
)
def test_rankings_are_over_the_same_heads(scores, message):
    with pytest.raises(HeadtoolError, match=message):
        agreement({"a": np.arange(3.0), "b": scores}, np.array([0, 0, 1]))
