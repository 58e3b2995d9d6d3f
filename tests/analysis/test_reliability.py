"""Split-half reliability and disattenuation against closed forms, enumeration and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from headtool.analysis.correlation import correlate
from headtool.analysis.importance import Importance
from headtool.analysis.reliability import (
    disattenuate,
    spearman_brown,
    split_half_reliability,
)
from headtool.heads import Head

HEADS = [Head("enc-self", layer, head) for layer in range(10) for head in range(20)]


def noisy(rng, mean, *, reliability, n=80, name="d"):
    """Contributions whose mean has this reliability in expectation."""
    m = len(mean)
    sigma = math.sqrt((1 - reliability) / reliability * n) * mean.std()
    values = mean + sigma * rng.normal(size=(n, m))
    return Importance.from_contributions(name, HEADS[:m], values)


@pytest.mark.parametrize(
    ("r", "factor", "expected"),
    [(0.5, 2, 2 / 3), (0.8, 2, 8 / 9), (0.6, 3, 1.8 / 2.2), (0.9, 0.5, 0.45 / 0.55), (0, 2, 0)],
)
def test_spearman_brown_is_the_textbook_formula(r, factor, expected):
    assert spearman_brown(r, factor) == pytest.approx(expected)
    if factor:
        assert spearman_brown(spearman_brown(r, factor), 1 / factor) == pytest.approx(r)


def test_spearman_brown_without_a_meaning_is_nan():
    assert math.isnan(spearman_brown(-1.0))
    assert math.isnan(spearman_brown(-0.6, 3))
    assert math.isnan(spearman_brown(math.nan))


def test_halves_are_disjoint_and_complete():
    rng = np.random.default_rng(0)
    for n in (7, 8):
        values = rng.normal(size=(n, 5))
        data = Importance.from_contributions("d", HEADS[:5], values)
        for first, second in data.halves(splits=30, rng=rng):
            total = first * (n // 2) + second * (n - n // 2)
            assert total == pytest.approx(np.tile(values.sum(axis=0), (30, 1)))
            assert len(np.unique(first[:, 0])) > 10


def test_many_splits_average_all_splits():
    rng = np.random.default_rng(1)
    values = rng.normal(size=12) + rng.normal(size=(6, 12))
    data = Importance.from_contributions("d", HEADS[:12], values)
    every = []
    for chosen in itertools.combinations(range(6), 3):
        rest = [i for i in range(6) if i not in chosen]
        first, second = values[list(chosen)].mean(axis=0), values[rest].mean(axis=0)
        every.append(np.corrcoef(first, second)[0, 1])
    expected = 2 * np.mean(every) / (1 + np.mean(every))
    assert split_half_reliability(data, splits=4000, rng=rng) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("reliability", [0.2, 0.5, 0.9])
def test_reliability_is_the_share_of_variance_that_is_signal(reliability):
    rng = np.random.default_rng(2)
    mean = rng.normal(size=200)
    found = [
        split_half_reliability(noisy(rng, mean, reliability=reliability), splits=20, rng=rng)
        for _ in range(60)
    ]
    assert np.mean(found) == pytest.approx(reliability, abs=0.02)


def test_noise_alone_has_no_reliability():
    rng = np.random.default_rng(3)
    found = [
        split_half_reliability(
            Importance.from_contributions("d", HEADS, rng.normal(size=(40, 200))),
            splits=20,
            rng=rng,
        )
        for _ in range(60)
    ]
    assert abs(np.mean(found)) < 0.03


def test_reliability_is_nan_without_examples_or_variation():
    rng = np.random.default_rng(0)
    for data in (
        Importance.from_scores("d", HEADS[:3], [1, 2, 3]),
        Importance.from_contributions("d", HEADS[:3], np.ones((5, 3))),
        Importance.from_contributions("d", HEADS[:3], [[1, 2, math.nan], [3, 4, 5]]),
    ):
        assert math.isnan(split_half_reliability(data, splits=5, rng=rng))


@pytest.mark.parametrize(("rho", "rx", "ry"), [(0.5, 0.5, 0.8), (0.9, 0.4, 0.4), (0.0, 0.6, 0.6)])
def test_disattenuation_recovers_the_true_correlation(rho, rx, ry):
    rng = np.random.default_rng(4)
    mean = rng.normal(size=200)
    other = rng.normal(size=200)
    other -= mean * (other @ mean) / (mean @ mean)
    other = (
        rho * (mean - mean.mean()) / mean.std()
        + math.sqrt(1 - rho**2) * (other - other.mean()) / other.std()
    )
    truth = np.corrcoef(mean, other)[0, 1]
    raw, corrected = [], []
    for _ in range(100):
        x, y = noisy(rng, mean, reliability=rx), noisy(rng, other, reliability=ry)
        r = np.corrcoef(x.scores, y.scores)[0, 1]
        raw.append(r)
        corrected.append(
            disattenuate(
                r,
                split_half_reliability(x, splits=20, rng=rng),
                split_half_reliability(y, splits=20, rng=rng),
                minimum=0.05,
            )
        )
    assert np.mean(corrected) == pytest.approx(truth, abs=0.03)
    assert abs(np.mean(raw)) <= abs(truth) * math.sqrt(rx * ry) + 0.02


def test_disattenuation_is_refused_below_the_minimum():
    assert disattenuate(0.3, 0.5, 0.3) == pytest.approx(0.3 / math.sqrt(0.15))
    for pair in ((0.29, 0.9), (0.9, 0.29), (math.nan, 0.9), (0.9, math.nan), (-0.5, -0.5)):
        assert math.isnan(disattenuate(0.3, *pair))
    assert disattenuate(0.9, 0.5, 0.5) == pytest.approx(1.8)  # not cut off


def test_refusal_names_the_data_set_and_its_reliability():
    rng = np.random.default_rng(5)
    mean = rng.normal(size=200)
    good = noisy(rng, mean, reliability=0.9, name="good")
    noise = Importance.from_contributions("noise", HEADS, rng.normal(size=(40, 200)))
    row = correlate([good, noise], permutations=9, resamples=20, splits=20).iloc[0]
    assert math.isnan(row["disattenuated"])
    assert row["reliability_y"] < 0.3
    expected = f"the reliability on noise is {row['reliability_y']:.2f}, below 0.3"
    assert row["note"].startswith(expected)
    assert row["pearson_low"] < row["pearson"] < row["pearson_high"]
