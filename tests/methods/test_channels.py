"""Scores from the moments of output channels, wanda and flap, against literal loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.methods.ablation import Ablation
from headtool.methods.base import Method
from headtool.methods.flap import Flap
from headtool.methods.wanda import Wanda
from headtool.models.huggingface.model import HuggingFaceModel


def outputs(bert: HuggingFaceModel, pairs: TextData) -> list[list[np.ndarray]]:
    """Per layer and example, what the output projection reads, [T, 16]; nothing is padded."""
    found: list[list[np.ndarray]] = [[], []]
    hooks = [
        layer.attention.output.dense.register_forward_pre_hook(
            lambda _, args, place=place: found[place].append(args[0][0].numpy())
        )
        for place, layer in enumerate(bert.module.bert.encoder.layer)
    ]
    for row in bert.encode(pairs).rows:
        with torch.no_grad():
            bert.module(
                input_ids=torch.tensor([row["input_ids"]]),
                token_type_ids=torch.tensor([row["token_type_ids"]]),
            )
    for hook in hooks:
        hook.remove()
    return found


def weight_of(bert: HuggingFaceModel, layer: int) -> np.ndarray:
    return bert.module.bert.encoder.layer[layer].attention.output.dense.weight.detach().numpy()


def wanda(bert: HuggingFaceModel, pairs: TextData) -> list[float]:
    """Wanda-sp: weight magnitudes times activation norms, by column, added up by head."""
    scores = []
    for layer, examples in enumerate(outputs(bert, pairs)):
        tokens = np.concatenate(examples)
        metric = np.abs(weight_of(bert, layer)) * np.sqrt((tokens**2).mean(axis=0))[None, :]
        scores += metric.sum(axis=0).reshape(4, 4).sum(axis=1).tolist()
    return scores


def flap(bert: HuggingFaceModel, pairs: TextData, power: int = 1) -> list[float]:
    """WIFV with AL-AM's standardisation, token by token (Welford)."""
    scores = []
    for layer, examples in enumerate(outputs(bert, pairs)):
        baseline, fluctuation = np.zeros(16), np.zeros(16)
        for count, token in enumerate(np.concatenate(examples)):
            old = baseline
            baseline = (baseline * count + token) / (count + 1)
            fluctuation = (fluctuation * count + (token - old) * (token - baseline)) / (count + 1)
        metric = (fluctuation * (weight_of(bert, layer) ** 2).sum(axis=0)) ** power
        metric = (metric - metric.mean()) / metric.std(ddof=1)
        scores += metric.reshape(4, 4).mean(axis=1).tolist()
    return scores


def test_wanda_equals_a_literal_loop(bert: HuggingFaceModel, pairs: TextData) -> None:
    found = Wanda().score(bert, bert.encode(pairs)).frame["score"]
    np.testing.assert_allclose(found, wanda(bert, pairs), rtol=1e-10)


@pytest.mark.parametrize("power", [1, 2])
def test_flap_equals_a_literal_loop(power: int, bert: HuggingFaceModel, pairs: TextData) -> None:
    found = Flap(power=power).score(bert, bert.encode(pairs)).frame["score"]
    np.testing.assert_allclose(found, flap(bert, pairs, power), rtol=1e-8)


@pytest.mark.parametrize("method", [Wanda(), Flap()])
def test_standard_error_leaves_examples_out(
    method: Method, bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    left_out = [
        method.score(bert, examples.take(np.delete(np.arange(17), i))).frame["score"]
        for i in range(17)
    ]
    found = method.score(bert, examples).frame["stderr"]
    np.testing.assert_allclose(found, np.sqrt(16 * np.var(left_out, axis=0)), rtol=1e-7)
    assert method.score(bert, examples.head(1)).frame["stderr"].isna().all()


@pytest.mark.slow
def test_groups_of_examples_stand_for_examples(toy) -> None:
    """With 20 groups of 10 the jackknife's error is near that over single examples."""
    rng = np.random.default_rng(2)
    lines = [":".join(f"{x:.4f}" for x in rng.normal(1, 1, 2)) for _ in range(200)]
    data = TextData("t", "classification", {"text_a": tuple(lines), "label": ("0",) * 200})
    model = toy((1.0, -0.7))
    found = Wanda().score(model, model.encode(data)).frame
    values = np.array([[float(x) for x in line.split(":")] for line in lines])
    root = np.sqrt((values**2).mean(axis=0))
    weights = np.array([1.0, 0.7])
    np.testing.assert_allclose(found["score"], root * weights)
    exact = (values**2).std(axis=0) / (2 * root) * weights / np.sqrt(200)
    np.testing.assert_allclose(found["stderr"], exact, rtol=0.35)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_constant_added_to_the_output_changes_no_fluctuation(
    layer: int, bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    rows = slice(4 * layer, 4 * layer + 4)
    before = Flap().score(bert, examples).frame["score"].iloc[rows]
    with torch.no_grad():  # attention adds up to one, so a value's bias is added to the output
        bert.module.bert.encoder.layer[layer].attention.self.value.bias[2] += 5.0
    after = Flap().score(bert, examples).frame["score"].iloc[rows]
    np.testing.assert_allclose(after, before, rtol=1e-9)
    assert not np.allclose(Wanda().score(bert, examples).frame["score"].iloc[rows], before)


def test_a_constant_head_scores_zero_and_its_mean_stands_in_for_it(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    with torch.no_grad():
        bert.module.bert.encoder.layer[1].attention.self.value.weight[8:12] = 0.0
        bert.module.bert.encoder.layer[1].attention.self.value.bias[8:12] = 3.0
    found = Flap(normalize="none").score(bert, examples).frame["score"]
    assert found.iloc[6] == pytest.approx(0, abs=1e-12)
    assert (found.drop(6) > 1e-6).all()
    assert Flap().score(bert, examples).frame["score"].iloc[4:].idxmin() == 6
    change = Ablation(signal="loss", replacement="mean").score(bert, examples).frame["score"]
    assert change.iloc[6] == pytest.approx(0, abs=1e-6)
    assert (change.drop(6).abs() > 1e-4).any()
    assert Wanda().score(bert, examples).frame["score"].iloc[6] > 1  # which does not see that


def test_a_site_of_constant_outputs_has_no_order(bert: HuggingFaceModel, pairs: TextData) -> None:
    with torch.no_grad():
        bert.module.bert.encoder.layer[1].attention.self.value.weight.zero_()
        bert.module.bert.encoder.layer[1].attention.self.value.bias.zero_()
    found = Flap().score(bert, bert.encode(pairs)).frame["score"]
    assert (found.iloc[4:] == 0).all()


def test_other_powers_are_refused() -> None:
    with pytest.raises(HeadtoolError, match=r"flap\.power must be 1 or 2, got 3"):
        Flap(power=3)
