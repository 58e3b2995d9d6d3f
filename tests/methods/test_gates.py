"""Hard-concrete gates: closed forms, thresholds, gradients, and what training finds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from headtool.builtin.planted import truth
from headtool.data import TextData, load_data
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask
from headtool.methods.base import Job
from headtool.methods.gates import Gates, eval_gate, open_probability, sample_gate
from headtool.metrics import get_metric
from headtool.models import load_model


def test_open_probability_agrees_with_a_million_draws() -> None:
    log_alpha = torch.tensor([-3.0, -0.5, 0.0, 1.0, 2.5], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(1_000_000, 5, generator=generator, dtype=torch.float64)
    share = (sample_gate(log_alpha, uniform) > 0).double().mean(dim=0)
    torch.testing.assert_close(share, open_probability(log_alpha), atol=0.002, rtol=0)
    shifted = torch.sigmoid(log_alpha + 0.791)
    torch.testing.assert_close(open_probability(log_alpha), shifted, atol=1e-4, rtol=0)
    assert (sample_gate(log_alpha, uniform) == 1).any()


def test_gates_without_noise_close_and_open_exactly() -> None:
    assert eval_gate(torch.tensor(-2.398)) == 0
    assert eval_gate(torch.tensor(-2.397)) > 0
    assert eval_gate(torch.tensor(2.398)) == 1
    assert eval_gate(torch.tensor(2.397)) < 1
    assert eval_gate(torch.tensor(0.0)) == pytest.approx(0.5)


def test_gradient_of_a_drawn_gate_equals_central_differences() -> None:
    uniform = torch.tensor([0.3, 0.5, 0.62, 1e-9], dtype=torch.float64)
    log_alpha = torch.tensor([0.4, -0.2, 0.0, 1.0], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(sample_gate(log_alpha, uniform).sum(), log_alpha)
    step = 1e-6
    with torch.no_grad():
        up, down = sample_gate(log_alpha + step, uniform), sample_gate(log_alpha - step, uniform)
    torch.testing.assert_close(gradient, (up - down) / (2 * step), rtol=1e-6, atol=1e-8)
    assert (gradient[:3] > 0).all()


@pytest.mark.slow
def test_a_planted_useless_head_closes_and_a_needed_one_stays(toy, toy_data: TextData) -> None:
    model = toy((3.0, 0.0))
    result = Gates(lambda_=0.02, steps=300, batch_size=12, holdout=0.0).score(
        model, model.encode(toy_data)
    )
    assert result.frame["kept"].tolist() == [True, False]
    assert result.frame["score"].iloc[0] > 0.8
    assert result.frame["score"].iloc[1] < 0.3
    table = result.tables["evaluation"].set_index("model")
    assert table.loc["kept heads, original weights", "heads"] == 1
    assert table.loc["kept heads, original weights", "loss"] == table.loc["whole model", "loss"]


@pytest.mark.slow
def test_a_strong_penalty_closes_everything_and_none_closes_nothing(toy, toy_data) -> None:
    model = toy((3.0, 1.0))
    examples = model.encode(toy_data)
    closed = Gates(lambda_=50.0, steps=200, batch_size=12).score(model, examples)
    assert not closed.frame["kept"].any()
    free = Gates(lambda_=0.0, steps=50, batch_size=12).score(model, examples)
    assert free.frame["kept"].iloc[0]


def test_site_mean_is_the_sum_divided_by_the_sites(toy, toy_data: TextData) -> None:
    model = toy((3.0, 0.5))  # one site, so both penalties are the same
    examples = model.encode(toy_data)
    frames = [
        Gates(penalty=penalty, steps=20, batch_size=6).score(model, examples).frame
        for penalty in ("sum", "site-mean", None)
    ]
    assert frames[0].equals(frames[1])
    assert frames[0].equals(frames[2])


@pytest.mark.slow
def test_the_asked_number_of_heads_is_kept(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    for heads in (2, 6):
        result = Gates(heads=heads, steps=200, batch_size=16).score(bert, examples)
        assert result.frame["kept"].sum() == heads
        # The constraint moves the expected number of open gates there, not only the cut.
        assert result.frame["score"].sum() == pytest.approx(heads, abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target"), [("tiny", 0.4), ("builtin:planted", 0.75)])
def test_the_lagrangian_closes_the_share_asked_for(
    spec: str, target: float, bert, pairs: TextData
) -> None:
    model = bert if spec == "tiny" else load_model(spec, device="cpu")
    data = pairs if spec == "tiny" else load_data(spec, limit=16)
    gates = Gates(target=target, steps=300, batch_size=8, gate_lr=0.1)
    scores = gates.score(model, model.encode(data)).frame
    wanted = len(scores) - round(target * len(scores))
    assert scores["kept"].sum() == wanted
    # The multipliers did it, not the cut at the end.
    assert scores["score"].mean() == pytest.approx(1 - target, abs=0.08)
    assert abs((scores["log_alpha"] > 0).sum() - wanted) <= 1
    if spec == "builtin:planted":
        heads = zip(scores["kind"], scores["layer"], scores["head"], strict=True)
        kept = {Head(*head) for head, stays in zip(heads, scores["kept"], strict=True) if stays}
        assert truth(0).suffices(frozenset(kept))


@pytest.mark.parametrize(("target", "kept"), [(0.1, 29), (0.4, 19), (0.97, 1)])
def test_exactly_so_many_heads_stay(target: float, kept: int) -> None:
    model = load_model("builtin:nli", device="cpu")
    examples = model.encode(load_data("builtin:nli/matched", limit=8))
    scores = Gates(target=target, steps=3, batch_size=4).score(model, examples)
    assert scores.frame["kept"].sum() == kept
    assert scores.provenance["options"]["target"] == target


def test_the_penalty_is_that_of_cofi(toy, toy_data: TextData) -> None:
    """Multipliers by hand: Adam's steps up, from zero, along the gap and its square."""
    model = toy((1.0, 2.0))
    job = Job(model, model.encode(toy_data), model.sites, get_metric("loss", task="classification"))
    penalty = Gates(target=0.5, steps=4).regulariser(job)
    assert penalty is not None
    numbers = torch.tensor([2.0, -1.0])
    l1 = torch.zeros(2, requires_grad=True)
    ascent = torch.optim.Adam([l1], lr=0.1)
    for step, reached in enumerate((0.25, 0.5, 0.5, 0.5)):
        gap = 1 - open_probability(numbers).mean() - reached
        expected = l1[0] * gap + l1[1] * gap**2
        torch.testing.assert_close(penalty(numbers, step), expected.detach())
        ascent.zero_grad()
        (-expected).backward()
        ascent.step()


