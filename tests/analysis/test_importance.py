"""Importance of heads on resampled examples, against literal resampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headtool.analysis.importance import Importance
from headtool.analysis.paired import Paired
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Head, HeadMask, Sites
from headtool.metrics import get_metric
from headtool.results.outcomes import Outcomes


def heads_of_layers(*widths):
    return [Head("enc-self", layer, head) for layer, n in enumerate(widths) for head in range(n)]


def bernoulli_paired(rng, n=40, masks=3):
    whole = rng.random(n) < 0.8
    masked = np.where(rng.random((masks, n)) < 0.2, ~whole, whole)
    return Paired.from_values(whole, masked, higher_is_better=True)


def test_importance_is_what_the_metric_loses():
    paired = Paired.from_values([1, 1, 0, 1], [[0, 1, 0, 1], [1, 1, 1, 1]], higher_is_better=True)
    data = Importance.from_paired("a", heads_of_layers(2), paired)
    assert data.scores.tolist() == [0.25, -0.25]
    losses = Paired.from_values([1.0, 2.0], [[2.0, 2.0]], higher_is_better=False)
    assert Importance.from_paired("a", heads_of_layers(1), losses).scores.tolist() == [0.5]


def test_outcomes_give_the_scores_of_single_head_ablation():
    sites = Sites((AttentionSite("enc-self", 0, 3, 3, 8, "out"),))
    masks = tuple(HeadMask.without(sites, [head]) for head in sites.heads)
    gold = np.array([0, 1, 1, 0, 1.0])
    rows = np.array([[0, 1, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 1, 0, 1.0]])
    ones = np.ones(5)
    columns = {"gold": gold, "loss": ones, "tokens": ones, "prediction": np.array([0, 1, 0, 0, 1])}
    masked = {name: np.tile(values, (3, 1)) for name, values in columns.items()}
    outcomes = Outcomes(masks, columns, masked | {"prediction": rows})
    metric = get_metric("accuracy", task="classification", n_labels=2)
    data = Importance.from_outcomes("dev", outcomes, metric)
    assert data.heads == sites.heads
    assert data.scores == pytest.approx([0.0, 0.8, -0.2])
    assert data.n_examples == 5


@pytest.mark.parametrize("kind", ["contributions", "paired"])
def test_weights_of_one_give_the_scores_and_repeats_count(kind):
    rng = np.random.default_rng(2)
    paired = bernoulli_paired(rng)
    heads = heads_of_layers(3)
    contributions = (paired.whole[:, 0] - paired.masked[..., 0]).T
    data = (
        Importance.from_contributions("d", heads, contributions)
        if kind == "contributions"
        else Importance.from_paired("d", heads, paired)
    )
    drawn = rng.integers(0, 40, (5, 40))
    weights = np.array([np.bincount(row, minlength=40) for row in drawn])
    assert data.rescore(np.ones((1, 40), dtype=int))[0] == pytest.approx(data.scores)
    expected = np.array([contributions[row].mean(axis=0) for row in drawn])
    assert data.rescore(weights) == pytest.approx(expected)


def test_metrics_that_are_no_means_are_recomputed_from_sums():
    rng = np.random.default_rng(4)
    whole, masked = rng.random((30, 2)) + 1, rng.random((2, 30, 2)) + 1

    def value(sums):
        return np.exp(sums[..., 0] / sums[..., 1])

    paired = Paired(whole, masked, value, higher_is_better=False)
    data = Importance.from_paired("d", heads_of_layers(2), paired)
    rows = rng.integers(0, 30, 30)
    weights = np.bincount(rows, minlength=30)[None]
    expected = [value(part[rows].sum(0)) - value(whole[rows].sum(0)) for part in masked]
    assert data.rescore(weights)[0] == pytest.approx(expected)


def test_bootstrap_spread_is_the_standard_error_of_the_mean():
    rng = np.random.default_rng(6)
    values = rng.normal(size=(50, 4)) * [1, 2, 3, 4]
    data = Importance.from_contributions("d", heads_of_layers(4), values)
    drawn = data.bootstrap(resamples=4000, rng=rng)
    assert drawn.shape == (4000, 4)
    assert drawn.std(axis=0) == pytest.approx(values.std(axis=0) / math.sqrt(50), rel=0.05)


def test_sites_of_different_kinds_are_different_layers():
    heads = [Head("enc-self", 0, 0), Head("cross", 0, 0), Head("enc-self", 0, 1)]
    assert Importance.from_scores("x", heads, [1, 2, 3]).layers.tolist() == [0, 1, 0]


def test_bad_importance_is_one_line():
    heads = heads_of_layers(2)
    with pytest.raises(HeadtoolError, match=r"head enc-self\.0\.0 occurs twice in 'x'"):
        Importance.from_scores("x", [heads[0], "enc-self.0.0"], [1, 2])
    with pytest.raises(HeadtoolError, match="2 heads but scores of shape"):
        Importance.from_scores("x", heads, [1, 2, 3])
    with pytest.raises(HeadtoolError, match=r"must be \[examples, 2 heads\]"):
        Importance.from_contributions("x", heads, [1, 2])
    for values in (np.ones((1, 2)), np.empty((0, 2))):
        with pytest.raises(HeadtoolError, match=r"example\(s\); resampling needs at least two"):
            Importance.from_contributions("x", heads, values)
    with pytest.raises(ValueError, match="scores only"):
        Importance.from_scores("x", heads, [1, 2]).bootstrap(
            resamples=3, rng=np.random.default_rng(0)
        )
