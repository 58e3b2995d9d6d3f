"""Agreement between models and curves over models, against scipy and literal loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from headtool.analysis.agreement import agreement
from headtool.analysis.curve_bootstrap import CurveBootstrap, CurveEnsemble, Line
from headtool.analysis.curves import curve_tests
from headtool.analysis.overlap import overlap
from headtool.analysis.paired import Paired
from headtool.analysis.replication import (
    layer_ranks,
    replicate_agreement,
    replicate_curves,
    replicate_overlap,
    replicate_scores,
)
from headtool.schema import TABLES

LAYERS = np.repeat(np.arange(5), 4)
MODELS = ("a", "b", "c")


@pytest.fixture
def scores() -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    by_layer = rng.normal(size=5)[LAYERS]
    return {
        name: {model: by_layer + rng.normal(size=20) for model in MODELS} for name in ("x", "y")
    }


def test_agreement_is_that_of_methods_with_models_in_their_place(scores):
    frame = replicate_agreement(scores, LAYERS, permutations=200, rng=3)
    assert tuple(frame.columns) == TABLES["replicate_agreement"].names
    pairs = list(itertools.combinations(MODELS, 2))
    assert list(zip(frame["method"], frame["model_x"], frame["model_y"], strict=True)) == [
        (method, *pair) for method in ("x", "y") for pair in pairs
    ]
    alone = agreement(scores["y"], LAYERS, permutations=200, rng=3)
    ours = frame[frame["method"] == "y"]
    for name in ("tau_b", "tau_b_p_within_layers", "spearman_low", "rbo", "rbo_p"):
        assert ours[name].tolist() == alone[name].tolist()


def test_layers_are_compared_by_their_mean_ranks(scores):
    row = replicate_agreement(scores, LAYERS, permutations=200).to_dict("records")[0]
    means = []
    for model in ("a", "b"):
        ranks = scipy.stats.rankdata(scores["x"][model])
        means.append([np.mean([ranks[h] for h in range(20) if LAYERS[h] == n]) for n in range(5)])
        np.testing.assert_allclose(layer_ranks(scores["x"][model], LAYERS), means[-1])
    assert row["layers"] == 5
    assert row["layer_tau_b"] == pytest.approx(scipy.stats.kendalltau(*means).statistic)
    assert row["layer_spearman"] == pytest.approx(scipy.stats.spearmanr(*means).statistic)
    # All 120 orders of five layers.
    every = [
        scipy.stats.kendalltau(means[0], order).statistic
        for order in itertools.permutations(means[1])
    ]
    above = np.mean(np.array(every) >= row["layer_tau_b"] - 1e-9)
    below = np.mean(np.array(every) <= row["layer_tau_b"] + 1e-9)
    everything = replicate_agreement(scores, LAYERS, permutations=120).to_dict("records")[0]
    assert everything["layer_tau_b_p"] == pytest.approx(min(1, 2 * min(above, below)))


def test_two_layers_have_no_agreement():
    values = np.arange(8.0)
    frame = replicate_agreement({"x": {"a": values, "b": values}}, np.repeat([0, 1], 4))
    assert frame["layers"].tolist() == [2]
    assert frame["layer_tau_b"].isna().all()


def test_heads_permuted_within_layers_leave_the_agreement_of_layers():
    """Models from other initialisations: the layers agree, and within them nothing does."""
    rng = np.random.default_rng(1)
    by_layer = 3.0 * np.arange(5)[LAYERS]
    first = by_layer + rng.normal(size=20)
    second = first.copy()
    for layer in range(5):
        here = np.flatnonzero(np.equal(LAYERS, layer))
        second[here] = rng.permutation(first[here])
    row = replicate_agreement({"x": {"a": first, "b": second}}, LAYERS).to_dict("records")[0]
    assert row["layer_spearman"] == pytest.approx(1.0)
    assert row["layer_spearman_p"] == pytest.approx(2 / 120)
    assert row["tau_b_p"] < 0.001
    assert row["tau_b_p_within_layers"] > 0.05


def test_overlap_is_that_of_methods_with_models_in_their_place(scores):
    kept = {
        name: {m: {10: values > np.median(values)} for m, values in by_model.items()}
        for name, by_model in scores.items()
    }
    frame = replicate_overlap(kept, LAYERS)
    assert tuple(frame.columns) == TABLES["replicate_overlap"].names
    alone = overlap(kept["x"], LAYERS)
    ours = frame[frame["method"] == "x"].reset_index(drop=True)
    for name in ("shared", "jaccard", "p_within_layers"):
        assert ours[name].tolist() == alone[name].tolist()


def test_nothing_gives_empty_tables():
    assert tuple(replicate_agreement({}, LAYERS).columns) == TABLES["replicate_agreement"].names
    assert tuple(replicate_overlap({}, LAYERS).columns) == TABLES["replicate_overlap"].names
    assert tuple(replicate_scores({}).columns) == TABLES["replicate_scores"].names


def member(seed: int, *, resamples: int = 40, examples: int = 30) -> CurveBootstrap:
    """One model with a method and two random draws at two budgets."""
    rng = np.random.default_rng(seed)
    whole = (rng.random(examples) < 0.9).astype(float)
    masked = (rng.random((6, examples)) < 0.6).astype(float)
    lines = (
        Line("all", "x", (0, 4), 8, np.array([-1, seed % 2])),
        Line("all", "y", (0, 4), 8, np.array([-1, 2])),
        Line("all", "random", (0, 4), 8, np.array([[-1, 3], [-1, 4]])),
    )
    paired = Paired.from_values(whole, masked, higher_is_better=True)
    return CurveBootstrap(paired, lines, resamples=resamples, seed=5)


def test_an_ensemble_averages_over_models():
    members = (member(0), member(1), member(2))
    together = CurveEnsemble(members)
    for number, line in enumerate(together.lines):
        expected = np.mean([one.deltas(one.lines[number]) for one in members], axis=0)
        np.testing.assert_allclose(together.deltas(line), expected)
    each = together.each_draw(together.lines[2])
    expected = np.mean([[one.observed[-1], one.observed[4]] for one in members], axis=0)
    np.testing.assert_allclose(each[1], expected)


def test_resamples_draw_models_and_the_same_examples_for_all():
    """A loop over resamples, models and examples."""
    members = (member(0), member(1), member(2))
    together = CurveEnsemble(members)
    for_examples, _ = np.random.default_rng(5).spawn(2)
    examples = for_examples.integers(0, 30, (40, 30))
    models = np.random.default_rng([5, 17]).multinomial(3, np.full(3, 1 / 3), 40)
    for r in range(40):
        total = 0.0
        for one, times in zip(members, models[r], strict=True):
            mask = one.lines[0].masks[1]
            rows = examples[r]
            total += (
                times
                / 3
                * (one.paired.masked[mask, rows, 0].mean() - one.paired.whole[rows, 0].mean())
            )
        assert together.drawn[0][r] == pytest.approx([0.0, total])
    assert set(models.sum(axis=1)) == {3}


def test_an_ensemble_of_one_is_the_model():
    one = member(3, resamples=200)
    alone, together = curve_tests(one), curve_tests(CurveEnsemble((one,)))
    for name in ("area", "low", "high", "p", "p_adjusted", "draws_beaten", "p_draws"):
        assert together[name].tolist() == pytest.approx(alone[name].tolist(), nan_ok=True)


def test_models_that_disagree_widen_the_interval():
    """A method that wins on one model and loses on another beats nothing in general."""
    examples = 400
    rng = np.random.default_rng(6)

    def model(better: int) -> CurveBootstrap:
        whole = np.ones(examples)
        rates = [0.6, 0.6]
        rates[better] = 0.9
        masked = (rng.random((2, examples)) < np.array(rates)[:, None]).astype(float)
        lines = (
            Line("all", "x", (0, 4), 8, np.array([-1, 0])),
            Line("all", "y", (0, 4), 8, np.array([-1, 1])),
        )
        paired = Paired.from_values(whole, masked, higher_is_better=True)
        return CurveBootstrap(paired, lines, resamples=2000, seed=1)

    one, other = model(0), model(1)
    assert curve_tests(one)["p"][0] < 0.01
    assert curve_tests(other)["p"][0] < 0.01
    both = curve_tests(CurveEnsemble((one, other)))
    assert both["p"][0] > 0.2
    assert both["low"][0] < -0.1 < 0.1 < both["high"][0]
    steady = curve_tests(CurveEnsemble((one, model(0))))
    assert steady["p"][0] < 0.01


def test_models_with_other_examples_or_curves_are_refused():
    with pytest.raises(ValueError, match="differ"):
        CurveEnsemble((member(0), member(1, examples=20)))
    with pytest.raises(ValueError, match="differ"):
        CurveEnsemble((member(0), member(1, resamples=10)))


def test_curves_are_tabulated_by_model():
    members = (member(0), member(1))
    frame = replicate_curves(CurveEnsemble(members), ["a", "b"])
    assert tuple(frame.columns) == TABLES["replicate_curves"].names
    assert len(frame) == 2 * 3 * 2
    row = frame.query("model == 'b' and method == 'x' and budget == 4")
    assert row["delta"].item() == pytest.approx(members[1].paired.delta[1])
