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

from ..support.variants import OF_LANGUAGE_MODELS, VARIANTS, build

ALL = [*VARIANTS, *OF_LANGUAGE_MODELS]

TRAINED = ("dsp", "gates")
"""Methods that draw random batches and noise: the order of examples and heads matters to them."""

RANDOMLY_ORDERED = ("random", "shapley")
"""Methods that draw something for the first head, something for the second, and so on."""

WITHOUT_FORWARD = ("random",)
"""Methods that never run the model."""

WITHOUT_LOSS = (
    *("activation", "confidence", "flap", "magnitude", "retrieval", "wanda"),
    *WITHOUT_FORWARD,
)

BY_PLACE = ("resample", "optimal")
"""Values of options that draw donors, and examples to train on, by position in the data set."""


def test_every_method_is_among_the_variants() -> None:
    assert {name for name, _ in ALL} == set(BUILTIN)
    assert {name for name, _ in OF_LANGUAGE_MODELS} == {n for n in BUILTIN if get_method(n).tasks}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), ALL)
def test_result_is_complete_and_inputs_are_left_alone(
    name: str, options: dict[str, str], subject: HuggingFaceModel, texts: TextData
) -> None:
    examples = subject.encode(texts)
    before = {key: value.clone() for key, value in subject.module.state_dict().items()}
    asked = [weight.requires_grad for weight in subject.module.parameters()]
    global_state = torch.random.get_rng_state()

    result = build(name, options).score(subject, examples, seed=3)

    assert tuple(result.frame.columns[: len(TABLES["scores"].names)]) == TABLES["scores"].names
    heads = zip(result.frame["kind"], result.frame["layer"], result.frame["head"], strict=True)
    assert list(heads) == [(h.kind, h.layer, h.index) for h in subject.sites.heads]
    assert np.isfinite(result.frame["score"]).all()
    assert sorted(result.frame["rank"]) == list(range(1, 1 + subject.sites.n_heads))
    by_rank = result.frame.sort_values("rank")["score"].to_numpy()
    assert (np.diff(by_rank) <= 0).all()
    assert (result.frame["stderr"].dropna() >= 0).all()
    document = json.loads(result.to_json())
    assert document["schema"] == "headtool/scores/1"
    assert document["provenance"][name]["options"].keys() >= options.keys()
    assert len(document["scores"]) == subject.sites.n_heads

    for key, value in subject.module.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert [weight.requires_grad for weight in subject.module.parameters()] == asked
    assert all(weight.grad is None for weight in subject.module.parameters())
    assert not subject.module.training
    assert torch.equal(torch.random.get_rng_state(), global_state)
    assert not hooks(subject.module)


def hooks(module: nn.Module) -> list[nn.Module]:
    return [m for m in module.modules() if m._forward_pre_hooks or m._forward_hooks]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [v for v in ALL if v[0] not in TRAINED])
