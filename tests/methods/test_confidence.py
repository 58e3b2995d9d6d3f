"""Attention confidence: closed forms and token selection."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool.data import TextData
from headtool.methods.confidence import Confidence
from headtool.models.huggingface.model import HuggingFaceModel


def test_uniform_attention_scores_one_over_n(toy, toy_data: TextData) -> None:
    model = toy((1.0, 1.0))
    examples = model.encode(toy_data)
    lengths = examples.lengths
    largest = Confidence().score(model, examples).frame["score"]
    # Every token of an example of length n scores 1/n, so each example contributes exactly one.
    np.testing.assert_allclose(largest, len(lengths) / lengths.sum())
    entropy = Confidence(statistic="entropy").score(model, examples).frame["score"]
    np.testing.assert_allclose(entropy, -(lengths * np.log(lengths)).sum() / lengths.sum())


def sharpen(bert: HuggingFaceModel, layer: int, head: int) -> None:
    """Make a head attend to one token whatever the input: keys differ only by their content."""
    attention = bert.module.bert.encoder.layer[layer].attention.self
    rows = slice(4 * head, 4 * head + 4)
    with torch.no_grad():
        attention.query.weight[rows] = 0
        attention.query.bias[rows] = 1e4
        attention.key.weight[rows] *= 1e2


def test_one_hot_attention_scores_one(bert: HuggingFaceModel, pairs: TextData) -> None:
    sharpen(bert, 1, 2)
    examples = bert.encode(pairs)
    frame = Confidence().score(bert, examples).frame
    assert frame["score"].iloc[6] == pytest.approx(1, abs=1e-6)
    assert frame["rank"].iloc[6] == 1
    entropy = Confidence(statistic="entropy").score(bert, examples).frame
    assert entropy["score"].iloc[6] == pytest.approx(0, abs=1e-5)
    assert (frame["score"].drop(6) < 0.9).all()


@pytest.mark.slow
@pytest.mark.parametrize("exclude", ["eos", "special", "none"])
@pytest.mark.parametrize("statistic", ["max", "entropy"])
def test_equals_a_literal_loop_over_examples(
    exclude: str, statistic: str, bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    frame = Confidence(statistic=statistic, exclude=exclude).score(bert, examples).frame
    dropped = {"eos": {3}, "special": {0, 1, 2, 3, 4}, "none": set()}[exclude]
    bert.module.set_attn_implementation("eager")
    totals, count = np.zeros(8), 0
    for row in examples.rows:
        ids = torch.tensor([row["input_ids"]])
        types = torch.tensor([row["token_type_ids"]])
        with torch.no_grad():
            maps = bert.module(
                input_ids=ids, token_type_ids=types, output_attentions=True
            ).attentions
        for t, token in enumerate(row["input_ids"]):
            if token in dropped:
                continue
            count += 1
            for layer in range(2):
                for head in range(4):
                    p = maps[layer][0, head, t].numpy()
                    value = p.max() if statistic == "max" else (p * np.log(p)).sum()
                    totals[4 * layer + head] += value
    np.testing.assert_allclose(frame["score"], totals / count, rtol=1e-10)


def test_standard_error_agrees_with_the_jackknife(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    result = Confidence().score(bert, examples).frame
    left_out = np.array(
        [
            Confidence().score(bert, examples.take(np.delete(np.arange(17), i))).frame["score"]
            for i in range(17)
        ]
    )
    np.testing.assert_allclose(result["stderr"], np.sqrt(16 * left_out.var(axis=0)), rtol=0.15)
