"""Raw p-values against scipy, statsmodels and enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.contingency_tables import mcnemar

from headtool.analysis.paired import Paired
from headtool.analysis.resampling import Swaps
from headtool.analysis.significance import choose_test, mcnemar_p, paired_tests
from headtool.errors import HeadtoolError
from headtool.metrics import get_metric

from ..support.bleu import sentences


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def accuracy(rng: np.random.Generator, n: int = 80, masks: int = 4) -> Paired:
    whole = (rng.random(n) < 0.8) * 1.0
    masked = np.where(rng.random((masks, n)) < 0.2, rng.random((masks, n)) < 0.5, whole)
    return Paired.from_values(whole, masked, higher_is_better=True, name="accuracy")


def test_mcnemar_is_the_binomial_test_and_that_of_statsmodels() -> None:
    for b, c in itertools.product(range(8), range(8)):
        p = float(mcnemar_p(b, c))
        if b + c:
            assert p == pytest.approx(scipy.stats.binomtest(b, b + c).pvalue, rel=1e-12)
        table = [[20, b], [c, 5]]
        assert p == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-12)


def test_mid_p_counts_equally_extreme_tables_by_half() -> None:
    for b, c in itertools.product(range(7), range(7)):
        n = b + c
        distances = np.abs(np.arange(n + 1) - n / 2)
        weight = scipy.stats.binom.pmf(np.arange(n + 1), n, 0.5)
        observed = abs(b - n / 2)
        expected = weight[distances > observed].sum() + weight[distances == observed].sum() / 2
        assert mcnemar_p(b, c, mid_p=True) == pytest.approx(expected if n else 1.0, abs=1e-12)


def test_mcnemar_equals_the_full_sign_flip_test(rng: np.random.Generator) -> None:
    """Both are exact tests of the same hypothesis, the second one by enumeration."""
    whole = np.ones(12)
    masked = np.ones((3, 12))
    masked[0, :6] = 0
    masked[1, :4] = 0
    paired = Paired.from_values(whole, masked, higher_is_better=True)
    exact = paired_tests(paired, test="mcnemar", rng=rng)
    flips = paired_tests(paired, test="sign-flip", rng=rng)
    assert flips.exact
    assert flips.resamples == 2**6  # six examples are changed by any mask
    np.testing.assert_allclose(flips.p, exact.p, rtol=1e-12)


def test_exact_sign_flips_equal_scipy(rng: np.random.Generator) -> None:
    whole, masked = rng.normal(size=9), rng.normal(size=(3, 9)) + 0.4
    paired = Paired.from_values(whole, masked, higher_is_better=False)
    ours = paired_tests(paired, rng=rng)
    assert (ours.test, ours.exact, ours.resamples) == ("sign-flip", True, 512)
    for p, row in zip(ours.p, masked, strict=True):
        theirs = scipy.stats.permutation_test(
            (row, whole),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        )
        assert p == pytest.approx(theirs.pvalue, rel=1e-12)


def test_ties_count_as_extreme() -> None:
    """Differences 1, 1, 1, -1: 10 of 16 sign patterns reach |sum| 2."""
    paired = Paired.from_values(
        [0.1, 0.2, 0.3, 0.4], [[1.1, 1.2, 1.3, -0.6]], higher_is_better=True
    )
    assert paired_tests(paired, rng=np.random.default_rng(0)).p[0] == pytest.approx(10 / 16)


def test_exact_randomisation_of_a_corpus_metric_equals_enumeration(
    rng: np.random.Generator,
) -> None:
    paired = sentences(rng, masks=2, n=9, changed=0.8)
    ours = paired_tests(paired, rng=rng)
    assert (ours.test, ours.exact) == ("randomisation", True)
    for p, masked, delta in zip(ours.p, paired.masked, paired.delta, strict=True):
        sizes = []
        for pattern in itertools.product([False, True], repeat=9):
            take = np.array(pattern)[:, None]
            first = paired.value(np.where(take, masked, paired.whole).sum(axis=0))
            second = paired.value(np.where(take, paired.whole, masked).sum(axis=0))
            sizes.append(abs(first - second))
        expected = np.mean(np.array(sizes) >= abs(delta) - 1e-9)
        assert p == pytest.approx(expected, rel=1e-12)


def test_monte_carlo_p_values_approach_the_exact_ones(rng: np.random.Generator) -> None:
    paired = accuracy(rng)
    exact = paired_tests(paired, test="mcnemar", rng=rng).p
    sampled = paired_tests(paired, test="randomisation", resamples=40_000, rng=rng)
    assert not sampled.exact
    error = np.sqrt(exact * (1 - exact) / 40_000)
    assert (np.abs(sampled.p - exact) < 4 * error + 1e-4).all()


def test_monte_carlo_p_is_never_zero(rng: np.random.Generator) -> None:
    paired = Paired.from_values(np.zeros(50), np.full((1, 50), 0.5), higher_is_better=True)
    assert paired_tests(paired, resamples=999, rng=rng).p.tolist() == [1 / 1000]


def test_perplexity_gives_the_p_of_the_loss(rng: np.random.Generator) -> None:
    """The losses of the two pseudo-systems add up to a constant, and exp is monotone."""
    tokens = rng.integers(5, 20, 60) * 1.0
    statistics = np.stack([rng.random((4, 60)) * tokens, np.broadcast_to(tokens, (4, 60))], -1)
    p = []
    for name in ("loss", "perplexity"):
        value = get_metric(name, task="causal-lm").from_sums
        paired = Paired(statistics[0], statistics[1:], value, higher_is_better=False)
        p.append(paired_tests(paired, rng=np.random.default_rng(4)).p)
    np.testing.assert_array_equal(*p)


@pytest.mark.parametrize("test", ["mcnemar", "mcnemar-midp", "sign-flip", "randomisation"])
def test_all_equal_outcomes_have_p_one(test: str, rng: np.random.Generator) -> None:
    whole = (rng.random(40) < 0.7) * 1.0
    paired = Paired.from_values(whole, np.stack([whole, whole]), higher_is_better=True)
    tests = paired_tests(paired, test=test, rng=rng, joint=True)
    assert tests.p.tolist() == [1.0, 1.0]
    assert Swaps(paired).active.size == 0


@pytest.mark.parametrize("mid_p", [False, True])
def test_joint_null_of_mcnemar_holds_the_p_values_of_swapped_tables(
    rng: np.random.Generator, mid_p: bool
) -> None:
    paired = accuracy(rng, n=30)
    name = "mcnemar-midp" if mid_p else "mcnemar"
    tests = paired_tests(paired, test=name, resamples=50, rng=np.random.default_rng(1), joint=True)
    swaps = Swaps(paired)
    bits = np.random.default_rng(1).integers(0, 2**64, (50, 1), dtype=np.uint64)
    patterns = np.unpackbits(bits.view(np.uint8), axis=1)[:, : len(swaps.active)].astype(bool)
    assert tests.null is not None
    for row, pattern in zip(tests.null, patterns, strict=True):
        for p, masked in zip(row, paired.masked[..., 0], strict=True):
            first, second = paired.whole[:, 0].copy(), masked.copy()
            rows = swaps.active[pattern]
            first[rows], second[rows] = masked[rows], paired.whole[rows, 0]
            b, c = (first > second).sum(), (second > first).sum()
            assert -p == pytest.approx(float(mcnemar_p(b, c, mid_p=mid_p)), rel=1e-12)


def test_masks_on_which_the_metric_is_undefined_get_nan(rng: np.random.Generator) -> None:
    metric = get_metric("pearson", task="regression")
    gold = rng.normal(size=30)
    rows = [gold + rng.normal(size=30), np.zeros(30), gold + rng.normal(size=30)]
    statistics = [metric.per_example({"prediction": row, "gold": gold}) for row in rows]
    paired = Paired(
        statistics[0], np.stack(statistics[1:]), metric.from_sums, higher_is_better=True
    )
    tests = paired_tests(paired, resamples=200, rng=rng, joint=True)
    assert np.isnan(tests.p).tolist() == [True, False]


def test_choice_and_refusal_of_tests(rng: np.random.Generator) -> None:
    binary, corpus = accuracy(rng), sentences(rng, masks=1, n=20, changed=0.5)
    mean = Paired.from_values(rng.random(9), rng.random((1, 9)), higher_is_better=False, name="mse")
    assert [choose_test(p) for p in (binary, mean, corpus)] == [
        "mcnemar",
        "sign-flip",
        "randomisation",
    ]
    with pytest.raises(HeadtoolError, match=r"'sign-flip' is invalid for bleu.*use randomisation"):
        choose_test(corpus, "sign-flip")
    with pytest.raises(HeadtoolError, match=r"'mcnemar' needs right or wrong.*mse.*use sign-flip"):
        choose_test(mean, "mcnemar")
    with pytest.raises(HeadtoolError, match="unknown test 'macnemar'; did you mean 'mcnemar'"):
        choose_test(binary, "macnemar")