def test_batch_size_order_and_padding_change_nothing(
    name: str, options: dict[str, str], subject: HuggingFaceModel, texts: TextData
) -> None:
    method = build(name, options)
    reference = method.score(subject, subject.encode(texts)).frame
    small = method.score(subject, subject.encode(texts, batch_tokens=1)).frame
    np.testing.assert_allclose(small["score"], reference["score"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(small["stderr"], reference["stderr"], rtol=1e-7, atol=1e-12)
    if options.get("granularity") in ("batch", "cumulative"):
        return  # their batches are consecutive examples, so order is part of the definition
    if name == "retrieval" or set(BY_PLACE) & set(options.values()):
        return  # so are needles
    order = np.random.default_rng(0).permutation(len(texts))
    moved = method.score(subject, subject.encode(texts.take(order), batch_tokens=40)).frame
    np.testing.assert_allclose(moved["score"], reference["score"], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"), [v for v in ALL if v[0] not in (*TRAINED, *RANDOMLY_ORDERED)]
)
def test_permuting_a_layers_heads_permutes_its_scores(
    name: str, options: dict[str, str], subject: HuggingFaceModel, texts: TextData
) -> None:
    method = build(name, options)
    examples = subject.encode(texts)
    before = method.score(subject, examples).frame["score"].to_numpy()
    order, heads = np.array([2, 0, 3, 1]), np.arange(4)
    permute_heads(subject, layer=1, order=order)
    after = method.score(subject, examples).frame["score"].to_numpy()
    np.testing.assert_allclose(after[heads], before[heads], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(after[4 + heads], before[4 + order], rtol=1e-8, atol=1e-12)


def permute_heads(subject: HuggingFaceModel, *, layer: int, order: np.ndarray) -> None:
    width = subject.sites[layer].head_dim
    rows = torch.cat([torch.arange(width) + width * head for head in order.tolist()])
    with torch.no_grad():
        if subject.task == "causal-lm":  # GPT-2's weights are [in, out], three side by side
            attention = subject.module.transformer.h[layer].attn
            columns = torch.cat([rows + len(rows) * part for part in range(3)])
            attention.c_attn.weight.copy_(attention.c_attn.weight[:, columns].clone())
            attention.c_attn.bias.copy_(attention.c_attn.bias[columns].clone())
            attention.c_proj.weight.copy_(attention.c_proj.weight[rows].clone())
            return
        attention = subject.module.bert.encoder.layer[layer].attention
        for part in (attention.self.query, attention.self.key, attention.self.value):
            part.weight.copy_(part.weight[rows].clone())
            part.bias.copy_(part.bias[rows].clone())
        dense = attention.output.dense
        dense.weight.copy_(dense.weight[:, rows].clone())


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_nothing_stays_attached_after_a_failure(
    name: str, subject: HuggingFaceModel, texts: TextData, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = subject.encode(texts)
    weights = {key: value.clone() for key, value in subject.module.state_dict().items()}
    asked = [weight.requires_grad for weight in subject.module.parameters()]

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the classifier broke")

    last = "lm_head" if subject.task == "causal-lm" else "classifier"
    monkeypatch.setattr(getattr(subject.module, last), "forward", fail)
    if name in WITHOUT_FORWARD:
        pytest.skip(f"{name} does not run the model")
    options = {"train": "all"} if name in TRAINED else {}
    with pytest.raises(RuntimeError, match="broke"):
        build(name, options).score(subject, examples)
    assert not hooks(subject.module)
    assert [weight.requires_grad for weight in subject.module.parameters()] == asked
    assert not subject.module.training
    for key, value in subject.module.state_dict().items():
        assert torch.equal(value, weights[key])


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_a_loss_that_is_not_finite_names_the_examples(
    name: str, subject: HuggingFaceModel, texts: TextData
) -> None:
    if name in WITHOUT_LOSS:
        pytest.skip(f"{name} does not look at the loss")
    examples = subject.encode(texts)
    with torch.no_grad():
        subject.module.classifier.bias.fill_(torch.nan)
    with pytest.raises(HeadtoolError, match=r"not finite on pairs.tsv .*examples 1?[0-9], 1?[0-9]"):
        build(name, {}).score(subject, examples)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_same_seed_same_scores(name: str, subject: HuggingFaceModel, texts: TextData) -> None:
    examples = subject.encode(texts)
    first, second = (build(name, {}).score(subject, examples, seed=7).frame for _ in range(2))
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

    assert idle("ablation") == [
        *("beam", "length_penalty", "max_length", "optimal_steps"),
        *("screen_by", "screen_cut", "tokenize"),
    ]
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


@pytest.mark.parametrize("name", [name for name in sorted(BUILTIN) if get_method(name).tasks])
def test_a_method_says_which_models_it_is_for(
    name: str, bert: HuggingFaceModel, pairs: TextData
) -> None:
    with pytest.raises(HeadtoolError, match=f"{name} is for .* models, and tiny-bert is a class"):
        build(name, {}).score(bert, bert.encode(pairs))
