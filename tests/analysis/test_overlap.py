"""Overlap of kept heads against enumeration of all draws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from headtool.analysis.overlap import (
    consensus,
    jaccard,
    kept_frame,
    overlap,
    shared_distribution,
)
from headtool.heads import Head
from headtool.schema import TABLES

HEADS = [Head("enc-self", layer, index) for layer in range(2) for index in range(3)]
LAYERS = np.array([0, 0, 0, 1, 1, 1])


def keeping(*heads: int) -> np.ndarray:
    return np.isin(np.arange(6), heads)


def draws(like: np.ndarray, layers: np.ndarray):
    """Every set with as many heads in each layer."""
    for members in itertools.combinations(range(len(like)), int(like.sum())):
        drawn = np.isin(np.arange(len(like)), members)
        if all(drawn[layers == g].sum() == like[layers == g].sum() for g in np.unique(layers)):
            yield drawn


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 1, 3), (0, 1, 4)), ((0, 1, 2), (3, 4, 5)), ((0, 3, 4), (0, 1, 3)), ((0,), (0,))],
)
def test_p_and_expectation_equal_enumeration(first, second):
    x, y = keeping(*first), keeping(*second)
    budget = 6 - len(first)
    (row,) = overlap({"x": {budget: x}, "y": {budget: y}}, LAYERS).to_dict("records")
    for layers, p, expected in (
        (np.zeros(6), "p_hypergeometric", "expected"),
        (LAYERS, "p_within_layers", "expected_within_layers"),
    ):
        pairs = [(a, b) for a in draws(x, layers) for b in draws(y, layers)]
        shared = np.array([(a & b).sum() for a, b in pairs])
        assert row[p] == pytest.approx(np.mean(shared >= (x & y).sum()))
        assert row[expected] == pytest.approx(np.mean([jaccard(a, b) for a, b in pairs]))
    assert row["jaccard"] == pytest.approx(len({*first} & {*second}) / len({*first} | {*second}))
    assert row["share"] == pytest.approx(budget / 6)


def test_one_group_is_the_hypergeometric_distribution():
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 72)) < 0.4
    found = shared_distribution(first, second, np.zeros(72))
    a, b = int(first.sum()), int(second.sum())
    expected = scipy.stats.hypergeom.pmf(np.arange(min(a, b) + 1), 72, a, b)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_p_keeps_its_level_under_its_null():
    """Sets drawn within layers of unequal counts: the free p rejects far too often."""
    rng = np.random.default_rng(1)
    layers = np.repeat(np.arange(4), 10)
    counts = (9, 7, 3, 1)

    def drawn() -> np.ndarray:
        kept = np.zeros(40, bool)
        for layer, count in enumerate(counts):
            kept[rng.choice(np.flatnonzero(layers == layer), count, replace=False)] = True
        return kept

    rows = [overlap({"x": {20: drawn()}, "y": {20: drawn()}}, layers).iloc[0] for _ in range(400)]
    assert np.mean([row["p_within_layers"] <= 0.05 for row in rows]) <= 0.07
    assert np.mean([row["p_hypergeometric"] <= 0.05 for row in rows]) > 0.2


def test_budgets_that_leave_no_choice_have_no_row():
    everything, nothing = np.ones(6, bool), np.zeros(6, bool)
    kept = {0: everything, 3: keeping(0, 1, 2), 6: nothing}
    frame = overlap({"x": kept, "y": kept}, LAYERS)
    assert tuple(frame.columns) == TABLES["overlap"].names
    assert frame["budget"].tolist() == [3]
    assert math.isnan(jaccard(nothing, nothing))
    assert overlap({"x": kept}, LAYERS).empty


def test_consensus_counts_the_methods():
    kept = {"a": {3: keeping(0, 1, 2)}, "b": {3: keeping(0, 1, 3)}, "c": {3: keeping(0, 4, 5)}}
    frame = consensus(kept, HEADS)
    assert tuple(frame.columns) == TABLES["consensus"].names
    assert frame["methods_keeping"].tolist() == [3, 2, 1, 1, 1, 1]
    assert frame["status"].tolist() == ["consensus-kept", *["disputed"] * 5]
    two = {"a": kept["a"], "b": kept["b"]}
    status = consensus(two, HEADS)["status"]
    assert status.tolist() == [
        "consensus-kept",
        "consensus-kept",
        "disputed",
        "disputed",
        "consensus-removed",
        "consensus-removed",
    ]
    assert consensus({"a": kept["a"]}, HEADS).empty


def test_kept_heads_have_a_row_each():
    frame = kept_frame({"a": {3: keeping(0, 1, 2)}}, HEADS)
    assert tuple(frame.columns) == TABLES["kept"].names
    assert frame[["layer", "head", "kept"]].to_numpy().tolist() == [
        [0, 0, True],
        [0, 1, True],
        [0, 2, True],
        [1, 0, False],
        [1, 1, False],
        [1, 2, False],
    ]
    assert (frame["share"] == 0.5).all()
