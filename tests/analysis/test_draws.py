"""Random masks as rivals: the race, Holm over chains, and the plan."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from headtool.analysis.draw_plan import DrawPlan, draws_needed, inner_points
from headtool.analysis.draws import DrawTest, adjust_chains
from headtool.analysis.multiplicity import adjust
from headtool.analysis.paired import Paired
from headtool.analysis.race import going_on, standing, tally

ALPHA = 0.05


FIELDS = (24, 6, 3)


def literal(rounds, fields, sign):
    """How many draws get at least as far as the method's mask, and how many farther, mask by mask.

    A mask's way: the number of rounds in which it is still there, and its area in the last of them.
    """
    alive, ways = set(range(len(rounds[0]))), {}
    for number, areas in enumerate(rounds):
        for mask in alive:
            ways[mask] = (number, sign * areas[mask])
        if number + 1 < len(fields):
            best = sorted((sign * areas[mask] for mask in alive), reverse=True)
            alive = {mask for mask in alive if sign * areas[mask] >= best[fields[number + 1] - 1]}
    draws = [way for mask, way in ways.items() if mask != 0]
    return sum(way >= ways[0] for way in draws), sum(way > ways[0] for way in draws)


def raced(rounds, losses, fields):
    """Run a race as far as it goes: what is not asked for is garbage."""
    alive, known = np.ones(fields[0], dtype=bool), []
    for areas, loss in zip(rounds, losses, strict=True):
        if not alive.any():
            break
        garbage = np.where(alive, areas, 1e9), None if loss is None else np.where(alive, loss, 1e9)
        known.append(garbage)
        alive = going_on(known, fields)
    assert not going_on(known, fields).any()
    return standing(known, fields), len(known)


def tables(rng, decimals=1):
    areas = rng.normal(size=FIELDS[0])
    return [np.round(areas + rng.normal(size=FIELDS[0]) / 2, decimals) for _ in FIELDS]


def test_a_race_is_the_literal_one_on_both_sides():
    rng, lengths = np.random.default_rng(0), set()
    for _ in range(400):
        rounds = tables(rng)
        found, length = raced(rounds, [None] * 3, FIELDS)
        (as_well, _), (as_badly, worse) = (literal(rounds, FIELDS, sign) for sign in (1, -1))
        assert found.draws == 23
        assert found.p == pytest.approx(min(1, 2 * (1 + min(as_well, as_badly)) / 24))
        assert found.beaten == (23 - as_well if as_well <= as_badly else worse)
        lengths.add(length)
    assert lengths == {1, 2, 3}


@pytest.mark.parametrize("undefined", [0.0, 0.1, 0.5])
def test_p_is_exact_whichever_mask_is_the_methods(undefined):
    """Of equal masks, at most the share p has a p-value of at most p: with ties, with NaN."""
    rng = np.random.default_rng(1)
    for trial in range(16):
        rounds, losses = tables(rng), [None] * 3
        if trial % 2:
            losses = tables(rng, decimals=0)
        for areas in rounds:
            areas[rng.random(len(areas)) < undefined] = np.nan
        found = []
        for own in range(FIELDS[0]):
            order = [own, *(mask for mask in range(FIELDS[0]) if mask != own)]
            swapped = [None if loss is None else loss[order] for loss in losses]
            found.append(raced([areas[order] for areas in rounds], swapped, FIELDS)[0].p)
        for p in np.arange(1, 25) / 24:
            assert np.sum(np.array(found) <= p + 1e-9) <= 24 * p + 1e-9


def test_the_loss_decides_between_equal_areas_and_alone_where_one_is_undefined():
    equal, worse = np.zeros(6), np.array([0.0, -1, -2, -3, -4, -5])
    assert standing([(equal, worse)], (6,)).beaten == 5
    assert standing([(-worse, worse)], (6,)).beaten == 0
    assert standing([(np.r_[equal[:5], np.nan], worse), (equal, worse)], (6, 2)).beaten == 5
    behind = [(np.r_[np.nan, equal[:5]], None), (equal, None)]
    assert standing(behind, (6, 2)).p == 1
    assert math.isnan(standing([(np.r_[np.nan, equal[:5]], None)], (6,)).p)


def test_equal_and_undefined_areas_count_on_both_sides():
    found = tally(0.0, np.array([0.0, 1e-15, -1.0, np.nan]))
    assert (found.beaten, found.p) == (1, min(1, 2 * 4 / 5))
    assert math.isnan(tally(np.nan, np.zeros(3)).p)
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


def test_a_plan_costs_half_of_what_the_curves_cost():
    plan = plan_of(872)
    assert (plan.most, plan.budgets) == (159, (16, 32, 56))
    assert plan.fields == (160, 40, 20, 10, 5)
    assert plan.sizes == tuple(plan.sizes[0] * 2**k for k in range(5))
    assert plan.passes(1) == pytest.approx(4 * 8 * 872 / 2, rel=0.05)
    assert plan_of(872, methods=1).fields == (40, 10, 5)
    assert plan_of(872, methods=10).fields == (400, 100, 50, 25, 13, 11)


def test_few_examples_are_still_measured():
    assert plan_of(30).sizes == (3, 6, 12, 24, 30)
    assert [plan_of(count).shown for count in (30, 7, 4, 2)] == [12, 7, 4, 2]
    assert [len(part) for part in plan_of(7).parts] == [3, 2, 2]
    assert [len(part) for part in plan_of(4).parts] == [2, 2]
    assert [plan_of(7).taken(point, 4).tolist() for point in range(3)] == [
        plan_of(7).parts[0][:2].tolist(),
        plan_of(7).parts[1][:1].tolist(),
        plan_of(7).parts[2][:1].tolist(),
    ]
    assert sorted(plan_of(3).parts[0].tolist()) == [0, 1, 2]
    assert plan_of(30, budgets=(0, 72)) is None
    assert plan_of(30, alpha=0.5, methods=1).fields == (4,)
    assert plan_of(30, alpha=0.5, methods=1).sizes == (30,)


def test_no_example_twice_and_every_class_by_its_share():
    classes = ["rare"] * 40 + ["common"] * 160
    plan = plan_of(200, classes=classes)
    chosen = np.concatenate(plan.parts)
    assert len(set(chosen.tolist())) == len(chosen) == plan.sizes[-1]
    for size in plan.sizes[1:]:
        for point in range(3):
            part = plan.taken(point, size)
            assert abs((part < 40).sum() - 0.2 * len(part)) <= 1.5
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
    assert plan.shown == pytest.approx(expected, rel=0.5)
    assert plan.shown < plan_of(900).shown
    assert plan_of(900, pilot=pilot_of(1.0, 0.1)).shown == 12
    assert plan_of(900, pilot=pilot_of(0.0, 1.0)).shown == plan_of(900).shown


def test_areas_and_their_resamples_are_over_the_draws_that_are_shown():
    rng = np.random.default_rng(5)
    plan = DrawPlan.of((0, 2), 4, ["a"] * 30, methods=1, alpha=ALPHA, seed=0)
    values = rng.normal(size=(11, 30)) + np.r_[0.0, np.linspace(-1, 1, 10)][:, None]
    shown = Paired.from_values(np.zeros(30), values, higher_is_better=True)
    test, several = (
        DrawTest("all", "a", "random-matched:a", plan, (), 0, ((shown,),) * models)
        for models in (1, 3)
    )
    means = values.mean(axis=1) * plan.weights[0]
    assert test.area == pytest.approx(means[0] - means[1:].mean())
    drawn = test.resampled(4000, 0)
    assert drawn.mean() == pytest.approx(test.area, abs=4 * drawn.std() / math.sqrt(4000))
    np.testing.assert_array_equal(drawn, test.resampled(4000, 0))
    assert several.area == pytest.approx(test.area)
    assert several.resampled(4000, 0).std() == pytest.approx(drawn.std(), rel=0.1)
