"""What every method must keep, whatever it computes."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from torch import nn

from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.methods import BUILTIN, get_method
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.schema import TABLES

from ..support.variants import VARIANTS, build

TRAINED = ("dsp", "gates")
"""Methods that draw random batches and noise: the order of examples and heads matters to them."""

RANDOMLY_ORDERED = ("random", "shapley")
"""Methods that draw something for the first head, something for the second, and so on."""

WITHOUT_FORWARD = ("random",)
"""Methods that never run the model."""

WITHOUT_LOSS = ("activation", "confidence", "flap", "magnitude", "wanda", *WITHOUT_FORWARD)


def test_every_method_is_among_the_variants() -> None:
    assert {name for name, _ in VARIANTS} == set(BUILTIN)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_result_is_complete_and_inputs_are_left_alone(
    name: str, options: dict[str, str], bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    before = {key: value.clone() for key, value in bert.module.state_dict().items()}
    asked = [weight.requires_grad for weight in bert.module.parameters()]
    global_state = torch.random.get_rng_state()

    result = build(name, options).score(bert, examples, seed=3)

    assert tuple(result.frame.columns[: len(TABLES["scores"].names)]) == TABLES["scores"].names
    heads = zip(result.frame["kind"], result.frame["layer"], result.frame["head"], strict=True)
    assert list(heads) == [(h.kind, h.layer, h.index) for h in bert.sites.heads]
    assert np.isfinite(result.frame["score"]).all()
    assert sorted(result.frame["rank"]) == list(range(1, 9))
    by_rank = result.frame.sort_values("rank")["score"].to_numpy()
    assert (np.diff(by_rank) <= 0).all()
    assert (result.frame["stderr"].dropna() >= 0).all()
    document = json.loads(result.to_json())
    assert document["schema"] == "headtool/scores/1"
    assert document["provenance"][name]["options"].keys() >= options.keys()
    assert len(document["scores"]) == 8

    for key, value in bert.module.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert [weight.requires_grad for weight in bert.module.parameters()] == asked
    assert all(weight.grad is None for weight in bert.module.parameters())
    assert not bert.module.training
    assert torch.equal(torch.random.get_rng_state(), global_state)
    assert not hooks(bert.module)


def hooks(module: nn.Module) -> list[nn.Module]:
    return [m for m in module.modules() if m._forward_pre_hooks or m._forward_hooks]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [v for v in VARIANTS if v[0] not in TRAINED])
def test_batch_size_order_and_padding_change_nothing(
    name: str, options: dict[str, str], bert: HuggingFaceModel, pairs: TextData
) -> None:
    method = build(name, options)
    reference = method.score(bert, bert.encode(pairs)).frame
    small = method.score(bert, bert.encode(pairs, batch_tokens=1)).frame
    np.testing.assert_allclose(small["score"], reference["score"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(small["stderr"], reference["stderr"], rtol=1e-7, atol=1e-12)
    if options.get("granularity") in ("batch", "cumulative"):
        return  # their batches are consecutive examples, so order is part of the definition
    if {"resample", "optimal"} & set(options.values()):
        return  # donors, and examples to train on, are drawn by position in the data set
    order = np.random.default_rng(0).permutation(len(pairs))
    moved = method.score(bert, bert.encode(pairs.take(order), batch_tokens=40)).frame
    np.testing.assert_allclose(moved["score"], reference["score"], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"), [v for v in VARIANTS if v[0] not in (*TRAINED, *RANDOMLY_ORDERED)]
)
def test_permuting_a_layers_heads_permutes_its_scores(
    name: str, options: dict[str, str], bert: HuggingFaceModel, pairs: TextData
) -> None:
    method = build(name, options)
    examples = bert.encode(pairs)
    before = method.score(bert, examples).frame["score"].to_numpy()
    order = [2, 0, 3, 1]
    permute_heads(bert.module, layer=1, order=order)
    after = method.score(bert, examples).frame["score"].to_numpy()
    np.testing.assert_allclose(after[:4], before[:4], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(after[4:], before[4:][order], rtol=1e-8, atol=1e-12)


def permute_heads(module: nn.Module, *, layer: int, order: list[int]) -> None:
    attention = module.bert.encoder.layer[layer].attention
    rows = torch.cat([torch.arange(4) + 4 * head for head in order])
    with torch.no_grad():
        for part in (attention.self.query, attention.self.key, attention.self.value):
            part.weight.copy_(part.weight[rows].clone())
            part.bias.copy_(part.bias[rows].clone())
        dense = attention.output.dense
        dense.weight.copy_(dense.weight[:, rows].clone())


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_nothing_stays_attached_after_a_failure(
    name: str, bert: HuggingFaceModel, pairs: TextData, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = bert.encode(pairs)
    weights = {key: value.clone() for key, value in bert.module.state_dict().items()}
    asked = [weight.requires_grad for weight in bert.module.parameters()]

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the classifier broke")

    monkeypatch.setattr(bert.module.classifier, "forward", fail)
    if name in WITHOUT_FORWARD:
        pytest.skip(f"{name} does not run the model")
    options = {"train": "all"} if name in TRAINED else {}
    with pytest.raises(RuntimeError, match="broke"):
        build(name, options).score(bert, examples)
    assert not hooks(bert.module)
    assert [weight.requires_grad for weight in bert.module.parameters()] == asked
    assert not bert.module.training
    for key, value in bert.module.state_dict().items():
        assert torch.equal(value, weights[key])


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_a_loss_that_is_not_finite_names_the_examples(
    name: str, bert: HuggingFaceModel, pairs: TextData
) -> None:
    if name in WITHOUT_LOSS:
        pytest.skip(f"{name} does not look at the loss")
    examples = bert.encode(pairs)
    with torch.no_grad():
        bert.module.classifier.bias.fill_(torch.nan)
    with pytest.raises(HeadtoolError, match=r"not finite on pairs.tsv .*examples [12], "):
        build(name, {}).score(bert, examples)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_same_seed_same_scores(name: str, bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    first, second = (build(name, {}).score(bert, examples, seed=7).frame for _ in range(2))
    assert first.equals(second)


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_every_option_is_documented_and_has_an_effect_on_its_class(name: str) -> None:
    method = get_method(name)
    assert method.summary
    assert method.reference
    names = [declared.name for declared in method.options()]
    assert sorted(names) == sorted(field.name.rstrip("_") for field in dataclasses.fields(method))
    assert list(method().settings()) == names
    assert all(declared.help for declared in method.options())
    assert get_method(name)() == method.configured({})


def test_options_of_a_method_come_before_those_that_it_shares() -> None:
    assert [declared.name for declared in get_method("dsp").options()][:4] == [
        *("heads", "variant", "temperature", "train"),
    ]


def test_options_without_an_effect_are_told_and_refused(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    def idle(name: str, **options: str) -> list[str]:
        result = build(name, options).score(bert, bert.encode(pairs))
        return result.provenance["idle_options"]

    assert idle("ablation") == ["beam", "length_penalty", "optimal_steps", "tokenize"]
    assert idle("gradient") == ["batch_size"]
    assert idle("gradient", granularity="batch") == []
    assert idle("gates", heads="3") == ["lambda", "penalty", "weight_lr"]
    assert idle("dsp", variant="straight-through", train="all") == ["temperature"]
    with pytest.raises(HeadtoolError, match="length_penalty has no effect on a beam of 1"):
        build("ablation", {"beam": "1", "length_penalty": "0.5"})


def test_bad_options_are_one_clear_line() -> None:
    with pytest.raises(HeadtoolError, match="did you mean 'granularity'"):
        get_method("gradient").configured({"granularty": "token"})
    with pytest.raises(HeadtoolError, match="must be one of token, example"):
        get_method("gradient").configured({"granularity": "word"})
    with pytest.raises(HeadtoolError, match=r"gates.steps must be a whole number, got 'many'"):
        get_method("gates").configured({"steps": "many"})
    with pytest.raises(HeadtoolError, match="did you mean 'gradient'"):
        get_method("gradent")


def test_kinds_restrict_the_rows(bert: HuggingFaceModel, pairs: TextData) -> None:
    with pytest.raises(HeadtoolError, match="no cross attention"):
        build("gradient", {}).score(bert, bert.encode(pairs), kinds=["cross"])
