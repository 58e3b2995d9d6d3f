"""Random masks in rounds: which ones, on what, and the same however it is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headtool
from headtool.analysis import draw_plan
from headtool.analysis.draw_plan import DrawPlan
from headtool.analysis.draws import adjust_chains
from headtool.analysis.paired import Paired
from headtool.analysis.race import going_on, standing
from headtool.engine.evaluation import evaluate
from headtool.experiments import drawing, stages
from headtool.experiments.setup import set_up
from headtool.heads import HeadMask
from headtool.masks.curves import CurveMasks, layers_of, matched_closed, random_closed

MODEL = "builtin:nli"
ASKED = {
    "methods": ["ablation", "magnitude"],
    "metric": "loss",
    "limit": 200,
    "steps": "25%",
    "resamples": 20,
}


@pytest.fixture(scope="module")
def found() -> headtool.Comparison:
    return headtool.curve(MODEL, **ASKED)


def literal_race(closed, keys, draw):
    """Areas of a method's masks and of all draws after each round, each round run afresh."""
    setup = set_up(MODEL, name="curve", **ASKED)
    family, examples = setup.families[0], setup.split.first
    heads = family.sites.heads
    labels = examples.data.columns["label"]
    given = {"methods": 2, "alpha": 0.05, "seed": 0}
    plan = DrawPlan.of(family.budgets, len(heads), labels, **given)
    assert plan.shown == 12  # the least, so that no pilot changes it
    points = [family.budgets.index(budget) for budget in plan.budgets]
    rows = [closed[points], *(draw(key, plan.budgets, closed[points]) for key in keys)]
    rounds = [np.zeros(len(rows)) for _ in plan.sizes]
    for point, weight in enumerate(plan.weights):
        masks = [
            HeadMask.without(setup.model.sites, [heads[i] for i in np.flatnonzero(row[point])])
            for row in rows
        ]
        for areas, size in zip(rounds, plan.sizes, strict=True):
            part = np.sort(plan.taken(point, size))
            found = evaluate(setup.model, examples.take(part), masks)
            tokens = found.whole["tokens"].sum()
            areas -= (
                weight * (found.masked["loss"].sum(axis=1) - found.whole["loss"].sum()) / tokens
            )
    return plan, [(areas, None) for areas in rounds]


def closed_by(found: headtool.Comparison, method: str) -> np.ndarray:
    kept = found.kept[found.kept["method"] == method]
    return np.array([~rows["kept"].to_numpy() for _, rows in kept.groupby("budget")])


@pytest.mark.slow
@pytest.mark.parametrize("row", ["common", "matched"])
def test_rows_count_the_draws_of_the_seed(found: headtool.Comparison, row: str) -> None:
    tests = found.curve_tests.set_index(["method_x", "method_y"])
    common = row == "common"
    test = tests.loc["ablation", "random" if common else "random-matched:ablation"]
    keys = np.random.default_rng([0, 23 if common else 29]).random((79, 32))
    layers = layers_of(set_up(MODEL, name="curve", **ASKED).sites)

    def draw(key, budgets, closed):
        if common:
            return random_closed(key, budgets, layers, keep_one=False)
        return matched_closed(closed, key, layers)

    plan, rounds = literal_race(closed_by(found, "ablation"), keys, draw)
    whole = standing(rounds, plan.fields)
    assert (test["draws"], test["draws_beaten"], test["p_draws"]) == (79, whole.beaten, whole.p)
    if common:  # how far the curves lie apart, on all examples and at all points
        curves = found.curves.pivot(index="share", columns="method", values="value")
        area = np.trapezoid(curves["random"] - curves["ablation"], curves.index)
    else:  # from the first ten draws
        areas = rounds[plan.sizes.index(plan.shown)][0]
        area = areas[0] - areas[1:11].mean()
    assert test["area"] == pytest.approx(area, abs=1e-6)
    sizes = np.diff([0, *plan.sizes])
    alive = [np.ones(80, dtype=bool), *(going_on(rounds[:k], plan.fields) for k in (1, 2, 3, 4))]
    passes = sum(rows[1:].sum() * size for rows, size in zip(alive, sizes, strict=False))
    assert test["draw_passes"] == pytest.approx(passes / 79)


