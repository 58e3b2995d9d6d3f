"""Resamples: the literal loop, block independence, exactness, all patterns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from headtool.analysis import resampling
from headtool.analysis.paired import Paired
from headtool.analysis.resampling import (
    Sums,
    Swaps,
    bootstrap_deltas,
    bootstrap_weights,
    swap_deltas,
    swap_patterns,
)
from headtool.metrics import get_metric

from ..support.bleu import sentences


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def f1(rng: np.random.Generator, n: int = 30, masks: int = 3) -> Paired:
    metric = get_metric("f1", task="classification", n_labels=2)
    gold = rng.integers(0, 2, n)

    def statistics() -> NDArray[np.float64]:
        noise = rng.random(n) < 0.3
        return metric.per_example({"prediction": np.where(noise, 1 - gold, gold), "gold": gold})

    return Paired(
        statistics(),
        np.stack([statistics() for _ in range(masks)]),
        metric.from_sums,
        higher_is_better=True,
    )


def test_bootstrap_equals_the_literal_loop(rng: np.random.Generator) -> None:
    paired = f1(rng)
    deltas = bootstrap_deltas(paired, resamples=40, rng=np.random.default_rng(5))
    drawn = np.random.default_rng(5).integers(0, 30, (40, 30))
    for row, sample in zip(deltas, drawn, strict=True):
        whole = paired.value(paired.whole[sample].sum(axis=0))
        masked = paired.value(paired.masked[:, sample].sum(axis=1))
        np.testing.assert_allclose(row, masked - whole, atol=1e-14)


def test_swaps_equal_the_literal_loop(rng: np.random.Generator) -> None:
    paired = f1(rng)
    swaps = Swaps(paired)
    patterns = rng.integers(0, 2, (20, len(swaps.active)))
    for row, pattern in zip(swaps(patterns), patterns, strict=True):
        take = np.zeros(paired.n_examples, dtype=bool)
        take[swaps.active] = pattern == 1
        first = np.where(take[:, None], paired.masked, paired.whole).sum(axis=1)
        second = np.where(take[:, None], paired.whole, paired.masked).sum(axis=1)
        np.testing.assert_allclose(row, paired.value(first) - paired.value(second), atol=1e-14)


def test_swapping_means_is_flipping_signs(rng: np.random.Generator) -> None:
    """Of the summed losses, with the same token counts on both sides."""
    tokens = rng.integers(1, 30, 25) * 1.0
    loss = rng.random((4, 25)) * tokens
    statistics = np.stack([loss, np.broadcast_to(tokens, loss.shape)], axis=-1)
    metric = get_metric("loss", task="causal-lm")
    paired = Paired(statistics[0], statistics[1:], metric.from_sums, higher_is_better=False)
    swaps = Swaps(paired)
    patterns = rng.integers(0, 2, (50, 25))
    flipped = (2 * patterns - 1) @ (loss[1:] - loss[0]).T / tokens.sum()
    np.testing.assert_allclose(swaps(patterns), flipped, atol=1e-14)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_results_do_not_depend_on_the_blocks(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    paired = sentences(rng, masks=3, n=70, changed=0.5)

    def run() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        swaps = Swaps(paired)
        blocks = swap_deltas(paired, swaps, resamples=100, rng=np.random.default_rng(2))
        bootstrap = bootstrap_deltas(paired, resamples=100, rng=np.random.default_rng(1))
        return bootstrap, np.concatenate(list(blocks))

    in_one = run()
    monkeypatch.setattr(resampling, "block_rows", lambda paired: rows)
    for whole, blocked in zip(in_one, run(), strict=True):
        np.testing.assert_allclose(blocked, whole, rtol=0, atol=1e-12)


def test_blocks_are_bounded(rng: np.random.Generator) -> None:
    paired = sentences(rng, masks=40, n=300, changed=0.5)
    rows = resampling.block_rows(paired)
    numbers = rows * (paired.n_examples + paired.masked[:, 0].size)
    assert 8 * numbers <= resampling.BLOCK_BYTES
    sizes = [
        len(block) for block in bootstrap_weights(300, resamples=2 * rows + 3, rows=rows, rng=rng)
    ]
    assert sizes == [rows, rows, 3]


def test_counts_take_the_exact_float32_path_and_others_do_not(rng: np.random.Generator) -> None:
    counts = sentences(rng, masks=2, n=50, changed=0.5)
    assert Sums(counts)._matrix.dtype == np.float32
    weights = next(bootstrap_weights(50, resamples=20, rows=20, rng=rng))
    whole, masked = Sums(counts)(weights)
    assert (whole == weights @ counts.whole).all()
    assert (masked == np.einsum("rn,mnk->rmk", weights, counts.masked)).all()
    large = Paired.from_values([2.0**23, 0, 1], [[0.0, 1, 1]], higher_is_better=True)
    fractions = Paired.from_values([0.5, 0, 1], [[0.0, 1, 1]], higher_is_better=True)
    for paired in (large, fractions):
        assert Sums(paired)._matrix.dtype == np.float64


def test_few_patterns_are_enumerated_and_include_the_observed(rng: np.random.Generator) -> None:
    blocks = list(swap_patterns(5, resamples=32, rows=10, rng=rng))
    patterns = np.concatenate(blocks)
    assert {tuple(row) for row in patterns.tolist()} == set(itertools.product((0, 1), repeat=5))
    assert len(patterns) == 32
    assert len(np.concatenate(list(swap_patterns(5, resamples=31, rows=10, rng=rng)))) == 31


def test_examples_that_no_mask_changes_are_left_out() -> None:
    paired = Paired.from_values(
        [1.0, 0, 1, 1], [[1.0, 1, 1, 1], [1.0, 0, 1, 0]], higher_is_better=True
    )
    assert Swaps(paired).active.tolist() == [1, 3]


def test_coins_are_fair_and_independent(rng: np.random.Generator) -> None:
    coins = np.concatenate(list(swap_patterns(100, resamples=20_000, rows=999, rng=rng))) * 1.0
    assert np.abs(coins.mean(axis=0) - 0.5).max() < 0.02
    correlations = np.corrcoef(coins.T) - np.eye(100)
    assert np.abs(correlations).max() < 0.04
