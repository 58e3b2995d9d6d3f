"""Differentiable subset pruning: exactly K heads, whatever the temperature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import softmax

from headtool.data import TextData
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask
from headtool.methods.dsp import Dsp, gumbel_top_k, straight_through_top_k


def gumbel(rng: np.random.Generator, n: int) -> torch.Tensor:
    return torch.from_numpy(rng.gumbel(size=n))


@pytest.mark.parametrize("temperature", [1000.0, 10.0, 1.0, 0.1, 1e-3, 1e-8])
@pytest.mark.parametrize("heads", [1, 3, 7, 12])
def test_gates_sum_to_k_and_are_a_choice_when_cold(temperature: float, heads: int) -> None:
    rng = np.random.default_rng(heads)
    weights = torch.from_numpy(rng.normal(size=12)).requires_grad_()
    noise = gumbel(rng, 12)
    gates = gumbel_top_k(weights, noise, heads=heads, temperature=temperature)
    assert gates.sum().item() == pytest.approx(heads, rel=1e-12)
    (gradient,) = torch.autograd.grad(gates @ torch.arange(12.0, dtype=torch.float64), weights)
    assert gradient.isfinite().all()
    if temperature == 1e-8:
        largest = torch.topk(weights + noise, heads).indices.tolist()
        assert gates.nonzero().flatten().tolist() == sorted(largest)
        assert set(gates.tolist()) <= {0.0, 1.0}


def test_the_relaxation_equals_its_formula_step_by_step() -> None:
    rng = np.random.default_rng(0)
    weights, noise = rng.normal(size=(2, 6))
    r, t, total = weights + noise, 0.7, np.zeros(6)
    for _ in range(4):
        p = softmax(r / t)
        total += p
        r = r + np.log(1 - p)
    gates = gumbel_top_k(torch.tensor(weights), torch.tensor(noise), heads=4, temperature=t)
    np.testing.assert_allclose(gates, total, rtol=1e-12)


def test_gradient_equals_central_differences() -> None:
    rng = np.random.default_rng(1)
    weights = torch.from_numpy(rng.normal(size=5)).requires_grad_()
    noise, direction = gumbel(rng, 5), torch.from_numpy(rng.normal(size=5))

    def value(w: torch.Tensor) -> torch.Tensor:
        return gumbel_top_k(w, noise, heads=3, temperature=0.8) @ direction

    (gradient,) = torch.autograd.grad(value(weights), weights)
    step = 1e-6
    for i in range(5):
        shift = torch.zeros(5, dtype=torch.float64)
        shift[i] = step
        with torch.no_grad():
            slope = (value(weights + shift) - value(weights - shift)) / (2 * step)
        assert gradient[i].item() == pytest.approx(slope.item(), rel=1e-6)


def test_cold_choices_are_drawn_without_replacement_in_proportion() -> None:
    # Gumbel top-k: the probability of a set is that of drawing it one by one by softmax(weights).
    weights = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    p = weights.exp() / weights.exp().sum()
    rng = np.random.default_rng(2)
    counts = dict.fromkeys(itertools.combinations(range(3), 2), 0)
    for _ in range(3000):
        gates = gumbel_top_k(weights, gumbel(rng, 3), heads=2, temperature=1e-8)
        counts[tuple(gates.nonzero().flatten().tolist())] += 1
    for (i, j), count in counts.items():
        wanted = p[i] * p[j] / (1 - p[i]) + p[j] * p[i] / (1 - p[j])
        assert count / 3000 == pytest.approx(wanted.item(), abs=0.03)


def test_straight_through_is_hard_forward_and_the_identity_backward() -> None:
    weights = torch.tensor([0.2, -1.0, 0.7, 0.1], dtype=torch.float64, requires_grad=True)
    gates = straight_through_top_k(weights, heads=2)
    assert gates.tolist() == [1.0, 0.0, 1.0, 0.0]
    direction = torch.tensor([3.0, -2.0, 0.5, 1.0], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(gates @ direction, weights)
    assert gradient.tolist() == direction.tolist()


@pytest.mark.parametrize(("temperature", "start"), [(None, 1000.0), (7.0, 7.0)])
def test_the_temperature_falls_exponentially_to_its_end(
    temperature: float | None, start: float, toy, toy_data: TextData, monkeypatch
) -> None:
    seen: list[float] = []

    def watched(weights, noise, *, heads: int, temperature: float) -> torch.Tensor:
        seen.append(temperature)
        return gumbel_top_k(weights, noise, heads=heads, temperature=temperature)

    monkeypatch.setattr("headtool.methods.dsp.gumbel_top_k", watched)
    model = toy((3.0, 1.0))
    Dsp(heads=1, steps=6, temperature=temperature).score(model, model.encode(toy_data))
    np.testing.assert_allclose(seen, np.geomspace(start, 1e-8, 6), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["gumbel", "straight-through"])
def test_a_needed_head_is_kept_and_a_useless_one_is_not(variant, toy, toy_data: TextData) -> None:
    for weights, kept in (((3.0, 0.0), [True, False]), ((0.0, 3.0), [False, True])):
        model = toy(weights)
        labels = toy_data
        if weights[1]:  # feature 0 tells the label: swap the features
            labels = TextData(
                toy_data.spec,
                toy_data.kind,
                {
                    "text_a": tuple(
                        " ".join(":".join(token.split(":")[::-1]) for token in text.split())
                        for text in toy_data.columns["text_a"]
                    ),
                    "label": toy_data.columns["label"],
                },
            )
        result = Dsp(heads=1, variant=variant, steps=150, batch_size=12, holdout=0.0).score(
            model, model.encode(labels)
        )
        assert result.frame["kept"].tolist() == kept
        table = result.tables["evaluation"].set_index("model")
        assert table.loc["kept heads, original weights", "loss"] == table.loc["whole model", "loss"]


@pytest.mark.parametrize("heads", [1, 5, 8])
def test_the_asked_number_of_heads_is_kept_and_evaluated(heads: int, bert, pairs) -> None:
    examples = bert.encode(pairs)
    result = Dsp(heads=heads, steps=10, batch_size=8, holdout=0.0).score(bert, examples)
    assert result.frame["kept"].sum() == heads
    assert (result.frame["kept"] == (result.frame["rank"] <= heads)).all()
    closed = [
        Head(row.kind, row.layer, row.head) for row in result.frame.itertuples() if not row.kept
    ]
    row = evaluate(bert, examples, [HeadMask.without(bert.sites, closed)]).row(0)
    table = result.tables["evaluation"].set_index("model")
    assert table.loc["kept heads, original weights", "loss"] == row["loss"].mean()
    assert table["heads"].tolist() == [8, heads]


def test_by_default_half_of_the_heads_stay(bert, pairs: TextData) -> None:
    frame = Dsp(steps=2).score(bert, bert.encode(pairs)).frame
    assert frame["kept"].sum() == 4


@pytest.mark.parametrize("heads", [0, 9, -1])
def test_a_number_of_heads_out_of_range(heads: int, bert, pairs: TextData) -> None:
    with pytest.raises(HeadtoolError, match=f"dsp.heads must be between 1 and 8, got {heads}"):
        Dsp(heads=heads).score(bert, bert.encode(pairs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "dsp.steps must be at least 1, got 0"),
        ({"temperature": 0.0}, "dsp.temperature must be above 1e-08, got 0.0"),
        ({"temperature": math.nan}, "dsp.temperature must be above 1e-08"),
        ({"temperature": 5.0, "variant": "straight-through"}, "has no effect on straight-through"),
        ({"holdout": -0.1}, r"dsp.holdout must be in \[0, 1\)"),
    ],
)
def test_options_that_make_no_sense(options, message: str) -> None:
    with pytest.raises(HeadtoolError, match=message):
        Dsp(**options)
