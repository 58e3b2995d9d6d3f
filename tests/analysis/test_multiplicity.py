"""Corrections against statsmodels and a literal step-down; the resamples that they need."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from headtool.analysis.multiplicity import (
    adjust,
    check_correction,
    default_resamples,
    first_level,
    resamples_needed,
    step_down,
)
from headtool.analysis.paired import Paired
from headtool.analysis.significance import PairedTests, paired_tests
from headtool.errors import HeadtoolError


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def literal_step_down(tests: PairedTests) -> list[float]:
    """Algorithm 2.8 of Westfall & Young with loops; smaller p or larger T first."""
    assert tests.null is not None
    order = sorted(range(len(tests.p)), key=lambda head: -tests.statistic[head])
    adjusted = [0.0] * len(order)
    highest = 0.0
    for step, head in enumerate(order):
        remaining = order[step:]
        reached = sum(max(row[h] for h in remaining) >= tests.statistic[head] for row in tests.null)
        p = (reached + 1) / (len(tests.null) + 1)
        highest = max(highest, p, tests.p[head])
        adjusted[head] = highest
    return adjusted


@pytest.mark.parametrize("kind", ["max-T", "min-P"])
def test_step_down_equals_the_literal_algorithm(rng: np.random.Generator, kind: str) -> None:
    shift = np.array([0.0, 0.1, 0.35, 0.6, 0.0])[:, None]
    if kind == "max-T":
        whole, masked = rng.normal(size=60), rng.normal(size=(5, 60)) + 1.5 * shift
    else:
        whole = np.zeros(60)
        masked = (rng.random((5, 60)) < shift) * 1.0
    paired = Paired.from_values(whole, masked, higher_is_better=True)
    tests = paired_tests(paired, resamples=300, rng=rng, joint=True)
    assert step_down(tests) == pytest.approx(literal_step_down(tests), rel=1e-12)


def test_step_down_lies_between_raw_and_bonferroni(rng: np.random.Generator) -> None:
    whole, masked = rng.normal(size=80), rng.normal(size=(6, 80)) + 0.3
    paired = Paired.from_values(whole, masked, higher_is_better=True)
    tests = paired_tests(paired, resamples=5_000, rng=rng, joint=True)
    adjusted = step_down(tests)
    assert (adjusted >= tests.p).all()
    assert (adjusted <= np.minimum(1, 6 * tests.p) + 0.02).all()


def test_identical_heads_cost_nothing(rng: np.random.Generator) -> None:
    """The resamples show that ten equal heads are one; Holm cannot know."""
    whole = rng.normal(size=50)
    row = whole + rng.normal(size=50) + 0.35
    paired = Paired.from_values(whole, np.tile(row, (10, 1)), higher_is_better=True)
    tests = paired_tests(paired, resamples=2_000, rng=rng, joint=True)
    np.testing.assert_allclose(step_down(tests), tests.p, rtol=1e-12)
    assert (adjust(tests.p, "holm") > 5 * tests.p).all()


def test_one_head_needs_no_correction(rng: np.random.Generator) -> None:
    paired = Paired.from_values(np.ones(30), np.zeros((1, 30)), higher_is_better=True)
    tests = paired_tests(paired, resamples=100, rng=rng, joint=True)
    assert step_down(tests).tolist() == tests.p.tolist()
    assert tests.p[0] == pytest.approx(2 * 0.5**30)


def test_exact_step_down_counts_shares(rng: np.random.Generator) -> None:
    paired = Paired.from_values(np.zeros(4), np.ones((2, 4)), higher_is_better=True)
    tests = paired_tests(paired, test="sign-flip", rng=rng, joint=True)
    assert tests.exact
    assert step_down(tests).tolist() == [2 / 16, 2 / 16]


@pytest.mark.parametrize(("name", "method"), [("holm", "holm"), ("bh", "fdr_bh"), ("by", "fdr_by")])
def test_adjust_is_statsmodels_on_the_tested_heads(name: str, method: str) -> None:
    p = np.array([0.001, np.nan, 0.02, 0.02, 0.8, np.nan, 0.04])
    tested = ~np.isnan(p)
    adjusted = adjust(p, check_correction(name))
    np.testing.assert_allclose(adjusted[tested], multipletests(p[tested], method=method)[1])
    assert np.isnan(adjusted[~tested]).all()
    assert adjust(p, "none") is not p
    np.testing.assert_array_equal(adjust(p, "none"), p)


def test_untested_heads_stay_nan_under_step_down(rng: np.random.Generator) -> None:
    null = np.abs(rng.normal(size=(99, 3)))
    null[:, 1] = np.inf
    tests = PairedTests(
        "randomisation",
        np.array([0.01, np.nan, 0.5]),
        np.array([2.6, np.nan, 0.7]),
        null,
        99,
        False,
    )
    adjusted = step_down(tests)
    assert np.isnan(adjusted).tolist() == [False, True, False]
    assert adjusted[0] < 0.1


def test_resamples_needed_by_every_correction() -> None:
    assert resamples_needed("holm", 0.01, 288) == 28_799
    assert resamples_needed("bh", 0.01, 288) == 28_799
    assert resamples_needed("westfall-young", 0.05, 288) == 19
    assert resamples_needed("none", 0.05, 288) == 19
    harmonic = sum(1 / rank for rank in range(1, 289))
    assert resamples_needed("by", 0.01, 288) == int(np.ceil(288 * harmonic / 0.01)) - 1
    assert default_resamples("holm", 0.01, 288) == 30_000
    assert default_resamples("holm", 0.05, 72) == 10_000


@pytest.mark.parametrize(("correction", "n_tests"), [("holm", 144), ("by", 30)])
def test_the_stated_number_is_the_smallest_that_can_pass(correction: str, n_tests: int) -> None:
    name = check_correction(correction)
    needed = resamples_needed(name, 0.01, n_tests)
    for resamples, passes in ((needed, True), (needed - 1, False)):
        p = np.ones(n_tests)
        p[0] = 1 / (resamples + 1)
        assert (adjust(p, name)[0] <= 0.01 + 1e-12) == passes


def test_first_level_is_bonferroni_or_read_off_the_resamples(rng: np.random.Generator) -> None:
    paired = Paired.from_values(
        rng.normal(size=90), rng.normal(size=(8, 90)), higher_is_better=True
    )
    tests = paired_tests(paired, resamples=4_000, rng=rng, joint=True)
    assert first_level(tests, "holm", 0.05) == 0.05 / 8
    assert first_level(tests, "none", 0.05) == 0.05
    assert 0.05 / 8 <= first_level(tests, "westfall-young", 0.05) < 0.05
    equal = Paired.from_values(
        paired.whole[:, 0], np.tile(paired.masked[0, :, 0], (8, 1)), higher_is_better=True
    )
    tests = paired_tests(equal, resamples=4_000, rng=rng, joint=True)
    assert first_level(tests, "westfall-young", 0.05) == pytest.approx(0.05, rel=0.1)


def test_unknown_correction_and_wrong_use() -> None:
    with pytest.raises(HeadtoolError, match="unknown correction 'hom'; did you mean 'holm'"):
        check_correction("hom")
    with pytest.raises(ValueError, match="use step_down"):
        adjust(np.ones(2), "westfall-young")
    tests = PairedTests("mcnemar", np.ones(2), -np.ones(2), None, 0, True)
    with pytest.raises(ValueError, match="joint=True"):
        step_down(tests)
