"""Bets and early stopping against literal products, all orders, and simulated optional stopping."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from headtool.analysis.assessment import assess
from headtool.analysis.betting import FRACTIONS, log_capital, lower_bound, upper_bound
from headtool.analysis.paired import Paired
from headtool.analysis.sequential import SequentialTest
from headtool.errors import HeadtoolError
from headtool.schema import TABLES

TRIALS = 2000


def names(count):
    return [f"dec-self.{i // 100}.{i % 100}" for i in range(count)]


def at_most(level, trials=TRIALS):
    return level + 3 * math.sqrt(level * (1 - level) / trials)


def outcomes(rng, shape, worse, better):
    """Paired outcomes of accuracy: -1 and 1 with these probabilities, else 0."""
    u = rng.random(shape)
    return np.where(u < worse, -1.0, np.where(u < np.add(worse, better), 1.0, 0.0))


def literal_capital(x, m, total=None):
    """The product of section 4 of the paper for every fraction, and the mean over fractions."""
    path = []
    for n in range(1, len(x) + 1):
        capitals = []
        for g in FRACTIONS:
            capital = 1.0
            for i in range(n):
                rest = m if total is None else (total * m - sum(x[:i])) / (total - i)
                capital *= 1 + (g / rest) * (x[i] - rest)
            capitals.append(capital)
        path.append(np.mean(capitals))
    return path


# --- bets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [None, 9, 30])
def test_capital_is_the_literal_product(total):
    x = np.random.default_rng(0).random((3, 9)) * 0.5
    for m in (0.45, 0.5, 0.8):
        capital, _ = log_capital(x, m, total=total)
        for row, values in zip(np.exp(capital), x, strict=True):
            assert row == pytest.approx(literal_capital(values, m, total))


@pytest.mark.parametrize("total", [None, 40])
def test_capital_goes_on_from_where_it_was(total):
    x = np.random.default_rng(1).random((4, 20))
    whole, end = log_capital(x, 0.5, total=total)
    first, carried = log_capital(x[:, :7], 0.5, total=total)
    before = (7, x[:, :7].sum(axis=1), carried)
    second, last = log_capital(x[:, 7:], 0.5, total=total, before=before)
    assert np.concatenate([first, second], axis=1) == pytest.approx(whole)
    assert last == pytest.approx(end)


POPULATION = (0.0, 0.3, 0.5, 0.5, 0.7, 1.0)


def test_capital_keeps_its_mean_over_all_orders_without_replacement():
    orders = np.array(list(itertools.permutations(POPULATION)))
    capital, _ = log_capital(orders, float(np.mean(POPULATION)), total=6)
    assert np.exp(capital).mean(axis=0) == pytest.approx(np.ones(6))
    for m in (0.55, 0.7, 0.9):  # the claim "at most m" holds as well, and bets on more lose
        capital, _ = log_capital(orders, m, total=6)
        assert (np.exp(capital).mean(axis=0) < 1).all()


@pytest.mark.parametrize("m", [0.2, 0.5, 0.8])
def test_capital_keeps_its_mean_over_all_sequences_with_replacement(m):
    sequences = np.array(list(itertools.product([0.0, 1.0], repeat=8)))
    chance = np.prod(np.where(sequences == 1, m, 1 - m), axis=1)
    capital, _ = log_capital(sequences, m)
    assert chance @ np.exp(capital) == pytest.approx(np.ones(8))


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3, 0.6])
def test_ville_holds_exactly_over_all_orders(alpha):
    """Of all orders of a set, at most alpha ever lead to the refutation of its true mean."""
    for population in (POPULATION, (0, 0, 0, 0, 1, 1, 1), (0.5, 0.5, 0.5, 0.5, 0.5, 1.0)):
        orders = np.array(list(itertools.permutations(population)), dtype=float)
        capital, _ = log_capital(orders, float(np.mean(population)), total=len(population))
        assert np.mean(capital.max(axis=1) >= math.log(1 / alpha)) <= alpha


@pytest.mark.parametrize("total", [None, 60])
def test_capital_falls_in_the_mean_and_bounds_invert_it(total):
    x = outcomes(np.random.default_rng(2), (1, 50), 0.1, 0.4) / 2 + 0.5
    grid = np.linspace(0.01, 0.99, 99)
    last = [log_capital(x, m, total=total)[0][0, -1] for m in grid]
    assert all(a > b or (math.isinf(a) and a == b) for a, b in itertools.pairwise(last))
    low, high = (bound(x[0], 40.0, total=total) for bound in (lower_bound, upper_bound))
    assert 0.3 < low < x.mean() < high < 0.9
    at_low, at_high = [
        [log_capital(values, m + step, total=total)[0][0, -1] for step in (-1e-5, 1e-5)]
        for values, m in ((x, low), (1 - x, 1 - high))
    ]
    for inside, outside in (at_low[::-1], at_high[::-1]):
        assert inside < math.log(40) < outside


def test_bounds_know_what_a_finite_set_has_left():
    x = np.array([1.0, 1, 1, 0, 1, 1, 1, 1])
    assert lower_bound(x, 1e12, total=10) == pytest.approx(0.7, abs=1e-6)
    assert upper_bound(x, 1e12, total=10) == pytest.approx(0.9, abs=1e-6)
    assert lower_bound(x, 20.0, total=8) == pytest.approx(7 / 8, abs=1e-6)
    assert upper_bound(x, 20.0, total=8) == pytest.approx(7 / 8, abs=1e-6)
    assert lower_bound(np.zeros(5), 20.0) == 0.0
    assert upper_bound(np.ones(5), 20.0) == 1.0


# --- error rates under optional stopping --------------------------------------------------------


def errors_of(values, *, total, margin=0.1, alpha=0.05):
    """Feed all examples, a head per row; returns the verdicts."""
    test = SequentialTest(
        names(len(values)), margin=margin, total=total, alpha=alpha, correction="none"
    )
    test.update(values)
    return test


@pytest.mark.parametrize("total", [None, 400])
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_no_effect_is_seldom_called_one_at_any_time(total, share):
    """2,000 heads without any effect, each looked at after every one of 400 examples."""
    rng = np.random.default_rng(3)
    if total is None:
        values = outcomes(rng, (TRIALS, 400), share / 2, share / 2)
    else:
        changed = round(400 * share / 2)
        one = np.repeat([-1.0, 1.0, 0.0], [changed, changed, 400 - 2 * changed])
        values = rng.permuted(np.tile(one, (TRIALS, 1)), axis=1)
    verdicts = errors_of(values, total=total).verdicts
    wrong = np.mean((verdicts == "needed") | (verdicts == "harmful"))
    assert wrong <= at_most(0.05)
    if share == 0.5:
        assert wrong > 0.002  # the test is not empty


@pytest.mark.parametrize("total", [None, 400])
def test_a_cost_of_the_margin_is_seldom_called_removable(total):
    rng = np.random.default_rng(4)
    if total is None:
        values = outcomes(rng, (TRIALS, 400), 0.15, 0.05)
    else:
        one = np.repeat([-1.0, 1.0, 0.0], [60, 20, 320])
        values = rng.permuted(np.tile(one, (TRIALS, 1)), axis=1)
    verdicts = errors_of(values, total=total, margin=0.1).verdicts
    assert 0.001 < np.mean((verdicts == "removable") | (verdicts == "harmful")) <= at_most(0.05)
    assert np.mean(verdicts == "needed") > 0.5


@pytest.mark.parametrize("total", [None, 150])
def test_confidence_sequences_cover_when_stopped_at_the_worst_moment(total):
    """The interval misses the mean at some time only where the capital against it was enough."""
    rng = np.random.default_rng(5)
    values = outcomes(rng, (TRIALS, 150), 0.2, 0.3)
    mean = np.full(TRIALS, 0.1) if total is None else values.mean(axis=1)
    missed = np.zeros(TRIALS, dtype=bool)
    for row, m in enumerate((mean + 1) / 2):
        x = (values[row : row + 1] + 1) / 2
        above, _ = log_capital(x, m, total=total)
        below, _ = log_capital(1 - x, 1 - m, total=total)
        missed[row] = max(above.max(), below.max()) >= math.log(2 / 0.05)
    assert 0.002 < missed.mean() <= at_most(0.05)
    # ... and the intervals that are shown are those sequences
    for row in np.flatnonzero(missed)[:3].tolist() + np.flatnonzero(~missed)[:20].tolist():
        for n in (10, 60, 150):
            test = SequentialTest(names(1), margin=0.99, total=total, correction="none")
            test.update(values[row : row + 1, :n])
            low, high = test.intervals()
            if not missed[row]:
                assert low[0] - 1e-6 <= mean[row] <= high[0] + 1e-6


def test_bonferroni_keeps_the_error_over_all_heads():
    rng = np.random.default_rng(6)
    trials, wrong = 400, 0
    for _ in range(trials):
        shared = outcomes(rng, (1, 150), 0.3, 0.3)  # heads that err together
        own = outcomes(rng, (12, 150), 0.3, 0.3)
        values = np.where(rng.random((12, 150)) < 0.5, shared, own)
        test = SequentialTest(names(12), margin=0.3, total=None)
        test.update(values)
        wrong += any(verdict in ("needed", "harmful") for verdict in test.verdicts)
    assert wrong / trials <= at_most(0.05, trials)


@pytest.mark.slow
def test_e_bh_keeps_the_share_of_false_claims_and_stops_earlier():
    rng = np.random.default_rng(7)
    trials, shares, examples = 60, [], {"e-bh": 0, "bonferroni": 0}
    effect = np.arange(80) < 60
    for _ in range(trials):
        values = outcomes(rng, (80, 300), np.where(effect, 0.5, 0.3)[:, None], 0.3)
        values[effect & (np.arange(80) % 2 == 0)] *= -1
        for correction in examples:
            test = SequentialTest(names(80), margin=0.1, total=None, correction=correction)
            test.update(values)
            examples[correction] += test.n_examples.sum()
            if correction == "e-bh":
                found = (test.verdicts == "needed") | (test.verdicts == "harmful")
                shares.append((found & ~effect).sum() / max(1, found.sum()))
    assert np.mean(shares) <= at_most(0.05, trials)
    assert examples["e-bh"] < 0.85 * examples["bonferroni"]


# --- stopping ---------------------------------------------------------------------------------


def mixed_heads(n=3000, seed=8):
    """Right answers of a whole model, and of 20 masks that hurt, help or change hardly anything."""
    rng = np.random.default_rng(seed)
    whole = rng.random(n) < 0.5
    lost = np.repeat([0.3, 0.06, 0.0, 0.004], 5)[:, None]
    won = np.repeat([0.06, 0.3, 0.0, 0.004], 5)[:, None]
    changed = rng.random((20, n)) < np.where(whole, lost, won)
    return Paired.from_values(whole, whole ^ changed, higher_is_better=True)


def differences(paired):
    return paired.masked[..., 0] - paired.whole[:, 0]


@pytest.mark.parametrize("total", [None, 3000])
@pytest.mark.parametrize("correction", ["bonferroni", "e-bh"])
def test_clear_effects_have_the_verdicts_of_the_full_test_on_a_third_of_the_examples(
    total, correction
):
    paired = mixed_heads()
    values = differences(paired)
    test = SequentialTest(names(20), margin=0.03, total=total, correction=correction)
    order = np.random.default_rng(1).permutation(3000)
    start = 0
    while len(test.active):
        test.update(values[np.ix_(test.active, order[start : start + 64])])
        start += 64
    full = assess(paired, margin=0.03, resamples=1000).frame["verdict"].tolist()
    assert full == np.repeat(["needed", "harmful", "removable"], [5, 5, 10]).tolist()
    assert test.verdicts.tolist() == full
    assert test.n_examples.sum() < values.size / 3


@pytest.mark.parametrize("correction", ["bonferroni", "e-bh", "none"])
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_blocks_do_not_matter(correction, block):
    values = differences(mixed_heads(1000))
    frames = []
    for size in (block, 1000):
        test = SequentialTest(names(20), margin=0.05, total=1000, correction=correction)
        for start in range(0, 1000, size):
            test.update(values[test.active, start : start + size])
        frames.append(test.frame())
    assert frames[0]["n_examples"].equals(frames[1]["n_examples"])
    assert frames[0]["verdict"].equals(frames[1]["verdict"])
    for column in ("delta", "ci_low", "ci_high"):
        assert frames[0][column].to_numpy() == pytest.approx(frames[1][column].to_numpy())


def test_with_the_last_example_everything_is_known():
    rng = np.random.default_rng(9)
    values = outcomes(rng, (60, 80), 0.12, 0.1)
    values[0] = 0.0
    test = SequentialTest(names(60), margin=0.05, total=80)
    test.update(values)
    assert len(test.active) == 0
    mean = values.mean(axis=1)
    for m, verdict in zip(mean, test.verdicts, strict=True):
        assert m < 0 or verdict != "needed"
        assert m > 0 or verdict != "harmful"
        assert m > -0.05 or verdict == "needed"
    low, high = test.intervals()
    assert (low - 1e-5 <= mean).all()
    assert (mean <= high + 1e-5).all()
    full = test.n_examples == 80
    assert full.any()
    seen = SequentialTest(names(60), margin=0.05, total=None)
    seen.update(values)
    assert len(seen.active) > 0  # of the population, 80 examples do not tell enough


def test_a_helpful_removal_is_not_stopped_as_removable():
    values = outcomes(np.random.default_rng(10), (40, 2000), 0.02, 0.08)
    test = SequentialTest(names(40), margin=0.02, total=None)
    test.update(values)
    assert (test.verdicts == "harmful").all()


def test_intervals_agree_with_the_claims():
    values = differences(mixed_heads(600))
    test = SequentialTest(names(20), margin=0.05, total=600)
    test.update(values)
    frame = test.frame()
    assert tuple(frame.columns) == TABLES["sequential"].names
    assert (frame["ci_high"][frame["verdict"] == "needed"] <= 0).all()
    assert (frame["ci_low"][frame["verdict"] == "harmful"] >= 0).all()
    assert (frame["ci_low"][frame["verdict"] == "removable"] >= -0.05).all()
    assert (frame["ci_low"] <= frame["delta"]).all()
    assert (frame["delta"] <= frame["ci_high"]).all()
    seen = [row[:n].mean() for row, n in zip(values, frame["n_examples"], strict=True)]
    assert frame["delta"].to_numpy() == pytest.approx(seen)


def test_outcomes_in_another_unit():
    values = differences(mixed_heads(600))
    one = SequentialTest(names(20), margin=0.05, total=600)
    percent = SequentialTest(names(20), margin=5.0, total=600, bound=100.0)
    one.update(values)
    percent.update(100 * values)
    assert one.verdicts.tolist() == percent.verdicts.tolist()
    for a, b in zip(one.intervals(), percent.intervals(), strict=True):
        assert 100 * a == pytest.approx(b, abs=1e-3)


def test_before_the_first_example_nothing_is_known():
    test = SequentialTest(names(2), margin=0.1, total=10)
    frame = test.frame()
    assert frame["delta"].isna().all()
    assert frame[["ci_low", "ci_high"]].to_numpy().tolist() == [[-1, 1], [-1, 1]]
    assert set(frame["verdict"]) == {"undecided"}
    test.update(np.empty((2, 0)))
    assert test.n_examples.tolist() == [0, 0]


def test_bad_input_is_one_line():
    good = {"margin": 0.1, "total": 10}
    for message, heads, options in (
        ("`margin` must be between 0 and 1, got 0", names(2), {"margin": 0.0}),
        ("`margin` must be between 0 and 1, got 1", names(2), {"margin": 1.0}),
        ("`alpha` must be between 0 and 1, got 2", names(2), {"alpha": 2.0}),
        (r"fewer than two examples \(1\)", names(2), {"total": 1}),
        ("unknown correction 'bonferoni'; did you mean 'bonferroni'", names(2),
         {"correction": "bonferoni"}),
        ("at least one head", [], {}),
        (r"head dec-self\.0\.0 occurs twice", names(1) * 2, {}),
        ("'x' is not a head", ["x"], {}),
    ):  # fmt: skip
        with pytest.raises(HeadtoolError, match=message):
            SequentialTest(heads, **{**good, **options})
    test = SequentialTest(names(2), **good)
    for bad in (1.5, -1.5, math.nan, math.inf):
        with pytest.raises(HeadtoolError, match=r"an outcome of dec-self\.0\.1 is"):
            test.update([[0.0], [bad]])
    with pytest.raises(HeadtoolError, match="11 examples of an evaluation set of 10"):
        test.update(np.zeros((2, 11)))
    with pytest.raises(ValueError, match=r"outcomes must be \[2, examples\]"):
        test.update(np.zeros((3, 1)))
    assert test.n_examples.tolist() == [0, 0]
