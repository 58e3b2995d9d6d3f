"""Shapley values against full enumeration of all sets and all orders."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from headtool.data import TextData
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask, Sites
from headtool.methods.base import Job
from headtool.methods.shapley import Shapley, _Game
from headtool.metrics import get_metric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples


def enumerated(model: ModelAdapter, examples: Examples, metric: str = "loss") -> np.ndarray:
    """Exact Shapley values from the values of all subsets: the weighted sum of the definition."""
    measure = get_metric(metric, task=model.task)
    sign = 1 if measure.higher_is_better else -1
    heads = model.sites.n_heads
    sets = [np.array(bits) for bits in itertools.product([False, True], repeat=heads)]
    outcomes = evaluate(model, examples, [HeadMask(model.sites, kept) for kept in sets])
    value = {kept.tobytes(): sign * measure.compute(outcomes.row(i)) for i, kept in enumerate(sets)}
    result = np.zeros(heads)
    for kept in sets:
        size = int(kept.sum())
        for head in np.flatnonzero(~kept):
            weight = 1 / (heads * math.comb(heads - 1, size))
            with_head = kept.copy()
            with_head[head] = True
            result[head] += weight * (value[with_head.tobytes()] - value[kept.tobytes()])
    return result


def test_one_pair_is_exact_for_two_heads(toy, toy_data: TextData) -> None:
    model = toy((1.5, -0.5))
    examples = model.encode(toy_data)
    for metric in ("loss", "accuracy"):
        frame = Shapley(permutations=4, tolerance=0.0).score(model, examples, metric=metric).frame
        np.testing.assert_allclose(frame["score"], enumerated(model, examples, metric), atol=1e-12)
        np.testing.assert_allclose(frame["stderr"], 0, atol=1e-12)  # both orders are all there are


def test_the_estimate_is_within_its_error_of_full_enumeration(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    exact = enumerated(bert, examples)
    result = Shapley(permutations=200, signal="loss", tolerance=0.0).score(bert, examples)
    z = (result.frame["score"] - exact) / result.frame["stderr"]
    assert np.abs(z).max() < 4
    assert np.sqrt((z**2).mean()) > 0.2, "errors much below their standard error are suspicious"
    assert result.frame["stderr"].max() < 0.25 * exact.std()
    row = result.tables["estimate"].iloc[0]
    assert row["left out"] == pytest.approx(0, abs=1e-9)
    assert row["sum of scores"] == pytest.approx(exact.sum(), rel=1e-9)
    assert row["masks"] <= 2**8


def test_the_standard_error_is_the_spread_of_repeated_estimates(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    sets = list(itertools.product([False, True], repeat=6))
    value = {kept: float(rng.normal() + 2 * sum(kept)) for kept in sets}
    exact = np.zeros(6)
    for kept, head in itertools.product(sets, range(6)):
        if not kept[head]:
            with_head = (*kept[:head], True, *kept[head + 1 :])
            weight = 1 / (6 * math.comb(5, sum(kept)))
            exact[head] += weight * (value[with_head] - value[kept])

    def look_up(self: object, asked: list[np.ndarray]) -> list[float]:
        return [value[tuple(kept.tolist())] for kept in asked]

    monkeypatch.setattr(_Game, "values", look_up)
    site = AttentionSite("enc-self", 0, 6, 6, 2, "out")
    metric = get_metric("accuracy", task="classification")
    method = Shapley(permutations=20, tolerance=0.0)
    runs = [
        method.compute(Job(None, None, Sites((site,)), metric, seed))  # type: ignore[arg-type]
        for seed in range(300)
    ]
    scores = np.array([run.score for run in runs])
    np.testing.assert_allclose(scores.sum(axis=1), value[sets[-1]] - value[sets[0]])
    spread = scores.std(axis=0)
    told = np.sqrt(np.mean([run.stderr**2 for run in runs], axis=0))
    np.testing.assert_allclose(told, spread, rtol=0.15)
    assert (abs(scores.mean(axis=0) - exact) < 4 * spread / np.sqrt(300)).all()


def test_the_table_says_what_is_shared_out(toy, toy_data: TextData) -> None:
    model = toy((1.5, -0.5))
    for metric, wanted in (("loss", "-loss"), ("accuracy", "accuracy")):
        result = Shapley(permutations=2).score(model, model.encode(toy_data), metric=metric)
        assert result.tables["estimate"]["value"].tolist() == [wanted]


@pytest.mark.slow
def test_pairs_vary_less_than_single_orders(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    paired, single = [], []
    for seed in range(12):
        frame = Shapley(permutations=8, signal="loss", tolerance=0.0).score(
            bert, examples, seed=seed
        )
        paired.append(frame.frame["score"])
        rng = np.random.default_rng([seed, 5])
        single.append(literal(bert, examples, [rng.permutation(8) for _ in range(8)]))
    assert np.var(paired, axis=0).mean() < 0.7 * np.var(single, axis=0).mean()


def literal(model: ModelAdapter, examples: Examples, orders: list[np.ndarray]) -> np.ndarray:
    """Mean gain of each head over orders, every set evaluated on its own."""
    total = np.zeros(model.sites.n_heads)
    for order in orders:
        masks = []
        for steps in range(len(order) + 1):
            is_open = np.zeros(len(order), dtype=bool)
            is_open[order[:steps]] = True
            masks.append(HeadMask(model.sites, is_open))
        losses = evaluate(model, examples, masks).masked["loss"].mean(axis=1)
        total[order] += -np.diff(losses)
    return total / len(orders)


def test_orders_equal_literal_walks(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    found = Shapley(permutations=6, signal="loss", tolerance=0.0).score(bert, examples, seed=4)
    rng = np.random.default_rng(4)
    drawn = [rng.permutation(8) for _ in range(3)]
    expected = literal(bert, examples, [o for one in drawn for o in (one, one[::-1])])
    np.testing.assert_allclose(found.frame["score"], expected, atol=1e-12)
    gains = [literal(bert, examples, [one, one[::-1]]) for one in drawn]
    np.testing.assert_allclose(
        found.frame["stderr"], np.std(gains, axis=0, ddof=1) / np.sqrt(3), atol=1e-12
    )


def test_a_planted_useless_head_gets_zero_and_equals_share(toy, toy_data: TextData) -> None:
    model = toy((1.5, 0.0))
    frame = Shapley(permutations=2, signal="loss").score(model, model.encode(toy_data)).frame
    assert frame["score"].iloc[1] == pytest.approx(0, abs=1e-12)
    assert frame["score"].iloc[0] > 0.2
    same = toy((0.8, 0.8))
    both = TextData(
        toy_data.spec,
        toy_data.kind,
        {
            "text_a": tuple(
                " ".join(f"{token.split(':')[0]}:{token.split(':')[0]}" for token in text.split())
                for text in toy_data.columns["text_a"]
            ),
            "label": toy_data.columns["label"],
        },
    )
    frame = Shapley(permutations=2, signal="loss").score(same, same.encode(both)).frame
    assert frame["score"].iloc[0] == pytest.approx(frame["score"].iloc[1])


def test_truncation_ends_walks_at_the_floor_and_is_reported(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    with torch.no_grad():  # heads of the first layer alone reach the prediction
        bert.module.bert.encoder.layer[1].attention.output.dense.weight.zero_()
        bert.module.bert.encoder.layer[0].attention.output.dense.weight[:, 4:].zero_()
    whole = Shapley(permutations=8, signal="loss", tolerance=0.0).score(bert, examples)
    cut = Shapley(permutations=8, signal="loss", tolerance=0.01).score(bert, examples)
    np.testing.assert_allclose(cut.frame["score"], whole.frame["score"], atol=1e-9)
    assert cut.frame["score"].iloc[0] != 0
    np.testing.assert_allclose(cut.frame["score"].iloc[1:], 0, atol=1e-9)
    assert cut.tables["estimate"]["left out"].iloc[0] == pytest.approx(0, abs=1e-9)
    rough = Shapley(permutations=8, signal="loss", tolerance=0.99).score(bert, examples)
    row = rough.tables["estimate"].iloc[0]
    gap = row["all heads"] - row["no heads"] - rough.frame["score"].sum()
    assert row["left out"] == pytest.approx(gap)


def test_stops_once_the_error_is_small_enough(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    long = Shapley(permutations=60, signal="loss").score(bert, examples)
    wanted = 1.5 * long.frame["stderr"].mean()
    result = Shapley(permutations=60, signal="loss", stderr=wanted).score(bert, examples)
    assert result.frame["stderr"].mean() <= wanted
    assert result.tables["estimate"]["orders"].iloc[0] < 60


def test_heads_of_other_kinds_stay_open(save_fairseq) -> None:
    from headtool.models import load_model

    model = load_model(f"fairseq:{save_fairseq()}")
    data = TextData("t", "translation", {"source": ("a b c", "b a"), "target": ("c d", "a")})
    examples = model.encode(data)
    result = Shapley(permutations=4).score(model, examples, kinds=["cross"])
    row = result.tables["estimate"].iloc[0]
    whole = evaluate(model, examples, []).whole
    assert row["all heads"] == pytest.approx(-whole["loss"].sum() / whole["tokens"].sum())
    closed = HeadMask.without(model.sites, [h for h in model.sites.heads if h.kind == "cross"])
    none = evaluate(model, examples, [closed]).row(0)
    assert row["no heads"] == pytest.approx(-none["loss"].sum() / none["tokens"].sum())


def test_a_metric_that_some_sets_leave_undefined_is_refused(bert, pairs, monkeypatch) -> None:
    metric = type(get_metric("accuracy", task="classification"))
    monkeypatch.setattr(metric, "compute", lambda self, columns: float("nan"))
    with pytest.raises(HeadtoolError, match="accuracy is nan with 8 of 8 heads open"):
        Shapley().score(bert, bert.encode(pairs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permutations": 0}, "must be even and at least 2, got 0"),
        ({"permutations": 7}, "must be even and at least 2, got 7"),
        ({"stderr": 0.0}, "shapley.stderr must be above 0"),
        ({"tolerance": 1.0}, r"shapley.tolerance must be in \[0, 1\)"),
        ({"tolerance": -0.1}, r"shapley.tolerance must be in \[0, 1\)"),
    ],
)
def test_options_that_make_no_sense(options, message: str) -> None:
    with pytest.raises(HeadtoolError, match=message):
        Shapley(**options)
