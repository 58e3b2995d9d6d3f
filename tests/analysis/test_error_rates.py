"""The guarantees, by simulation: levels under the null, coverage, power at the stated effect.

2,000 seeded trials each. Where masks are independent given the whole model's outcomes, one mask is
one trial and all trials share the resamples; families of heads are simulated one at a time. The
bounds are three Monte Carlo standard errors.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from headtool.analysis.assessment import assess
from headtool.analysis.equivalence import noninferiority_p, verdicts
from headtool.analysis.intervals import bca_interval, newcombe_of, percentile_interval
from headtool.analysis.multiplicity import Correction, adjust, first_level, step_down
from headtool.analysis.paired import Paired
from headtool.analysis.power import mcnemar_power, minimum_detectable_effect
from headtool.analysis.resampling import bootstrap_deltas
from headtool.analysis.significance import mcnemar_p, paired_tests
from headtool.metrics import get_metric

Array = NDArray[np.float64]

TRIALS = 2_000


def at_most(rate: float, level: float) -> bool:
    return rate <= level + 3 * np.sqrt(level * (1 - level) / TRIALS)


def close_to(rate: float, level: float) -> bool:
    return abs(rate - level) <= 3 * np.sqrt(level * (1 - level) / TRIALS)


@pytest.fixture(autouse=True)
def _no_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A correction by statsmodels collects garbage, a tenth of a second in each of 2,000 trials."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_040_717)


def symmetric_means(rng: np.random.Generator) -> Paired:
    tokens = rng.integers(3, 30, 70) * 1.0
    whole = rng.gamma(2.0, size=70) * tokens
    masked = whole + rng.laplace(size=(TRIALS, 70)) * tokens
    denominators = np.broadcast_to(tokens, masked.shape)
    return Paired(
        np.stack([whole, tokens], axis=-1),
        np.stack([masked, denominators], axis=-1),
        get_metric("loss", task="causal-lm").from_sums,
        higher_is_better=False,
    )


def f1_of_random_errors(rng: np.random.Generator) -> Paired:
    """All systems err at random on a tenth of the same 250 examples."""
    metric = get_metric("f1", task="classification", n_labels=2)
    gold = rng.integers(0, 2, 250)

    def predict() -> Array:
        return np.where(rng.random(250) < 0.1, 1 - gold, gold) * 1.0

    rows = [metric.per_example({"prediction": predict(), "gold": gold}) for _ in range(TRIALS + 1)]
    return Paired(rows[0], np.stack(rows[1:]), metric.from_sums, higher_is_better=True)


def test_p_values_of_means_are_uniform(rng: np.random.Generator) -> None:
    p = paired_tests(symmetric_means(rng), resamples=1_999, rng=rng).p
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.01
    for level in (0.01, 0.05, 0.2):
        assert close_to((p <= level).mean(), level)


def test_means_keep_their_level_without_symmetry(rng: np.random.Generator) -> None:
    """Mean zero but skewed: valid asymptotically, shown here for 300 examples."""
    whole = np.zeros(300)
    masked = rng.exponential(size=(TRIALS, 300)) - 1
    paired = Paired.from_values(whole, masked, higher_is_better=False)
    assert close_to((paired_tests(paired, resamples=1_999, rng=rng).p <= 0.05).mean(), 0.05)


def test_p_values_of_corpus_metrics_are_uniform(rng: np.random.Generator) -> None:
    """A fresh whole model in every one of 200 trials of ten masks."""
    first, second = f1_of_random_errors(rng), f1_of_random_errors(rng)
    p = []
    for trial in range(200):  # ten masks at a time, each with the whole model of its trial
        whole = first.masked[trial]
        masked = second.masked[10 * trial : 10 * trial + 10]
        paired = Paired(whole, masked, first.value, higher_is_better=True)
        p.append(paired_tests(paired, resamples=499, rng=rng).p)
    for level in (0.05, 0.1, 0.3):
        rate = (np.concatenate(p) <= level).mean()
        # Ten masks share a whole model: their p-values correlate, hence the wider band.
        assert abs(rate - level) < 3 * np.sqrt(level * (1 - level) / 600)


def test_mcnemar_is_conservative_and_mid_p_close(rng: np.random.Generator) -> None:
    for n, rate in ((100, 0.2), (872, 0.01)):
        lost = rng.binomial(n, rate / 2, TRIALS * 10)
        won = rng.binomial(n - lost, rate / (2 - rate))
        exact, mid = mcnemar_p(lost, won), mcnemar_p(lost, won, mid_p=True)
        for level in (0.01, 0.05, 0.1):
            assert at_most((exact <= level).mean(), level)
            assert (mid <= level).mean() <= 1.15 * level
        assert (mid <= 0.05).mean() > (exact <= 0.05).mean()


def correlated_accuracy(rng: np.random.Generator, n: int, heads: int, harmed: int) -> Paired:
    """Heads that flip overlapping sets of predictions without net effect; `harmed` that hurt."""
    whole = np.ones(n)
    whole[: n // 2] = 0
    rng.shuffle(whole)
    fragile = rng.random(n) < 0.25
    flips = fragile & (rng.random((heads, n)) < 0.5)
    masked = np.where(flips, 1 - whole, whole)
    masked[:harmed] = np.where(rng.random((harmed, n)) < 0.5, 0.0, masked[:harmed])
    return Paired.from_values(whole, masked, higher_is_better=True)


def correlated_means(rng: np.random.Generator, n: int, heads: int, harmed: int) -> Paired:
    common = rng.normal(size=n)
    noise = 0.8 * common + 0.6 * rng.normal(size=(heads, n))
    noise[:harmed] += 0.6
    return Paired.from_values(np.zeros(n), noise, higher_is_better=False)


@pytest.mark.slow
@pytest.mark.parametrize("harmed", [0, 4])
@pytest.mark.parametrize("make", [correlated_accuracy, correlated_means])
def test_step_down_keeps_the_family_wise_error_rate(
    rng: np.random.Generator,
    make: Callable[[np.random.Generator, int, int, int], Paired],
    harmed: int,
) -> None:
    """Also among the true nulls when other heads have effects, and sharper than Holm."""
    errors, holm_errors, found = 0, 0, 0
    for _ in range(TRIALS):
        tests = paired_tests(make(rng, 60, 10, harmed), resamples=199, rng=rng, joint=True)
        adjusted = step_down(tests)
        errors += (adjusted[harmed:] <= 0.05).any()
        holm_errors += (adjust(tests.p, "holm")[harmed:] <= 0.05).any()
        found += (adjusted[:harmed] <= 0.05).sum()
    assert at_most(errors / TRIALS, 0.05)
    if harmed:
        assert found > 0.8 * harmed * TRIALS
    else:
        assert errors > holm_errors  # the room that Holm leaves unused


@pytest.mark.slow
def test_false_discovery_rates(rng: np.random.Generator) -> None:
    rates: dict[Correction, float] = {"holm": 0.0, "bh": 0.0, "by": 0.0}
    for _ in range(TRIALS):
        paired = correlated_means(rng, 40, 20, 8)
        p = paired_tests(paired, resamples=999, rng=rng).p
        for correction in rates:
            rejected = adjust(p, correction) <= 0.1
            rates[correction] += rejected[8:].sum() / max(1, rejected.sum()) / TRIALS
    assert at_most(rates["bh"], 0.1)
    assert rates["by"] < rates["bh"]
    assert rates["holm"] < rates["bh"]


def accuracy_trials(rng: np.random.Generator, n: int, lose: float, win: float) -> list[Paired]:
    """Independent trials in which the whole model differs as well, in batches of masks."""
    batches = []
    for _ in range(20):
        whole = (rng.random(n) < 0.9) * 1.0
        chance = rng.random((TRIALS // 20, n))
        masked = np.where(whole == 1, chance >= lose / 0.9, chance < win / 0.1) * 1.0
        batches.append(Paired.from_values(whole, masked, higher_is_better=True))
    return batches


@pytest.mark.parametrize(
    ("n", "lose", "win"), [(872, 0.02, 0.01), (872, 0.003, 0.002), (400, 0.05, 0.0)]
)
def test_newcombe_covers_accuracy_however_few_predictions_change(
    rng: np.random.Generator, n: int, lose: float, win: float
) -> None:
    covered = 0
    for paired in accuracy_trials(rng, n, lose, win):
        low, high = newcombe_of(paired)
        covered += ((low <= win - lose) & (win - lose <= high)).sum()
    assert at_most(1 - covered / TRIALS, 0.05)


@pytest.mark.parametrize("interval", ["percentile", "bca"])
@pytest.mark.parametrize("skewed", [False, True])
def test_bootstrap_intervals_of_means_cover(
    rng: np.random.Generator, interval: str, skewed: bool
) -> None:
    """Within 1.5 points of nominal for 200 examples: their error is of order 1/sqrt(n)."""
    noise = rng.exponential(size=(TRIALS, 200)) - 1 if skewed else rng.normal(size=(TRIALS, 200))
    paired = Paired.from_values(np.zeros(200), noise + 0.3, higher_is_better=True)
    deltas = bootstrap_deltas(paired, resamples=1_000, rng=rng)
    low, high = (
        percentile_interval(deltas) if interval == "percentile" else bca_interval(paired, deltas)
    )
    covered = ((low <= 0.3) & (high >= 0.3)).mean()
    assert 0.95 - 0.015 - 0.01 <= covered <= 0.95 + 0.015


def test_bootstrap_intervals_of_a_corpus_metric_cover(rng: np.random.Generator) -> None:
    """Perplexity over sentences of random length, whose true values are exp(2) and exp(2.1)."""
    value = get_metric("perplexity", task="causal-lm").from_sums
    truth = np.exp(2.1) - np.exp(2.0)
    covered = 0
    for _ in range(TRIALS):
        lengths = rng.integers(3, 20, 200) * 1.0
        whole = rng.gamma(4.0, 0.5, size=200) * lengths
        masked = whole + (0.1 + 0.3 * rng.normal(size=(1, 200))) * lengths
        paired = Paired(
            np.stack([whole, lengths], axis=-1),
            np.stack([masked, np.broadcast_to(lengths, masked.shape)], axis=-1),
            value,
            higher_is_better=False,
        )
        low, high = percentile_interval(bootstrap_deltas(paired, resamples=400, rng=rng))
        covered += int(low[0] <= truth <= high[0])
    assert 0.95 - 0.015 - 0.01 <= covered / TRIALS <= 0.95 + 0.015


@pytest.mark.parametrize("make", ["mean", "accuracy"])
def test_removable_is_rarely_said_of_heads_that_cost_the_margin(
    rng: np.random.Generator, make: str
) -> None:
    """At the boundary: the claim's error rate is alpha for one head, and for a family."""
    margin, heads = 0.05, 10
    wrong = family_wrong = 0
    for _ in range(TRIALS // 10 if make == "mean" else 200):
        if make == "mean":
            noise = 0.3 * rng.standard_t(5, size=(heads, 150)) + margin
            paired = Paired.from_values(np.full(150, 2.0), 2 + noise, higher_is_better=False)
        else:
            whole = (rng.random(600) < 0.9) * 1.0
            chance = rng.random((heads, 600))
            masked = np.where(whole == 1, chance >= 0.06 / 0.9, chance < 0.01 / 0.1) * 1.0
            paired = Paired.from_values(whole, masked, higher_is_better=True)
        raw = noninferiority_p(paired, margin)
        wrong += (raw <= 0.05).sum()
        said = verdicts(paired.benefit, np.ones(heads), adjust(raw, "holm"), alpha=0.05)
        family_wrong += (said == "removable").any()
    assert wrong / TRIALS < 0.067
    if make == "accuracy":  # of means the bound is for skewed ones, and stricter on these
        assert wrong / TRIALS > 0.033
    assert family_wrong / 200 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_power_at_the_stated_effect_of_means_after_correction(rng: np.random.Generator) -> None:
    """Head 0 of 8 has exactly the effect stated for Westfall-Young; found four times of five."""
    noise = rng.normal(size=(8, 120))
    plan = Paired.from_values(np.zeros(120), noise, higher_is_better=True)
    joint = paired_tests(plan, resamples=2_000, rng=rng, joint=True)
    level = first_level(joint, "westfall-young", 0.05)
    effect = minimum_detectable_effect(plan, level)[0] / (plan.stderr[0] * np.sqrt(120))
    found = 0
    for _ in range(TRIALS):
        trial = rng.normal(size=(8, 120))
        trial[0] += effect
        paired = Paired.from_values(np.zeros(120), trial, higher_is_better=True)
        tests = paired_tests(paired, resamples=199, rng=rng, joint=True)
        found += step_down(tests)[0] <= 0.05
    assert found / TRIALS == pytest.approx(0.8, abs=0.035)


def test_power_at_the_stated_effect_of_accuracy_after_correction(rng: np.random.Generator) -> None:
    n, heads = 500, 6
    whole = np.ones(n)
    whole[: n // 2] = 0

    def table(effect: float) -> Array:
        chance = rng.random((heads, n))
        masked = np.where(whole == 1, chance >= 0.08, chance < 0.08) * 1.0
        masked[0, whole == 1] = chance[0, whole == 1] >= 0.08 + effect
        masked[0, whole == 0] = chance[0, whole == 0] < 0.08 - effect
        return masked

    plan = assess(
        Paired.from_values(whole, table(0.0), higher_is_better=True), correction="holm"
    ).frame
    effect = 0.0
    for effect in np.linspace(0.0, 0.08, 400):  # the effect that has 80% power at discordance .08
        if mcnemar_power(effect, 0.08, n, 0.05 / heads)[0] >= 0.8:
            break
    assert plan["mde"].iloc[0] == pytest.approx(effect, rel=0.3)  # discordance is estimated
    found = 0
    for _ in range(TRIALS):
        paired = Paired.from_values(whole, table(effect), higher_is_better=True)
        tests = paired_tests(paired, test="mcnemar", rng=rng)
        found += tests.p[0] <= 0.05 / heads
    assert found / TRIALS == pytest.approx(0.8, abs=0.03)
