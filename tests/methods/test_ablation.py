"""Ablation against closed forms, literal loops and physical zeroing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool.data import TextData
from headtool.engine.donors import draw_donors
from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import replacement
from headtool.heads import Head, HeadMask
from headtool.methods.ablation import Ablation
from headtool.models.huggingface.model import HuggingFaceModel


def losses(model, examples, weights) -> np.ndarray:
    logits = np.array([np.mean(row["features"], axis=0) @ weights for row in examples.rows])
    gold = np.array([row["target"] for row in examples.rows])
    return np.log1p(np.exp(np.where(gold == 1, -logits, logits)))


def test_closed_form_on_two_heads(toy, toy_data: TextData) -> None:
    weights = np.array([1.5, -0.5])
    model = toy(tuple(weights))
    examples = model.encode(toy_data)
    result = Ablation(signal="loss").score(model, examples)
    whole = losses(model, examples, weights)
    for head in range(2):
        masked = losses(model, examples, weights * (np.arange(2) != head))
        row = result.frame.iloc[head]
        assert row["score"] == pytest.approx((masked - whole).mean())
        assert row["stderr"] == pytest.approx((masked - whole).std(ddof=1) / np.sqrt(len(whole)))
    assert result.outcomes is not None
    np.testing.assert_allclose(result.outcomes.whole["loss"], whole)


def test_a_head_without_output_weights_scores_exactly_zero(toy, toy_data: TextData) -> None:
    model = toy((1.5, 0.0))
    frame = Ablation().score(model, model.encode(toy_data)).frame
    assert frame["score"].iloc[1] == 0
    assert frame["stderr"].iloc[1] == 0
    assert frame["score"].iloc[0] > 0.2
    assert frame["rank"].tolist() == [1, 2]


def test_heads_that_change_as_many_predictions_are_ranked_by_the_loss(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    frame = Ablation().score(bert, examples).frame
    loss = Ablation(signal="loss").score(bert, examples).frame["score"]
    assert frame["tied"].sum() >= 2
    for _, group in frame.assign(by_loss=loss).groupby("score"):
        order = group.sort_values("rank")["by_loss"].to_numpy()
        assert (np.diff(order) <= 0).all()
    seeds = [Ablation().score(bert, examples, seed=seed).frame["rank"] for seed in (0, 1)]
    assert seeds[0].equals(seeds[1])


def test_masking_a_masked_head_changes_nothing(bert: HuggingFaceModel, pairs: TextData) -> None:
    head = Head("enc-self", 1, 2)
    zero_columns(bert, head)
    outcomes = evaluate(bert, bert.encode(pairs), [HeadMask.without(bert.sites, [head])])
    np.testing.assert_array_equal(outcomes.masked["loss"][0], outcomes.whole["loss"])


def zero_columns(bert: HuggingFaceModel, head: Head) -> None:
    dense = bert.module.bert.encoder.layer[head.layer].attention.output.dense
    with torch.no_grad():
        dense.weight[:, 4 * head.index : 4 * head.index + 4] = 0


def test_masks_equal_zeroed_output_projections(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    heads = [Head("enc-self", 0, 1), Head("enc-self", 1, 3)]
    masked = evaluate(bert, examples, [HeadMask.without(bert.sites, heads)])
    for head in heads:
        zero_columns(bert, head)
    zeroed = evaluate(bert, examples, [])
    np.testing.assert_allclose(masked.masked["loss"][0], zeroed.whole["loss"], rtol=1e-12)
    assert zeroed.masked["loss"].shape == (0, len(pairs))


def test_all_heads_closed_leave_the_biases(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    mask = HeadMask.without(bert.sites, bert.sites.heads)
    closed = evaluate(bert, examples, [mask]).row(0)
    # Without attention nothing but the first token and its position reaches the classifier.
    assert len(set(np.round(closed["prediction"]))) == 1


def test_mean_replacement_uses_the_mean_over_real_tokens(toy, toy_data: TextData) -> None:
    weights = np.array([1.5, -0.5])
    model = toy(tuple(weights))
    examples = model.encode(toy_data)
    outcomes = evaluate(
        model,
        examples,
        [HeadMask.without(model.sites, [Head("enc-self", 0, 0)])],
        replacement=replacement("mean"),
    )
    contexts = np.array([np.mean(row["features"], axis=0) for row in examples.rows])
    tokens = np.array([len(row["features"]) for row in examples.rows])
    mean = (contexts[:, 0] * tokens).sum() / tokens.sum()
    logits = mean * weights[0] + contexts[:, 1] * weights[1]
    gold = np.array([row["target"] for row in examples.rows])
    expected = np.log1p(np.exp(np.where(gold == 1, -logits, logits)))
    np.testing.assert_allclose(outcomes.masked["loss"][0], expected, rtol=1e-6)


def test_resample_replacement_uses_the_donors_output(toy, toy_data: TextData) -> None:
    weights = np.array([1.5, -0.5])
    model = toy(tuple(weights))
    examples = model.encode(toy_data)
    donors = draw_donors(examples.lengths, np.random.default_rng(4))
    outcomes = evaluate(
        model,
        examples,
        [HeadMask.without(model.sites, [Head("enc-self", 0, 1)])],
        replacement=replacement("resample", seed=4),
    )
    contexts = np.array([np.mean(row["features"], axis=0) for row in examples.rows])
    logits = contexts[:, 0] * weights[0] + contexts[donors, 1] * weights[1]
    gold = np.array([row["target"] for row in examples.rows])
    expected = np.log1p(np.exp(np.where(gold == 1, -logits, logits)))
    np.testing.assert_allclose(outcomes.masked["loss"][0], expected)


def test_open_heads_ignore_the_replacement(bert: HuggingFaceModel, pairs: TextData) -> None:
    mask = HeadMask.full(bert.sites)
    for name in ("zero", "mean", "resample"):
        outcomes = evaluate(bert, bert.encode(pairs), [mask], replacement=replacement(name))
        np.testing.assert_array_equal(outcomes.masked["loss"][0], outcomes.whole["loss"])


def test_donors_are_others_and_long_enough() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, size=200)
    donors = draw_donors(lengths, rng)
    assert (donors != np.arange(200)).all()
    longest = lengths == lengths.max()
    assert (lengths[donors] >= lengths)[~longest].all()
    assert len(set(donors.tolist())) > 80
    assert draw_donors(np.array([3]), rng).tolist() == [0]
    two = draw_donors(np.array([5, 2]), rng)
    assert two.tolist() == [1, 0]


def test_every_possible_donor_is_drawn() -> None:
    lengths = np.array([1, 2, 2, 3])
    drawn = [draw_donors(lengths, np.random.default_rng(seed)) for seed in range(200)]
    assert {int(d[0]) for d in drawn} == {1, 2, 3}
    assert {int(d[1]) for d in drawn} == {2, 3}
    assert {int(d[2]) for d in drawn} == {1, 3}


def test_lower_is_better_metrics_turn_the_sign(toy, toy_data: TextData) -> None:
    model = toy((1.5, 0.2))
    examples = model.encode(toy_data)
    by_loss = Ablation().score(model, examples, metric="loss").frame
    signal = Ablation(signal="loss").score(model, examples).frame
    np.testing.assert_array_equal(by_loss["score"], signal["score"])
    assert by_loss["score"].iloc[0] > 0
    accuracy = Ablation().score(model, examples).frame
    assert "accuracy" in accuracy
