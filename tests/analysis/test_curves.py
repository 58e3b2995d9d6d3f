"""Pruning curves against literal loops over resamples, closed forms and simulation."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest
import scipy.stats

from headtool.analysis.curve_bootstrap import CurveBootstrap, Line
from headtool.analysis.curves import (
    additivity,
    curve_draws,
    curve_frame,
    curve_tests,
    optimism,
)
from headtool.analysis.draw_plan import draws_needed
from headtool.analysis.paired import Paired
from headtool.errors import HeadtoolError
from headtool.masks.curves import matched_closed
from headtool.schema import TABLES

BUDGETS = (0, 2, 4)


def line(method: str, *masks: int, **settings) -> Line:
    return Line("all", method, BUDGETS, 4, np.array(masks), **settings)


def random_line(method: str, masks: list[list[int]], rival: str = "") -> Line:
    return Line("all", method, BUDGETS, 4, np.array(masks), rival)


@pytest.fixture(scope="module")
def paired() -> Paired:
    """Accuracy of six masks on 60 examples; the last one closes everything."""
    rng = np.random.default_rng(0)
    whole = (rng.random(60) < 0.9).astype(float)
    masked = [
        np.where(rng.random(60) < share, 1 - whole, whole) for share in np.linspace(0.05, 0.5, 6)
    ]
    return Paired.from_values(whole, masked, higher_is_better=True)


LINES = (
    line("a", -1, 0, 5),
    line("b", -1, 2, 5),
    random_line("random", [[-1, 1, 5], [-1, 3, 5], [-1, 4, 5]]),
    random_line("random-matched:a", [[-1, 3, 5], [-1, 4, 5], [-1, 2, 5]], "a"),
)


def literal_resamples(paired: Paired, lines, resamples: int, seed: int):
    """Every delta of every line in every resample, one at a time."""
    for_examples, for_draws = np.random.default_rng(seed).spawn(2)
    drawn = for_examples.integers(0, paired.n_examples, (resamples, paired.n_examples))
    result = [np.empty((resamples, len(BUDGETS))) for _ in lines]
    counts = for_draws.multinomial(3, np.full(3, 1 / 3), resamples)
    for r, examples in enumerate(drawn):

        def delta(mask: int, examples=examples) -> float:
            if mask < 0:
                return 0.0
            return paired.masked[mask, examples, 0].mean() - paired.whole[examples, 0].mean()

        for into, one in zip(result, lines, strict=True):
            for b in range(len(BUDGETS)):
                if one.is_random:
                    values = [delta(mask) for mask in one.masks[:, b]]
                    into[r, b] = np.dot(counts[r], values) / 3
                else:
                    into[r, b] = delta(one.masks[b])
    return result


def test_resamples_equal_a_literal_loop(paired):
    found = CurveBootstrap(paired, LINES, resamples=50, seed=3)
    for ours, theirs in zip(found.drawn, literal_resamples(paired, LINES, 50, 3), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_the_curve_frame_holds_values_deltas_and_percentiles(paired):
    bootstrap = CurveBootstrap(paired, LINES, resamples=400, seed=1)
    frame = curve_frame(bootstrap, alpha=0.1)
    assert tuple(frame.columns) == TABLES["curves"].names
    a = frame[frame["method"] == "a"]
    assert a["share"].tolist() == [0, 0.5, 1]
    whole = paired.whole[:, 0].mean()
    expected = [whole, paired.masked[0, :, 0].mean(), paired.masked[5, :, 0].mean()]
    np.testing.assert_allclose(a["value"], expected)
    np.testing.assert_allclose(a["delta"], np.array(expected) - whole)
    literal = literal_resamples(paired, LINES, 400, 1)[0]
    np.testing.assert_allclose(a["low"], np.quantile(literal, 0.05, axis=0), atol=1e-12)
    np.testing.assert_allclose(a["high"], np.quantile(literal, 0.95, axis=0), atol=1e-12)
    mean = frame[frame["method"] == "random"].set_index("budget")
    draws = curve_draws(bootstrap)
    assert tuple(draws.columns) == TABLES["curve_draws"].names
    assert set(draws["method"]) == {"random", "random-matched:a"}
    draws = draws[draws["method"] == "random"].set_index(["draw", "budget"])
    assert sorted(set(draws.index.get_level_values("draw"))) == [0, 1, 2]
    single = [draws.loc[(d, 2), "delta"] for d in range(3)]
    assert mean.loc[2, "delta"] == pytest.approx(np.mean(single))
    assert single == pytest.approx([paired.delta[mask] for mask in (1, 3, 4)])
    assert not math.isnan(mean.loc[2, "low"])


def test_areas_are_trapezoids_over_the_shares(paired):
    tests = curve_tests(CurveBootstrap(paired, LINES, resamples=200))
    assert tuple(tests.columns) == TABLES["curve_tests"].names
    pairs = tests[["method_x", "method_y"]].to_numpy().tolist()
    assert pairs == [["a", "b"], ["a", "random"], ["a", "random-matched:a"], ["b", "random"]]
    by_hand = np.trapezoid([0, paired.delta[0] - paired.delta[2], 0], [0, 0.5, 1])
    assert tests["area"][0] == pytest.approx(by_hand)
    assert math.isnan(tests["draws_beaten"][0])
    areas = [paired.delta[mask] for mask in (1, 3, 4)]
    assert tests["draws_beaten"][1] == sum(paired.delta[0] > value for value in areas)
    assert (tests["draws"][1:] == 3).all()
    sides = np.maximum(tests["draws_beaten"][1:], 3 - tests["draws_beaten"][1:])
    np.testing.assert_allclose(tests["p_draws"][1:], np.minimum(1, 2 * (4 - sides) / 4))


def test_p_and_interval_equal_the_literal_bootstrap(paired):
    (row,) = curve_tests(CurveBootstrap(paired, LINES[:2], resamples=300, seed=5)).to_dict(
        "records"
    )
    first, second = literal_resamples(paired, LINES[:2], 300, 5)
    areas = np.trapezoid(first - second, [0, 0.5, 1], axis=1)
    far = np.abs(areas - row["area"]) >= abs(row["area"]) * (1 - 1e-9)
    assert row["p"] == pytest.approx((1 + far.sum()) / 301)
    assert row["low"] == pytest.approx(np.quantile(areas, 0.025))
    assert row["high"] == pytest.approx(np.quantile(areas, 0.975))
    assert row["p_adjusted"] == row["p"]  # a family of one


def test_holm_over_the_comparisons_of_a_kind(paired):
    tests = curve_tests(CurveBootstrap(paired, LINES, resamples=500))
    order = tests["p"].sort_values()
    expected = np.minimum(1, np.maximum.accumulate(order.to_numpy() * np.arange(4, 0, -1)))
    np.testing.assert_allclose(tests["p_adjusted"][order.index], expected)


def test_uneven_steps_weigh_by_their_width():
    uneven = Line("all", "a", (0, 1, 4, 10), 10, np.array([-1, 0, 1, 2]))
    values = np.array([3.0, 1.0, 4.0, 1.5])
    assert values @ uneven.area_weights == pytest.approx(np.trapezoid(values, uneven.share))
    short = Line("all", "a", (0, 2, 5), 10, np.array([-1, 0, 1]))
    assert np.ones(3) @ short.area_weights == pytest.approx(1)
    with pytest.raises(HeadtoolError, match="two points"):
        _ = Line("all", "a", (0,), 10, np.array([-1])).area_weights
    with pytest.raises(ValueError, match="3 budgets"):
        Line("all", "a", (0, 1, 2), 10, np.array([-1, 0]))


def test_equal_curves_have_no_area_and_p_of_one(paired):
    same = (line("a", -1, 0, 5), line("b", -1, 0, 5))
    (row,) = curve_tests(CurveBootstrap(paired, same, resamples=99)).to_dict("records")
    assert (row["area"], row["low"], row["high"], row["p"]) == (0, 0, 0, 1)


def test_losses_turn_the_sign(paired):
    turned = Paired.from_values(
        1 - paired.whole[:, 0], 1 - paired.masked[..., 0], higher_is_better=False
    )
    mine, theirs = (
        curve_tests(CurveBootstrap(p, LINES, resamples=200, seed=2)) for p in (paired, turned)
    )
    for column in ("area", "low", "high", "p", "draws_beaten"):
        np.testing.assert_allclose(mine[column], theirs[column], atol=1e-12)


def test_single_deltas_are_added_up(paired):
    singles = {0: [np.array([], int), np.array([1, 2]), np.array([1, 2, 3, 4])]}
    bootstrap = CurveBootstrap(paired, LINES[:1], singles, resamples=250, seed=4)
    frame = additivity(bootstrap)
    assert tuple(frame.columns) == TABLES["additivity"].names
    assert frame["sum_of_singles"].tolist() == pytest.approx(
        [0, paired.delta[[1, 2]].sum(), paired.delta[1:5].sum()]
    )
    np.testing.assert_allclose(frame["gap"], frame["joint"] - frame["sum_of_singles"])
    parts = [line(str(mask), -1, mask, 5) for mask in (1, 2)]
    joint, first, second = literal_resamples(paired, (LINES[0], *parts), 250, 4)
    gaps = joint[:, 1] - first[:, 1] - second[:, 1]
    assert frame["low"][1] == pytest.approx(np.quantile(gaps, 0.025))
    assert frame["high"][1] == pytest.approx(np.quantile(gaps, 0.975))
    assert frame.loc[0, ["joint", "gap", "low", "high"]].tolist() == [0, 0, 0, 0]


def test_optimism_pairs_the_two_selections(paired):
    lines = (*LINES, line("a", -1, 1, 5, again=True))
    bootstrap = CurveBootstrap(paired, lines, resamples=300, seed=6)
    frame = optimism(bootstrap)
    assert tuple(frame.columns) == TABLES["optimism"].names
    assert frame["method"].tolist() == ["a"] * 3
    assert frame["selection"].tolist() == pytest.approx([0, paired.delta[1], paired.delta[5]])
    assert frame["evaluation"].tolist() == pytest.approx([0, paired.delta[0], paired.delta[5]])
    np.testing.assert_allclose(frame["optimism"], frame["selection"] - frame["evaluation"])
    drawn = literal_resamples(paired, lines, 300, 6)
    gap = drawn[4][:, 1] - drawn[0][:, 1]
    assert frame["low"][1] == pytest.approx(np.quantile(gap, 0.025))
    assert frame.loc[2, ["optimism", "low", "high"]].tolist() == [0, 0, 0]
    # Nobody else sees these curves.
    assert len(curve_frame(bootstrap)) == len(curve_frame(CurveBootstrap(paired, LINES)))
    assert len(curve_tests(bootstrap)) == 4


def test_no_curves_no_rows(paired):
    empty = CurveBootstrap(paired, ())
    assert tuple(curve_tests(empty).columns) == TABLES["curve_tests"].names
    assert curve_frame(empty).empty
    assert optimism(empty).empty


def test_resamples_must_be_positive(paired):
    with pytest.raises(HeadtoolError, match="`resamples` must be at least 1, got 0"):
        CurveBootstrap(paired, LINES, resamples=0)


def test_an_undefined_metric_is_never_significant():
    """A metric that is undefined on some resamples, or on all examples."""
    whole = np.zeros((12, 2))
    whole[0] = 1  # without the first example the ratio is 0 / 0
    masked = np.stack([whole * [0.5, 1], np.zeros_like(whole)])

    def ratio(sums):
        with np.errstate(invalid="ignore", divide="ignore"):
            return sums[..., 0] / sums[..., 1]

    paired = Paired(whole, masked, ratio, higher_is_better=True)
    lines = (line("a", -1, 0, 0), line("b", -1, -1, -1), line("c", -1, 1, 1))
    tests = curve_tests(CurveBootstrap(paired, lines, resamples=200))
    assert tests["p"][0] > 0.2
    assert np.isnan(tests["p"][1])
    assert np.isnan(tests["p_adjusted"][1])


@pytest.mark.slow
def test_p_is_uniform_where_curves_differ_by_chance_alone(monkeypatch):
    """Two methods, alike but for noise, on many data sets."""
    monkeypatch.setattr(gc, "collect", lambda: 0)  # statsmodels calls it once a correction
    rng = np.random.default_rng(8)
    p = []
    for _ in range(200):
        whole = np.zeros(80)
        masked = rng.normal(size=(12, 80))
        paired = Paired.from_values(whole, masked, higher_is_better=True)
        lines = (
            Line("all", "a", (0, 2), 4, np.array([-1, 0])),
            Line("all", "b", (0, 2), 4, np.array([-1, 1])),
        )
        tests = curve_tests(
            CurveBootstrap(paired, lines, resamples=199, seed=int(rng.integers(1e9)))
        )
        p.append(tests["p"][0])
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def test_the_mean_of_random_masks_is_as_uncertain_as_its_draws():
    """Masks that differ much and examples that differ little: all variance comes from the draws."""
    rng = np.random.default_rng(9)
    effects = rng.normal(size=20)
    masked = np.repeat(effects[:, None], 50, axis=1)
    paired = Paired.from_values(np.zeros(50), masked, higher_is_better=True)
    draws = np.stack([np.full(20, -1), np.arange(20)], axis=1)
    baseline = Line("all", "random", (0, 2), 4, draws)
    bootstrap = CurveBootstrap(paired, (baseline,), resamples=4000)
    expected = effects.std() / math.sqrt(20)
    assert bootstrap.drawn[0][:, 1].std() == pytest.approx(expected, rel=0.05)


@pytest.mark.slow
def test_one_random_draw_among_others_is_rarely_as_good_as_most(monkeypatch):
    """``p_draws`` keeps its level where the method is nothing but one more draw."""
    monkeypatch.setattr(gc, "collect", lambda: 0)  # statsmodels calls it once a correction
    rng, small = np.random.default_rng(10), 0
    for _ in range(400):
        effects = rng.normal(size=40)
        masked = np.repeat(effects[:, None], 4, axis=1)
        paired = Paired.from_values(np.zeros(4), masked, higher_is_better=True)
        lines = (
            Line("all", "a", (0, 2), 4, np.array([-1, 0])),
            Line("all", "random", (0, 2), 4, np.stack([np.full(39, -1), np.arange(1, 40)], 1)),
        )
        (p,) = curve_tests(CurveBootstrap(paired, lines, resamples=1))["p_draws"]
        small += p <= 0.05
    assert 0.02 <= small / 400 <= 0.09


def families(rng, number, *, matched):
    """Families of four methods that are random labels, beside as many draws as claims need.

    Heads have effects of their own and layers larger ones, so that masks differ for good, on any
    number of examples. With `matched`, the methods' masks share the layer counts of the draws.
    """
    draws, heads, methods = draws_needed(0.05, 4), 24, 4
    for _ in range(number):
        effect = rng.exponential(size=heads) * np.repeat(rng.exponential(size=4), 6)
        layers = np.repeat(np.arange(4), 6)
        keys = rng.random((draws + methods, heads))
        if matched:
            closed = np.zeros((1, heads), dtype=bool)
            closed[0, [0, 1, 2, 6, 7, 12, 18, 19]] = True
            rows = [matched_closed(closed, key, layers)[0] for key in keys]
        else:
            rows = [np.argsort(np.argsort(key)) < 8 for key in keys]
        means = np.array(rows) @ effect / -50
        masked = means[:, None] + 0.05 * rng.normal(size=(len(rows), 60))
        paired = Paired.from_values(np.zeros(60), masked, higher_is_better=True)
        numbers = np.stack([np.full(draws, -1), np.arange(methods, len(rows))], 1)
        name = "random-matched:m0" if matched else "random"
        lines = [Line("all", f"m{i}", (0, 8), heads, np.array([-1, i])) for i in range(methods)]
        for i in range(methods if matched else 1):
            rival = f"m{i}" if matched else ""
            name = f"random-matched:m{i}" if matched else "random"
            lines.append(Line("all", name, (0, 8), heads, numbers, rival))
        yield curve_tests(CurveBootstrap(paired, tuple(lines), resamples=39))


@pytest.mark.slow
@pytest.mark.parametrize("matched", [False, True])
def test_random_labels_are_rarely_better_or_worse_than_random_masks(monkeypatch, matched):
    """In either direction, in at most .05 of 400 families; by the examples alone in most."""
    monkeypatch.setattr(gc, "collect", lambda: 0)  # statsmodels calls it once a correction
    claimed = conditional = 0
    for tests in families(np.random.default_rng(11), 400, matched=matched):
        random = tests[tests["method_y"].str.startswith("random")]
        assert len(random) == 4
        claimed += (random["p_draws_adjusted"] <= 0.05).any()
        conditional += (random["p"] <= 0.05).any()
    assert claimed / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert conditional / 400 > 0.5


@pytest.mark.parametrize("methods", [1, 2, 4])
def test_so_many_draws_allow_a_claim_and_one_fewer_does_not(methods):
    def claimed(draws):
        effects = np.concatenate([np.full(methods, 9.0), np.zeros(draws)])
        masked = np.repeat(effects[:, None], 4, axis=1)
        paired = Paired.from_values(np.zeros(4), masked, higher_is_better=True)
        drawn = np.stack([np.full(draws, -1), np.arange(methods, methods + draws)], 1)
        names = [f"m{i}" for i in range(methods)]
        lines = [Line("all", name, (0, 2), 4, np.array([-1, i])) for i, name in enumerate(names)]
        lines += [Line("all", "random", (0, 2), 4, drawn)]
        lines += [Line("all", f"random-matched:{name}", (0, 2), 4, drawn, name) for name in names]
        tests = curve_tests(CurveBootstrap(paired, tuple(lines), resamples=1))
        random = tests[tests["method_y"].str.startswith("random")]
        assert len(random) == 2 * methods
        return bool((random["p_draws_adjusted"] <= 0.05).all())

    needed = draws_needed(0.05, methods)
    assert claimed(needed)
    assert not claimed(needed - 1)


def test_a_curve_over_ties_is_the_mean_over_their_orders(paired):
    orders = np.array([[-1, 1, 5], [-1, 3, 5], [-1, 4, 5]])
    tied = line("tied", -1, 2, 5, orders=orders)
    parts = [line(str(mask), -1, mask, 5) for mask in (1, 3, 4)]
    singles = {0: [np.array([], int), np.array([1, 2, 1, 3, 2, 3]), np.array([1, 2, 3, 4] * 3)]}
    bootstrap = CurveBootstrap(paired, (tied, *parts), singles, resamples=150, seed=4)
    np.testing.assert_allclose(
        bootstrap.deltas(tied), np.mean([bootstrap.deltas(part) for part in parts], axis=0)
    )
    np.testing.assert_allclose(bootstrap.drawn[0], np.mean(bootstrap.drawn[1:], axis=0))
    frame = curve_frame(bootstrap)
    values = frame.pivot(index="budget", columns="method", values="value")
    np.testing.assert_allclose(values["tied"], values[["1", "3", "4"]].mean(axis=1))
    # Each of three heads goes in two of the three orders.
    summed = additivity(bootstrap)["sum_of_singles"]
    assert summed[1] == pytest.approx(2 / 3 * paired.delta[1:4].sum())
    assert summed[2] == pytest.approx(paired.delta[1:5].sum())