def test_adapted_weights_come_back_and_the_model_keeps_its_own(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    before = {name: weight.clone() for name, weight in bert.module.named_parameters()}
    method = Gates(train="classifier.*", steps=30, weight_lr=0.05, lambda_=0.05)
    result = method.score(bert, examples)
    assert set(result.weights) == {"classifier.weight", "classifier.bias"}
    assert not torch.equal(result.weights["classifier.weight"], before["classifier.weight"])
    for name, weight in bert.module.named_parameters():
        assert torch.equal(weight, before[name])
    table = result.tables["evaluation"].set_index("model")
    assert list(table.index) == [
        "whole model",
        "kept heads, original weights",
        "kept heads, adapted weights",
    ]
    assert (table["examples"] == 3).all()
    closed = [
        Head(row.kind, row.layer, row.head) for row in result.frame.itertuples() if not row.kept
    ]
    mask = HeadMask.without(bert.sites, closed)
    held_out = method._split(job_of(bert, examples))[1]
    original = evaluate(bert, held_out, [mask]).row(0)
    assert table.loc["kept heads, original weights", "loss"] == original["loss"].mean()
    with torch.no_grad():
        for name, weight in result.weights.items():
            bert.module.get_parameter(name).copy_(weight)
    adapted = evaluate(bert, held_out, [mask]).row(0)
    assert table.loc["kept heads, adapted weights", "loss"] == adapted["loss"].mean()


def job_of(model, examples, metric: str = "accuracy") -> Job:
    return Job(model, examples, model.sites, get_metric(metric, task=model.task), seed=0)


def test_a_pattern_that_matches_nothing_is_an_error(bert, pairs: TextData) -> None:
    with pytest.raises(HeadtoolError, match=r"matches 'encoder\.nowhere'"):
        Gates(train="encoder.nowhere").score(bert, bert.encode(pairs))


@pytest.mark.slow
def test_a_sweep_is_the_single_runs_side_by_side(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    options = {"steps": 40, "batch_size": 8, "gate_lr": 0.2, "train": "classifier.*"}
    swept = Gates(lambda_=0.05, sweep="1, 0,0.05", **options).score(bert, examples)
    alone = {value: Gates(lambda_=value, **options).score(bert, examples) for value in (0, 0.05, 1)}
    np.testing.assert_array_equal(swept.frame["score"], alone[0.05].frame["score"])
    table = swept.tables["sweep"]
    assert table["lambda"].tolist() == [0, 0, 0.05, 0.05, 1, 1]
    for value, result in alone.items():
        wanted = result.tables["evaluation"].iloc[1:].reset_index(drop=True)
        found = table[table["lambda"] == value].drop(columns="lambda").reset_index(drop=True)
        pd.testing.assert_frame_equal(found, wanted)
        assert (swept.frame[f"kept_at_{value:g}"] == result.frame["kept"]).all()
    kept = table.groupby("lambda")["heads"].first()
    assert kept.is_monotonic_decreasing
    assert kept[1] < kept[0]
    pd.testing.assert_frame_equal(swept.tables["evaluation"], alone[0.05].tables["evaluation"])


@pytest.mark.slow
def test_the_encoder_is_pruned_alone_where_the_decoder_is_frozen(save_fairseq) -> None:
    from headtool.models import load_model

    model = load_model(f"fairseq:{save_fairseq()}")
    data = TextData(
        "t", "translation", {"source": ("a b c", "b a") * 4, "target": ("c d", "a") * 4}
    )
    examples = model.encode(data)
    result = Gates(lambda_=5.0, steps=60, gate_lr=0.2, train="encoder.*").score(
        model, examples, kinds=["enc-self"]
    )
    assert set(result.frame["kind"]) == {"enc-self"}
    assert all(name.startswith("encoder.") for name in result.weights)
    assert result.tables["evaluation"]["heads"].tolist() == [8, 0, 0]
    closed = HeadMask.without(model.sites, [h for h in model.sites.heads if h.kind == "enc-self"])
    held_out = Gates()._split(job_of(model, examples, "loss"))[1]
    losses = evaluate(model, held_out, [closed]).row(0)
    expected = losses["loss"].sum() / losses["tokens"].sum()
    table = result.tables["evaluation"].set_index("model")
    assert table.loc["kept heads, original weights", "loss"] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sweep": "0.1,x"}, r"gates.sweep must be numbers from 0 on .*, got 'x'"),
        ({"sweep": "0.1,-2"}, "gates.sweep must be numbers"),
        ({"sweep": "inf"}, "gates.sweep must be numbers"),
        ({"sweep": ""}, "gates.sweep must be numbers"),
        ({"sweep": "0.1", "heads": 3}, "gates.sweep varies lambda, and gates.heads adapts it"),
        ({"lambda_": 0.1, "heads": 3}, "gates.lambda has no effect where gates.heads adapts"),
        # Also the value that it has by default.
        ({"lambda_": 0.02, "heads": 3}, "gates.lambda has no effect where gates.heads adapts"),
        ({"target": 0.0}, "gates.target must be above 0 and below 1, got 0"),
        ({"target": 1.0}, "gates.target must be above 0 and below 1, got 1"),
        ({"target": 0.5, "heads": 3}, "gates.target and gates.heads both say how many"),
        ({"target": 0.5, "sweep": "0.1"}, "gates.sweep varies lambda, and gates.target adapts it"),
        ({"target": 0.5, "lambda_": 0.1}, "gates.lambda has no effect where gates.target adapts"),
        ({"penalty": "sum", "heads": 3}, "gates.penalty has no effect where gates.heads"),
        ({"penalty": "site-mean", "heads": 3}, "gates.penalty has no effect where gates.heads"),
        ({"steps": 0}, "gates.steps must be at least 1"),
        ({"gate_lr": 0.0}, "gates.gate_lr must be above 0"),
        ({"holdout": 1.0}, r"gates.holdout must be in \[0, 1\)"),
        ({"lambda_": -1.0}, "gates.lambda must be at least 0"),
        ({"lambda_": math.nan}, "gates.lambda must be at least 0"),
    ],
)
def test_options_that_make_no_sense(options, message: str) -> None:
    with pytest.raises(HeadtoolError, match=message):
        Gates(**options)


@pytest.mark.parametrize("heads", [0, 9])
def test_a_number_of_heads_out_of_range(heads: int, bert, pairs: TextData) -> None:
    with pytest.raises(HeadtoolError, match="between 1 and 8"):
        Gates(heads=heads).score(bert, bert.encode(pairs))
    with pytest.raises(
        HeadtoolError, match=r"gates.target=0.99 keeps a number that must be between"
    ):
        Gates(target=0.99).score(bert, bert.encode(pairs))
