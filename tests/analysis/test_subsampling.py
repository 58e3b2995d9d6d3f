"""Agreement and selection over random halves, against loops, planted heads and pure noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from headtool.analysis.agreement import expected_overlap, rank_biased_overlap
from headtool.analysis.overlap import overlap
from headtool.analysis.subsampling import (
    STABLE,
    complementary_halves,
    false_bound,
    resampled_interval,
    selection_frequency,
    subsample_agreement,
    subsample_overlap,
    subsample_scores,
)
from headtool.errors import HeadtoolError
from headtool.heads import Head
from headtool.schema import TABLES

HEADS = [Head("enc-self", layer, index) for layer in range(4) for index in range(8)]
LAYERS = np.repeat(np.arange(4), 8)


def highest(scores: np.ndarray, count: int) -> np.ndarray:
    """The heads with the highest scores of each row."""
    ranks = np.argsort(np.argsort(-scores, axis=1), axis=1)
    return ranks < count


@pytest.mark.parametrize(("examples", "subsamples"), [(4, 2), (9, 5), (100, 7), (5, 1)])
def test_halves_are_complementary_pairs(examples, subsamples):
    halves = complementary_halves(examples, subsamples, np.random.default_rng(1))
    assert len(halves) == subsamples
    for half in halves:
        assert half.tolist() == sorted(set(half.tolist()))
        assert len(half) == examples // 2
        assert half.max() < examples
    for first, second in zip(halves[: subsamples // 2 * 2 : 2], halves[1::2], strict=True):
        assert not set(first.tolist()) & set(second.tolist())


def test_every_example_is_as_likely_in_every_half():
    halves = complementary_halves(7, 4000, np.random.default_rng(2))
    counts = np.bincount(np.concatenate(halves), minlength=7)
    assert counts == pytest.approx(np.full(7, 4000 * 3 / 7), rel=0.1)


def test_too_few_examples_for_halves():
    with pytest.raises(HeadtoolError, match="3 examples are too few for halves"):
        complementary_halves(3, 2, np.random.default_rng(0))


def test_agreement_is_the_mean_over_the_pairs_of_scipys_coefficients():
    rng = np.random.default_rng(3)
    scores = np.round(rng.normal(size=(7, 32)) + 2 * rng.normal(size=32), 1)  # with ties
    frame = subsample_agreement({"x": scores}, examples=11, alpha=0.1)
    assert tuple(frame.columns) == TABLES["subsamples"].names
    (row,) = frame.to_dict("records")
    pairs = [(scores[i], scores[i + 1]) for i in (0, 2, 4)]
    tau = [scipy.stats.kendalltau(x, y).statistic for x, y in pairs]
    assert row["tau_b"] == pytest.approx(np.mean(tau))
    assert row["spearman"] == pytest.approx(
        np.mean([scipy.stats.spearmanr(x, y).statistic for x, y in pairs])
    )
    assert row["rbo"] == pytest.approx(np.mean([rank_biased_overlap(x, y) for x, y in pairs]))
    assert (row["subsamples"], row["pairs"], row["examples"], row["heads"]) == (7, 3, 11, 32)
    reach = scipy.stats.t.ppf(0.95, 2) * math.sqrt((1 / 3 + 1) * np.var(tau, ddof=1))
    assert row["tau_b_low"] == pytest.approx(max(-1, np.mean(tau) - reach))
    assert row["tau_b_high"] == pytest.approx(min(1, np.mean(tau) + reach))


def test_expected_overlap_is_the_mean_over_all_orders():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=5), np.array([1.0, 2, 2, 3, 0])
    every = [rank_biased_overlap(x, y[list(order)]) for order in itertools.permutations(range(5))]
    assert expected_overlap(x, y) == pytest.approx(np.mean(every))


def test_one_pair_has_no_interval_and_one_tie_no_agreement():
    same = np.ones((2, 5))
    (row,) = subsample_agreement({"x": same}, examples=2).to_dict("records")
    assert math.isnan(row["tau_b"])
    assert math.isnan(row["tau_b_low"])
    assert resampled_interval(np.array([0.5, np.nan]), alpha=0.05) == pytest.approx(
        (math.nan, math.nan), nan_ok=True
    )


def test_overlap_is_the_mean_over_the_pairs_of_what_two_methods_would_have():
    rng = np.random.default_rng(5)
    keeps = highest(rng.normal(size=(6, 32)) + rng.normal(size=32), 12)
    frame = subsample_overlap({"x": {20: keeps, 0: np.ones((6, 32), bool)}}, LAYERS)
    assert tuple(frame.columns) == TABLES["subsample_overlap"].names
    (row,) = frame.to_dict("records")
    several = pd.concat(
        [overlap({"a": {20: keeps[i]}, "b": {20: keeps[i + 1]}}, LAYERS) for i in (0, 2, 4)]
    )
    for name in ("jaccard", "expected", "expected_within_layers"):
        assert row[name] == pytest.approx(several[name].mean())
    assert (row["kept"], row["share"]) == (12, 20 / 32)


def test_heads_with_one_score_across_the_cut_are_counted():
    scores = np.array([[3.0, 2, 2, 2, 1, 0], [5, 4, 3, 2, 2, 1]])
    keeps = np.array([[True, True, True, False, False, False]] * 2)
    layers = np.zeros(6, int)
    (row,) = subsample_overlap({"x": {3: keeps}}, layers, scores={"x": scores}).to_dict("records")
    assert row["tied"] == (3 + 0) / 2
    (row,) = subsample_overlap({"x": {3: keeps}}, layers).to_dict("records")
    assert math.isnan(row["tied"])


def test_frequencies_against_a_loop():
    rng = np.random.default_rng(6)
    keeps = highest(rng.normal(size=(10, 32)) + 2 * rng.normal(size=32), 16)
    frame = selection_frequency({"x": {16: keeps}}, HEADS)
    assert tuple(frame.columns) == TABLES["selection_frequency"].names
    for head, row in zip(HEADS, frame.to_dict("records"), strict=True):
        times = sum(1 for half in range(10) if keeps[half, HEADS.index(head)])
        assert (row["kind"], row["layer"], row["head"]) == (head.kind, head.layer, head.index)
        assert (row["times"], row["subsamples"], row["frequency"]) == (times, 10, times / 10)
        expected = {True: "stable-kept"}.get(times >= 9, "unstable")
        assert row["status"] == ("stable-removed" if times <= 1 else expected)
    (counted,) = subsample_overlap({"x": {16: keeps}}, LAYERS).to_dict("records")
    assert counted["stable_kept"] == (frame["status"] == "stable-kept").sum()
    assert counted["stable_removed"] == (frame["status"] == "stable-removed").sum()


def test_a_head_that_always_matters_is_always_kept_and_noise_is_not():
    rng = np.random.default_rng(7)
    examples = rng.normal(size=(200, 32))
    planted = examples.copy()
    planted[:, 5] += 3.0
    halves = complementary_halves(200, 40, rng)
    scores = {
        "planted": np.array([planted[half].mean(axis=0) for half in halves]),
        "noise": rng.normal(size=(40, 32)),
    }
    kept = {name: {24: highest(matrix, 8)} for name, matrix in scores.items()}
    found = selection_frequency(kept, HEADS).set_index(["method", "layer", "head"])["frequency"]
    assert found["planted", 0, 5] == 1.0
    noise = found["noise"]
    assert noise.mean() == pytest.approx(8 / 32)
    # Binomial(40, 1/4): above that once in a hundred thousand heads.
    assert noise.max() < 0.6
    agreement = subsample_agreement(scores, examples=100).set_index("method")
    assert abs(agreement.loc["noise", "tau_b"]) < 0.1
    assert abs(agreement.loc["noise", "rbo"] - agreement.loc["noise", "rbo_expected"]) < 0.06
    shared = subsample_overlap(kept, LAYERS).set_index("method").loc["noise"]
    assert shared["jaccard"] == pytest.approx(shared["expected"], abs=0.05)
    assert shared["low"] < shared["expected_within_layers"] < shared["high"]


@pytest.mark.parametrize("subsamples", [2, 5, 20])
def test_no_more_weak_heads_are_stable_than_the_bound_says(subsamples):
    """Scores of 32 heads of which 4 matter; weak heads are those kept less often than at random."""
    rng = np.random.default_rng(8)
    effect = np.zeros(32)
    effect[:4] = 0.3
    weak = np.zeros(32, bool)
    weak[4:] = True  # kept with a chance below 8 / 32, because the four take places
    stable = []
    for _ in range(150):
        examples = effect + rng.normal(size=(40, 32))
        halves = complementary_halves(40, subsamples, rng)
        keeps = highest(np.array([examples[half].mean(axis=0) for half in halves]), 8)
        stable.append((keeps.mean(axis=0)[weak] >= STABLE).sum())
    assert 0 < np.mean(stable) < false_bound(8, 32, subsamples)


def test_the_bound_in_closed_form():
    assert false_bound(8, 32, 10) == pytest.approx(8**2 / (32 * 0.8))
    assert false_bound(8, 32, 10, threshold=1.0) == pytest.approx(2.0)
    # One half without a partner is worth its chance itself: no bound at all for one alone.
    assert false_bound(8, 32, 1) == pytest.approx(8 / STABLE)
    assert false_bound(8, 32, 5) == pytest.approx(8 * (4 / 5 * 8 / 32 + 1 / 5) / 0.8)
    assert false_bound(32, 32, 10) == pytest.approx(32 / STABLE)
    with pytest.raises(ValueError, match="above 1/2"):
        false_bound(8, 32, 10, threshold=0.5)


def test_scores_are_numbered_by_subsample():
    frame = pd.DataFrame(
        {"kind": "enc-self", "layer": 0, "head": [0, 1], "score": [2.0, 1.0], "rank": [1, 2]}
    )
    table = subsample_scores({"x": [frame, frame], "y": []})
    assert tuple(table.columns) == TABLES["subsample_scores"].names
    assert table["subsample"].tolist() == [1, 1, 2, 2]
    assert tuple(subsample_scores({}).columns) == TABLES["subsample_scores"].names
