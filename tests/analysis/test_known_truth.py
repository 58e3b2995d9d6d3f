"""How well scores find what is known to matter: closed forms, and scikit-learn where it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from headtool.analysis.known_truth import (
    area_under_roc,
    average_precision,
    mean_interval,
    share_above,
)
from headtool.errors import HeadtoolError


def test_pairs_of_equal_scores_count_half() -> None:
    assert share_above(np.array([2.0]), np.array([2.0])) == 0.5
    assert share_above(np.array([3.0, 1.0]), np.array([1.0, 0.0])) == (1 + 1 + 0.5 + 1) / 4


def test_perfect_reversed_and_constant_scores() -> None:
    positive = np.array([True, True, False, False, False])
    scores = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    assert area_under_roc(scores, positive) == average_precision(scores, positive) == 1.0
    assert area_under_roc(-scores, positive) == 0.0
    assert average_precision(-scores, positive) == (1 / 4 + 2 / 5) / 2
    assert area_under_roc(np.zeros(5), positive) == 0.5
    assert average_precision(np.zeros(5), positive) == 0.4
    with pytest.raises(HeadtoolError, match="alike"):
        area_under_roc(scores, np.ones(5, dtype=bool))


def test_both_are_what_scikit_learn_computes() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for _ in range(50):
        positive = rng.random(12) < 0.4
        positive[:2] = True, False
        scores = rng.integers(0, 6, size=12).astype(np.float64)
        assert area_under_roc(scores, positive) == pytest.approx(
            metrics.roc_auc_score(positive, scores)
        )
        assert average_precision(scores, positive) == pytest.approx(
            metrics.average_precision_score(positive, scores)
        )


def test_interval_over_models() -> None:
    values = [0.5, 0.7, 0.9]
    mean, low, high = mean_interval(values)
    reach = t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert (mean, low, high) == pytest.approx((0.7, 0.7 - reach, 0.7 + reach))
    assert np.isnan(mean_interval([0.5])[1:]).all()
