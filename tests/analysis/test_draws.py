"""Random masks as rivals: the rule to stop, Holm over chains, and the plan."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from headtool.analysis.draw_plan import DrawPlan, draws_needed, inner_points
from headtool.analysis.draws import DrawTest, adjust_chains, tally
from headtool.analysis.multiplicity import adjust
from headtool.analysis.paired import Paired

ALPHA = 0.05


def literal(own, draws, most, enough):
    """Besag and Clifford on both sides, draw by draw."""
    p, stops = [], []
    for side in (np.greater_equal, np.less_equal):
        hits, stop = 0, None
        for number, value in enumerate(draws, start=1):
            hits += side(value, own)
            if hits == enough:
                stop = number
                break
        p.append(enough / stop if stop else (1 + hits) / (1 + most))
        stops.append(stop)
    return min(1, 2 * min(p)), stops


def test_a_tally_is_besag_and_cliffords_on_both_sides():
    rng = np.random.default_rng(0)
    for _ in range(300):
        enough = int(rng.integers(1, 6))
        most = 2 * enough * 20 - 1
        own, draws = rng.normal(scale=2), rng.normal(size=most).round(1)
        p, stops = literal(own, draws, most, enough)
        found = tally(own, draws, most=most, enough=enough)
        assert found.p == pytest.approx(p)
        used = most if None in stops else max(stops)
        assert (found.draws, found.beaten) == (used, (draws[:used] < own).sum())
        # Draws behind the last that counts change nothing, so that blocks may be of any size.
        assert tally(own, draws[:used], most=most, enough=enough) == found
        assert found.settled
        assert not tally(own, draws[: used - 1], most=most, enough=enough).settled


def test_stopping_never_changes_a_claim():
    """With as many draws on both sides as methods, no Holm step can claim in the full number."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        methods = int(rng.integers(1, 6))
        most = draws_needed(ALPHA, methods)
        areas, draws = rng.normal(scale=3, size=methods), rng.normal(size=most)
        stopped = [tally(own, draws, most=most, enough=methods) for own in areas]
        full = [tally(own, draws) for own in areas]
        claims = [
            [row[0] <= ALPHA for row in adjust_chains([[one.p] for one in found])]
            for found in (stopped, full)
        ]
        assert claims[0] == claims[1]
        for one, other in zip(full, stopped, strict=True):
            assert one.p == other.p or min(one.p, other.p) > ALPHA


def test_equal_and_undefined_areas_count_on_both_sides():
    found = tally(0.0, np.array([0.0, 1e-15, -1.0, np.nan]))
    assert (found.beaten, found.p) == (1, min(1, 2 * 4 / 5))
    assert math.isnan(tally(np.nan, np.zeros(3)).p)
    assert tally(np.nan, np.zeros(3), most=9, enough=1).settled
    assert not tally(1.0, np.zeros(3), most=9, enough=1).settled
    assert tally(1.0, np.zeros(9)).is_better
    assert not tally(-1.0, np.zeros(9)).is_better


def test_chains_of_one_are_holm():
    rng = np.random.default_rng(2)
    p = rng.random(8) / 20
    found = np.array(adjust_chains([[value] for value in p]))[:, 0]
    np.testing.assert_allclose(found, adjust(p, "holm"), atol=1e-11)


def rejected(chains, alpha):
    """The step-down procedure, one rejection at a time."""
    done = [0] * len(chains)
    while True:
        open_ = [i for i, chain in enumerate(chains) if done[i] < len(chain)]
        turns = [i for i in open_ if not math.isnan(chains[i][done[i]])]
        ready = [i for i in turns if len(open_) * chains[i][done[i]] <= alpha]
        if not ready:
            return done
        done[ready[0]] += 1


def test_chains_reject_what_stepping_down_does():
    rng = np.random.default_rng(3)
    for _ in range(300):
        chains = [
            [p, math.nan if rng.random() < 0.3 else float(rng.random() ** 4)]
            for p in (rng.random(4) ** 4).tolist()
        ]
        adjusted = adjust_chains(chains)
        for alpha in (0.01, 0.05, 0.2):
            passed = [sum(value <= alpha for value in row) for row in adjusted]
            assert passed == rejected(chains, alpha)


def test_a_chain_that_begins_undefined_does_not_count():
    assert np.isnan(adjust_chains([[math.nan, 0.01]])[0]).all()
    assert adjust_chains([[0.02], [math.nan, 0.01]])[0] == [0.02]


@pytest.mark.parametrize("methods", range(1, 13))
def test_the_least_p_reaches_the_level_exactly(methods):
    most = draws_needed(ALPHA, methods)
    chains = [[tally(1.0, np.zeros(most)).p] * 2] * methods
    assert max(itertools.chain(*adjust_chains(chains))) <= ALPHA
    chains = [[tally(1.0, np.zeros(most - 1)).p] * 2] * methods
    assert min(itertools.chain(*adjust_chains(chains))) > ALPHA


def test_points_leave_a_choice_of_heads():
    assert inner_points((0, 1, 2, 3, 4), 4) == (1, 2, 3)
    assert inner_points((0, 1, 2, 3, 4), 4, 1) == (2,)
    assert inner_points((0, 14, 36), 72) == (1, 2)
    assert inner_points(tuple(range(0, 61, 6)), 72)[-1] == 9
    assert inner_points((0, 8), 8) == ()


def plan_of(
    examples, *, methods=4, classes=None, pilot=None, budgets=tuple(range(0, 73, 8)), **more
):
    classes = ["a"] * examples if classes is None else classes
    given = {"alpha": ALPHA, "seed": 0, **more}
    return DrawPlan.of(budgets, 72, classes, methods=methods, pilot=pilot, **given)