def test_only_methods_that_are_better_meet_matched_masks(found: headtool.Comparison) -> None:
    tests = found.curve_tests
    random = tests[tests["method_y"] == "random"].set_index("method_x")
    assert list(random.index) == ["ablation", "magnitude"]
    better = (random["p_draws_adjusted"] <= 0.05) & (2 * random["draws_beaten"] > random["draws"])
    matched = tests[tests["method_y"].str.startswith("random-matched:")]
    assert matched["method_x"].tolist() == list(better.index[better]) == ["ablation"]
    assert random["draw_passes"]["magnitude"] < random["draw_passes"]["ablation"]
    chains = [
        [random["p_draws"][name], *matched.loc[matched["method_x"] == name, "p_draws"], np.nan][:2]
        for name in random.index
    ]
    expected = [value for row in adjust_chains(chains) for value in row if value == value]
    both = tests[tests["draws"].notna()].sort_values("method_x")["p_draws_adjusted"]
    assert sorted(both) == pytest.approx(sorted(expected))


def test_rows_with_random_masks_have_no_p_that_holds_for_the_masks_drawn(
    found: headtool.Comparison,
) -> None:
    tests = found.curve_tests
    random = tests["method_y"].str.startswith("random")
    assert tests.loc[random, ["p", "p_adjusted"]].isna().all(axis=None)
    assert tests.loc[~random, ["p", "p_adjusted"]].notna().all(axis=None)
    assert tests.loc[random, ["area", "low", "high"]].notna().all(axis=None)
    assert found.settings["draws"] is None
    assert found.settings["draws_plan"] == {
        "most": 79,
        "budgets": [8, 16, 24],
        "examples": [8, 8, 8],
        "rounds": [
            {"masks": masks, "examples": examples}
            for masks, examples in ((80, 3), (20, 6), (10, 12), (5, 24))
        ],
    }
    assert found.curve_draws.empty  # each example has masks of its own


def test_the_random_curve_gives_each_example_masks_of_its_own(found: headtool.Comparison) -> None:
    """Against a loop over examples; its interval is the bootstrap's over these."""
    setup = set_up(MODEL, name="curve", **ASKED)
    family, examples = setup.families[0], setup.split.first
    dealt = CurveMasks.draw(
        *("all", family.sites, family.budgets, {}),
        draws=None, keep_one=False, seed=0, deal=len(examples),
    ).dealt  # fmt: skip
    assert dealt is not None
    random = found.curves[found.curves["method"] == "random"].set_index("budget")
    for budget in (8, 24):
        point, changes = family.budgets.index(budget), []
        for number in range(len(examples)):
            mask = HeadMask(setup.model.sites, ~dealt[number, point])
            one = evaluate(setup.model, examples.take(np.array([number])), [mask])
            changes.append(one.masked["loss"][0, 0] - one.whole["loss"][0])
        assert random["delta"][budget] == pytest.approx(np.mean(changes), abs=1e-6)
        spread = 3.92 * np.std(changes, ddof=1) / len(examples) ** 0.5
        width = random["high"][budget] - random["low"][budget]
        assert 0.5 * spread < width < 1.5 * spread  # twenty resamples


@pytest.mark.slow
def test_a_metric_that_is_no_mean_has_draws_on_all_examples() -> None:
    found = headtool.curve(MODEL, **{**ASKED, "metric": "f1-macro", "limit": 24})
    assert sorted(found.curve_draws["draw"].unique()) == [0, 1, 2, 3, 4]
    assert not found.curve_draws["method"].str.startswith("random-matched").any()
    values = found.curve_draws.groupby("budget")["value"].mean()
    random = found.curves[found.curves["method"] == "random"].set_index("budget")["value"]
    np.testing.assert_allclose(values, random)


