"""Minimum detectable effects and sample sizes against exact sums, closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.power import TTestPower

from headtool.analysis.equivalence import noninferiority_p, plain_noninferiority_p
from headtool.analysis.paired import Paired
from headtool.analysis.power import (
    discordance_bound,
    examples_needed,
    mcnemar_power,
    minimum_detectable_effect,
)
from headtool.analysis.rare_costs import low_cost_p
from headtool.analysis.significance import mcnemar_p, paired_tests

from ..support.bleu import sentences


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(41)


@pytest.mark.parametrize(("effect", "discordance"), [(0.1, 0.15), (0.0, 0.2), (0.12, 0.12)])
def test_mcnemar_power_equals_the_sum_over_all_tables(effect: float, discordance: float) -> None:
    n, level = 90, 0.01
    lost, won = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    possible = lost + won <= n
    lost, won = lost[possible], won[possible]
    cells = [(discordance + effect) / 2, (discordance - effect) / 2, 1 - discordance]
    weight = scipy.stats.multinomial.pmf(np.stack([lost, won, n - lost - won], -1), n, cells)
    expected = weight[mcnemar_p(lost, won) <= level].sum()
    assert mcnemar_power(effect, discordance, n, level)[0] == pytest.approx(expected, abs=1e-8)


def test_mde_of_accuracy_has_the_stated_power(rng: np.random.Generator) -> None:
    n = 400
    whole = np.ones(n)
    masked = np.ones((3, n))
    masked[1, :9] = 0
    masked[2, :60] = 0
    whole[30:60], masked[2, 30:60] = 0, 1
    masked[:2, 30:60] = 0
    paired = Paired.from_values(whole, masked, higher_is_better=True)
    assert np.add(*paired.discordant).tolist() == [0, 9, 60]
    mde = minimum_detectable_effect(paired, 0.05)
    discordance = np.maximum(np.array([0, 9, 60]) / n, mde)
    power = mcnemar_power(mde, discordance, n, 0.05)
    assert power == pytest.approx(0.8, abs=0.002)
    # Without one discordant example six in one direction are needed for p < .05: not zero.
    assert 6 / n < mde[0] < 12 / n
    assert mde[0] < mde[1] < mde[2]


def test_no_effect_is_detectable_with_too_few_examples() -> None:
    """2 * 2^-5 > .05: not even five of five."""
    paired = Paired.from_values(np.ones(5), np.zeros((1, 5)), higher_is_better=True)
    assert np.isnan(minimum_detectable_effect(paired, 0.05)).all()


def test_mde_of_means_is_that_of_the_paired_t_test(rng: np.random.Generator) -> None:
    whole, masked = rng.normal(size=120), rng.normal(size=(2, 120))
    paired = Paired.from_values(whole, masked, higher_is_better=False)
    mde = minimum_detectable_effect(paired, 0.01)
    for mask in range(2):
        deviation = np.std(masked[mask] - whole, ddof=1)
        power = TTestPower().power(mde[mask] / deviation, 120, 0.01)
        assert power == pytest.approx(0.8, abs=1e-6)


def test_mde_of_means_at_a_level_where_statsmodels_answers_with_an_array(
    rng: np.random.Generator,
) -> None:
    whole = rng.normal(size=60)
    paired = Paired.from_values(whole, [whole + rng.normal(size=60)], higher_is_better=True)
    levels = (0.0098, 0.009881858569942573, 0.0099)
    values = [minimum_detectable_effect(paired, level)[0] for level in levels]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(values[2], rel=0.01)


def test_mde_is_nan_where_nothing_varies() -> None:
    paired = Paired.from_values([1.0, 2.0, 3.0], [[1.0, 2.0, 3.0]], higher_is_better=False)
    assert np.isnan(minimum_detectable_effect(paired, 0.05)).all()


@pytest.mark.parametrize("kind", ["mean", "corpus"])
def test_planted_effects_of_the_size_of_the_mde_are_found_with_80_percent(
    rng: np.random.Generator, kind: str
) -> None:
    """Trials are masks: the differences are independent, the power is a share of masks."""
    trials = 2_000
    if kind == "mean":
        n = 150
        noise = rng.gamma(2.0, size=(trials, n)) - 2.0
        whole = np.zeros(n)
        spread = np.sqrt(2.0)
        effect = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8) * spread
        paired = Paired.from_values(whole, noise + effect, higher_is_better=False)
        stated = minimum_detectable_effect(paired, 0.05)
        assert np.median(stated) == pytest.approx(effect, rel=0.05)
    else:
        n = 200
        gold = rng.normal(size=n)
        statistics = np.stack([gold, np.ones(n)], axis=1)
        paired = Paired(
            statistics,
            np.stack([gold + 0.2 * rng.normal(size=(trials, n)), np.ones((trials, n))], axis=-1),
            lambda sums: np.exp(sums[..., 0] / sums[..., 1]),
            higher_is_better=False,
        )
        effect = float(np.median(minimum_detectable_effect(paired, 0.05)))
        # Shift every example so that exp(mean) rises by the effect.
        shift = np.log(paired.whole_value + effect) - np.log(paired.whole_value)
        masked = paired.masked.copy()
        masked[..., 0] += shift
        paired = Paired(statistics, masked, paired.value, higher_is_better=False)
    found = paired_tests(paired, resamples=999, rng=rng).p <= 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.035)


def settle(paired: Paired, margin: float, rng: np.random.Generator) -> float:
    return float(
        examples_needed(
            paired,
            np.ones(1, dtype=np.bool_),
            margin=margin,
            level=0.05,
            level_noninferior=0.05,
            rng=rng,
        )[0]
    )


@pytest.mark.parametrize(("lost", "won"), [(2, 2), (4, 3), (12, 4), (0, 0)])
def test_so_many_examples_settle_accuracy_with_80_percent(
    rng: np.random.Generator, lost: int, won: int
) -> None:
    n, margin = 300, 0.01
    whole = np.array([1.0] * 250 + [0.0] * 50)
    masked = whole.copy()
    masked[:lost] = 0
    masked[250 : 250 + won] = 1
    paired = Paired.from_values(whole, masked[None], higher_is_better=True)
    needed = int(settle(paired, margin, rng))

    seen, effect = discordance_bound(lost + won, n), (won - lost) / n
    assert seen > (lost + won) / n

    def power(examples: int) -> float:
        cells = [(seen - effect) / 2, (seen + effect) / 2, 1 - seen]
        counts = rng.multinomial(examples, cells, size=20_000)
        tables = np.unique(counts, axis=0, return_counts=True)
        settled = 0.0
        for (b, c, _), times in zip(*tables, strict=True):
            row = np.zeros(examples)
            row[:b] = 1
            other = np.zeros(examples)
            other[b : b + c] = 1
            trial = Paired.from_values(row, other[None], higher_is_better=True)
            if mcnemar_p(b, c) <= 0.05 or noninferiority_p(trial, margin)[0] <= 0.05:
                settled += times
        return settled / 20_000

    assert power(needed) > 0.76
    assert power(max(2, int(needed * 0.85))) < 0.84


@pytest.mark.parametrize("shift", [-0.02, 0.0, 0.01, 0.2])
def test_so_many_examples_settle_means_with_80_percent(
    rng: np.random.Generator, shift: float
) -> None:
    noise = rng.normal(size=200)
    noise = 0.4 * (noise - noise.mean()) / noise.std(ddof=1)
    paired = Paired.from_values(
        np.full(200, 3.0), 3.0 + shift + noise[None], higher_is_better=False
    )
    margin = 0.05
    needed = int(settle(paired, margin, rng))
    standardised = shift / 0.4
    found = TTestPower().power(standardised, needed, 0.05)
    said = 0
    for _ in range(400):
        sample = 3.0 + shift + 0.4 * rng.normal(size=(1, needed))
        trial = Paired.from_values(np.full(needed, 3.0), sample, higher_is_better=False)
        said += noninferiority_p(trial, margin)[0] <= 0.05
    assert max(found, said / 400) > 0.74
    if needed > 598:  # below that one head alone is never shown to be removable
        assert max(found, said / 400) < 0.86


def test_unchanged_examples_need_as_many_as_show_what_befalls_one_in_200(
    rng: np.random.Generator,
) -> None:
    whole = np.array([1.0, 2.0, 3.0])
    paired = Paired.from_values(whole, whole[None], higher_is_better=False)
    assert plain_noninferiority_p(paired, 0.1)[0] == 0.5**3
    assert settle(paired, 0.1, rng) == 598  # .995^598 < .05 < .995^597
    many = Paired.from_values(np.ones(598), np.ones((1, 598)), higher_is_better=False)
    few = Paired.from_values(np.full(597, 0.5), np.full((1, 597), 0.5), higher_is_better=False)
    assert noninferiority_p(few, 0.1)[0] > 0.05
    assert low_cost_p(np.zeros((1, 598)), 0.1)[0] < 0.05
    assert many.form == "binary"


def test_an_accuracy_that_never_changed_is_not_taken_for_one_that_never_will(
    rng: np.random.Generator,
) -> None:
    """The bound on a discordance of 0 of 300 is .0099: 2.3 times as many examples as without it."""
    whole = np.ones(300)
    paired = Paired.from_values(whole, whole[None], higher_is_better=True)
    assert discordance_bound(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300), rel=1e-9)
    needed = settle(paired, 0.01, rng)
    assert needed > 500  # 268 unchanged examples would do, if they all were to be unchanged
    assert plain_noninferiority_p(
        Paired.from_values(np.ones(268), np.ones((1, 268)), higher_is_better=True), 0.01
    )[0] == pytest.approx(0.05, abs=0.0005)


def test_only_the_heads_asked_for_are_answered(rng: np.random.Generator) -> None:
    paired = sentences(rng, masks=3, n=100, changed=0.3)
    which = np.array([True, False, True])
    needed = examples_needed(paired, which, margin=1.0, level=0.01, level_noninferior=0.02, rng=rng)
    assert np.isnan(needed).tolist() == [False, True, False]