def test_a_plan_costs_what_the_curves_cost():
    plan = plan_of(872)
    assert (plan.most, plan.enough, plan.budgets) == (159, 4, (16, 32, 56))
    assert plan.most * plan.examples <= 4 * 8 * 872 + plan.most
    assert plan.examples > 4 * 8 * 872 / 159 - 1
    assert plan_of(872, methods=1).examples == pytest.approx(plan.examples, abs=4)
    assert sum(plan.blocks) == 159
    assert list(plan_of(60, methods=1).blocks) == [39]
    assert list(plan_of(60, methods=10).blocks) == [20, 40, 80, 259]


def test_few_examples_are_still_measured():
    assert plan_of(30).examples == 12
    assert [len(part) for part in plan_of(7).parts] == [3, 2, 2]
    assert [len(part) for part in plan_of(4).parts] == [2, 2]
    (part,) = plan_of(3).parts
    assert part.tolist() == [0, 1, 2]
    assert plan_of(30, budgets=(0, 72)) is None


def test_no_example_twice_and_every_class_by_its_share():
    classes = ["rare"] * 40 + ["common"] * 160
    plan = plan_of(200, classes=classes)
    chosen = np.concatenate(plan.parts)
    assert len(set(chosen.tolist())) == len(chosen) == plan.examples
    assert abs((chosen < 40).mean() - 0.2) < 1 / len(chosen)
    for part in plan.parts:
        assert abs((part < 40).sum() - 0.2 * len(part)) <= 1
        assert (np.diff(part) > 0).all()
    other = plan_of(200, classes=classes, seed=1)
    assert [p.tolist() for p in other.parts] != [p.tolist() for p in plan.parts]
    again = plan_of(200, classes=classes)
    assert [p.tolist() for p in again.parts] == [p.tolist() for p in plan.parts]


def test_weights_are_those_of_the_trapezoids():
    plan = plan_of(100)
    values = np.array([3.0, 1.0, 4.0])
    grid = np.array([0, 16, 32, 56, 72]) / 72
    assert values @ plan.weights == pytest.approx(np.trapezoid([0, *values, 0], grid))
    short = plan_of(100, budgets=(0, 14, 36))  # what is left at the last point differs
    assert values[:2] @ short.weights == pytest.approx(np.trapezoid([0, 3, 1], [0, 14, 36]) / 36)


def pilot_of(spread, noise, examples=900, masks=40):
    """Outcomes whose masks differ by `spread`, and by `noise` on every single example."""
    rng = np.random.default_rng(4)
    common, effects = rng.normal(size=examples), spread * rng.normal(size=masks)

    def at_a_point():
        own = noise * rng.normal(size=(masks, examples))
        values = common + effects[:, None] + own
        return Paired.from_values(np.zeros(examples), values, higher_is_better=True)

    return {budget: at_a_point() for budget in (16, 32, 56)}


def test_examples_are_enough_where_their_noise_is_a_tenth_of_what_masks_differ():
    """Var of an area by examples: w1^2 + w2^2 + w3^2 times noise^2 over the examples of a point."""
    plan = plan_of(900, pilot=pilot_of(0.2, 0.5))
    weights = plan.weights
    expected = 3 * 0.5**2 * (weights @ weights) / (0.1 * (0.2 * weights.sum()) ** 2)
    assert plan.examples == pytest.approx(expected, rel=0.5)
    assert plan.examples < plan_of(900).examples
    assert plan_of(900, pilot=pilot_of(1.0, 0.1)).examples == 12
    assert plan_of(900, pilot=pilot_of(0.0, 1.0)).examples == plan_of(900).examples


def drawn_test(values, losses=None, *, methods=1, models=1):
    """A test at one point on given values [1 + n, N] of masks."""
    examples = values.shape[1]
    plan = DrawPlan.of((0, 2), 4, ["a"] * examples, methods=methods, alpha=ALPHA, seed=0)
    paired = Paired.from_values(np.zeros(examples), values, higher_is_better=True)
    ties = ()
    if losses is not None:
        ties = ((Paired.from_values(np.zeros(examples), losses, higher_is_better=False),),) * models
    return DrawTest("all", "a", "random", plan, ((paired,),) * models, ties)


def test_the_loss_decides_between_equal_areas_only():
    values = np.repeat([[1.0], [1.0], [1.0], [0.5], [2.0]], 4, axis=1)
    losses = np.repeat([[0.3], [0.4], [0.2], [0.0], [9.0]], 4, axis=1)
    assert drawn_test(values, methods=3).tally.beaten == 1
    assert drawn_test(values, losses, methods=3).tally.beaten == 2


def test_areas_and_their_resamples_are_over_the_draws_that_count():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(40, 30)) + np.r_[0.0, np.linspace(-1, 1, 39)][:, None]
    test = drawn_test(values)
    used = test.tally.draws
    assert 1 < used < 39
    means = values.mean(axis=1) * test.plan.weights[0]
    assert test.area == pytest.approx(means[0] - means[1 : 1 + used].mean())
    drawn = test.resampled(4000, 0)
    assert drawn.mean() == pytest.approx(test.area, abs=4 * drawn.std() / math.sqrt(4000))
    np.testing.assert_array_equal(drawn, test.resampled(4000, 0))
    several = drawn_test(values, models=3)
    assert several.area == pytest.approx(test.area)
    assert several.resampled(4000, 0).std() == pytest.approx(drawn.std(), rel=0.1)