@pytest.mark.slow
def test_a_pilot_makes_a_long_race_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where masks differ far more than noise from examples, the least examples are enough."""
    asked = {**ASKED, "steps": "10%"}
    setup = set_up(MODEL, name="curve", **asked)
    family, model = setup.families[0], setup.model
    labels = setup.split.first.data.columns["label"]
    given = {"methods": 2, "alpha": 0.05, "seed": 0}
    monkeypatch.setattr(drawing, "_PILOT", 9)
    monkeypatch.setattr(draw_plan, "_LEAST_EXAMPLES", 4)
    long = DrawPlan.of(family.budgets, family.sites.n_heads, labels, **given)
    keys = CurveMasks.draw(
        "all", family.sites, family.budgets, {}, draws=None, keep_one=False, seed=0
    ).keys
    part = np.sort(np.concatenate([part[:3] for part in long.parts]))
    pilot = {}
    for budget in long.budgets:
        closed = [
            random_closed(key, (budget,), layers_of(family.sites), keep_one=False) for key in keys
        ]
        masks = [HeadMask(model.sites, ~rows[0]) for rows in closed]
        outcomes = evaluate(model, setup.split.first.take(part), masks)
        pilot[budget] = Paired.from_outcomes(outcomes, setup.measures.metric)
    expected = DrawPlan.of(family.budgets, family.sites.n_heads, labels, **given, pilot=pilot)
    found = headtool.curve(MODEL, **asked).settings["draws_plan"]
    assert found == expected.described()
    assert found != long.described()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.mark.slow
def test_an_interrupted_comparison_makes_the_same_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {**ASKED, "limit": 60}
    headtool.curve(MODEL, out=tmp_path / "whole", **asked)
    measure, calls = stages.measure, []

    def stopping(model, examples, masks, *given, store=None, **settings):
        if "draws." in str(store and store.folder):
            calls.append(len(masks))
            if len(calls) == 5:
                raise KeyboardInterrupt
        return measure(model, examples, masks, *given, store=store, **settings)

    monkeypatch.setattr(stages, "measure", stopping)
    with pytest.raises(KeyboardInterrupt):
        headtool.curve(MODEL, out=tmp_path / "stopped", **asked)
    monkeypatch.setattr(stages, "measure", measure)
    headtool.curve(MODEL, out=tmp_path / "stopped", **asked)
    assert files_of(tmp_path / "stopped") == files_of(tmp_path / "whole")


@pytest.mark.slow
def test_whoever_runs_the_units_the_draws_are_the_same(found: headtool.Comparison) -> None:
    def backwards(units, work):
        for unit in reversed(units):
            yield unit, work(unit)

    again = headtool.curve(MODEL, workers=backwards, **ASKED)
    for name, table in found.tables.items():
        assert table.equals(again.tables[name]), name


@pytest.mark.slow
def test_each_kind_has_draws_of_its_own() -> None:
    asked = {**ASKED, "limit": 8, "methods": ["magnitude"]}
    found = headtool.curve("builtin:mt", per_kind=True, **asked)
    random = found.curve_tests[found.curve_tests["method_y"] == "random"]
    assert random["kind"].tolist() == ["all", "enc-self", "dec-self", "cross"]
    assert random["p_draws_adjusted"].between(0, 1).all()


def test_points_that_leave_no_choice_need_no_draws() -> None:
    found = headtool.curve(MODEL, **{**ASKED, "steps": "100%"})
    assert "random masks are left out" in "\n".join(found.settings["notes"])
    assert found.curve_tests["method_y"].tolist() == ["magnitude"]


@pytest.mark.slow
def test_selection_on_the_same_examples_is_shown_at_the_points_of_the_draws() -> None:
    asked = {**ASKED, "steps": "10%", "methods": ["magnitude", "confidence"], "limit": 16}
    found = headtool.compare(MODEL, **asked)
    assert found.optimism["budget"].unique().tolist() == [6, 16, 22]
    every = headtool.compare(MODEL, draws=2, **asked).optimism
    assert every["budget"].nunique() == 11
    shared = every[every["budget"].isin(found.optimism["budget"])].reset_index(drop=True)
    for column in ("selection", "evaluation", "optimism"):
        np.testing.assert_allclose(found.optimism[column], shared[column], atol=1e-6)
