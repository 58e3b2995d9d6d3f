"""First-order Taylor importance against gradients of single examples and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from headtool.data import TextData
from headtool.engine.differentiation import differentiate
from headtool.errors import HeadtoolError
from headtool.methods.base import Job
from headtool.methods.slices import head_slices
from headtool.methods.taylor import Taylor
from headtool.metrics import metric_of_model
from headtool.models.huggingface.model import HuggingFaceModel

from ..support.family_model import DATA, FamilyModel


def parts(bert: HuggingFaceModel, layer: int, head: int) -> list[tuple[Tensor, tuple[slice, ...]]]:
    """The parameters of a head of width 4, and where in them it is."""
    own = bert.module.bert.encoder.layer[layer].attention
    rows, all_of_it = slice(4 * head, 4 * head + 4), slice(None)
    found = []
    for projection in (own.self.query, own.self.key, own.self.value):
        found += [(projection.weight, (rows,)), (projection.bias, (rows,))]
    return [*found, (own.output.dense.weight, (all_of_it, rows))]


def per_example(bert: HuggingFaceModel, pairs: TextData) -> tuple[np.ndarray, np.ndarray]:
    """Sums of w dL_b/dw [N, heads], and of ``|w dL/dw|`` [heads], one example at a time."""
    examples = bert.encode(pairs)
    heads = [parts(bert, layer, head) for layer in range(2) for head in range(4)]
    weights = list({id(weight): weight for head in heads for weight, _ in head}.values())
    totals = {id(weight): torch.zeros_like(weight) for weight in weights}
    sums = np.zeros((len(examples), 8))
    for i in range(len(examples)):
        loss = bert.forward(bert.collate(examples, np.array([i]))).losses.sum()
        gradients = dict(zip(map(id, weights), torch.autograd.grad(loss, weights), strict=True))
        for key, gradient in gradients.items():
            totals[key] += gradient / len(examples)
        for column, head in enumerate(heads):
            for weight, where in head:
                product = weight * gradients[id(weight)]
                sums[i, column] += product[where].sum().item()
    sizes = [
        sum((weight * totals[id(weight)])[where].abs().sum().item() for weight, where in head)
        for head in heads
    ]
    return sums, np.array(sizes)


def test_equals_a_literal_loop_over_examples(bert: HuggingFaceModel, pairs: TextData) -> None:
    sums, sizes = per_example(bert, pairs)
    examples = bert.encode(pairs)
    group = Taylor(batch_size=1).score(bert, examples).frame
    np.testing.assert_allclose(group["score"], np.abs(sums.mean(axis=0)), rtol=1e-8)
    np.testing.assert_allclose(group["stderr"], sums.std(axis=0, ddof=1) / np.sqrt(17), rtol=1e-8)
    element = Taylor(granularity="element").score(bert, examples).frame
    np.testing.assert_allclose(element["score"], sizes, rtol=1e-8)
    assert element["stderr"].isna().all()
    assert (element["score"] > group["score"]).all()


def test_equals_a_finite_difference(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    score = Taylor().score(bert, examples).frame["score"]
    batch = bert.collate(examples, np.arange(17))
    step = 1e-4
    with torch.no_grad():
        for column, head in enumerate([(0, 1), (1, 2)]):
            losses = []
            for sign in (1, -1):
                for weight, where in parts(bert, *head):
                    weight[where] *= 1 + sign * step
                losses.append(bert.forward(batch).losses.mean().item())
                for weight, where in parts(bert, *head):
                    weight[where] /= 1 + sign * step
            slope = abs(losses[0] - losses[1]) / (2 * step)
            assert score.iloc[[1, 6][column]] == pytest.approx(slope, rel=1e-5)


def test_values_and_outputs_count_a_gate_each(bert: HuggingFaceModel, pairs: TextData) -> None:
    for layer in bert.module.bert.encoder.layer:
        with torch.no_grad():  # uniform attention: queries and keys have no say
            for part in (layer.attention.self.query, layer.attention.self.key):
                part.weight.zero_()
                part.bias.zero_()
    examples = bert.encode(pairs)
    slopes = differentiate(bert, examples).per_example.mean(axis=0)
    score = Taylor().score(bert, examples).frame["score"]
    np.testing.assert_allclose(score, 2 * np.abs(slopes), rtol=1e-8)


@pytest.mark.parametrize("family", ["GPT-2", "GPT-NeoX", "Llama", "Gemma3", "ALBERT"])
def test_scaling_a_heads_weights_moves_the_loss_as_told(family: str) -> None:
    """Fused, shared, and tied weights: which are a head's is tested with `magnitude`."""
    model = FamilyModel(family, dtype=torch.float64)
    examples = model.encode(DATA)
    score = Taylor(batch_size=3).score(model, examples).frame["score"]
    job = Job(model, examples, model.sites, metric_of_model(model, "loss"))
    first = model.sites.items[0]
    weights = []
    for part in head_slices(job, biases=True)[first]:
        mine = slice(None) if part.heads is None else torch.tensor(part.heads[:, 1])
        where = (*[slice(None)] * part.axis, mine)
        weights.append((model.module.get_parameter(part.name), where))
    batch, step, losses = model.collate(examples, np.arange(len(examples))), 1e-5, []
    with torch.no_grad():
        for factor in (1 + step, (1 - step) / (1 + step)):
            for weight, where in weights:
                weight[where] *= factor
            losses.append(model.forward(batch).losses.mean().item())
    assert score[1] == pytest.approx(abs(losses[0] - losses[1]) / (2 * step), rel=1e-4)


def test_gradients_are_asked_of_frozen_weights_too(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    expected = Taylor().score(bert, examples).frame
    bert.module.requires_grad_(False)
    assert Taylor().score(bert, examples).frame.equals(expected)
    assert not any(weight.requires_grad for weight in bert.module.parameters())


def test_batches_have_examples() -> None:
    with pytest.raises(HeadtoolError, match=r"taylor\.batch_size must be at least 1, got 0"):
        Taylor(batch_size=0)
