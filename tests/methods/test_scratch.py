"""Training from scratch what gates leave: reproducible, closed heads closed, nothing changed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from headtool.data import TextData
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.methods.base import Job
from headtool.methods.dsp import Dsp
from headtool.methods.gates import Gates
from headtool.methods.scratch import Recipe, Scratch
from headtool.metrics import get_metric
from headtool.models import load_model
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.pruning.smaller import prune

LABELS = [
    "whole model",
    "kept heads, original weights",
    "kept heads from scratch",
    "all heads from scratch",
]


def job_of(model, examples) -> Job:
    return Job(model, examples, model.sites, get_metric("accuracy", task=model.task), seed=4)


def recipe(**changes) -> Recipe:
    given = Recipe(steps=6, batch_size=5, lr=0.01, warmup=0.34, label_smoothing=0.0)
    return dataclasses.replace(given, **changes)


def test_the_table_has_what_is_left_and_the_whole_from_scratch(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    before = {name: weight.clone() for name, weight in bert.module.state_dict().items()}
    asked = [weight.requires_grad for weight in bert.module.parameters()]
    method = Gates(heads=5, steps=20, scratch_steps=5, train="classifier.*", weight_lr=0.05)
    torch.manual_seed(11)
    first = method.score(bert, examples)
    torch.manual_seed(12)  # somebody else's
    second = method.score(bert, examples)
    pd.testing.assert_frame_equal(first.tables["evaluation"], second.tables["evaluation"])
    table = first.tables["evaluation"].set_index("model")
    assert list(table.index) == [*LABELS[:2], "kept heads, adapted weights", *LABELS[2:]]
    kept = first.frame["kept"].sum()
    assert kept == 5
    assert table["heads"].tolist() == [8, kept, kept, kept, 8]
    assert table["loss"].nunique() == 5
    for name, weight in bert.module.state_dict().items():
        assert torch.equal(weight, before[name])
    assert [weight.requires_grad for weight in bert.module.parameters()] == asked
    assert first.provenance["scratch"] == {
        "steps": 5,
        "batch_size": 64,
        "lr": 1e-3,
        "warmup": 0.1,
        "label_smoothing": 0.0,
        "examples": 14,
        "passes": 5 * 64 / 14,
    }
    plain = dataclasses.replace(method, scratch_steps=0).score(bert, examples)
    pd.testing.assert_frame_equal(plain.frame, first.frame)
    assert "scratch" not in plain.provenance


def test_closed_heads_are_never_trained(bert: HuggingFaceModel, pairs: TextData) -> None:
    job = job_of(bert, bert.encode(pairs))
    seen = {}

    def watch(label, fresh, kept):
        seen[label] = {n: w.clone() for n, w in fresh.model.module.state_dict().items()}
        return {"model": label}

    kept = np.array([False, True, True, True, True, True, False, True])
    Scratch(job, job.examples, recipe(), watch).row("some", kept)
    start = bert.fresh(job.seed).module.state_dict()
    moved = {
        name: (seen["some"][name] - weight).abs()
        for name, weight in start.items()
        if weight.is_floating_point()
    }
    for layer, closed in ((0, [0]), (1, [2])):
        place = f"bert.encoder.layer.{layer}.attention"
        out = moved[f"{place}.output.dense.weight"].view(16, 4, 4).amax(dim=(0, 2))
        value = moved[f"{place}.self.value.weight"].view(4, 4, 16).amax(dim=(1, 2))
        for head in range(4):
            assert (out[head] == 0) == (head in closed)
            assert (value[head] == 0) == (head in closed)


def test_it_is_training_of_the_smaller_model(bert: HuggingFaceModel, pairs: TextData) -> None:
    """Closed heads are as good as none: a plain loop on the pruned model finds the same weights."""
    bert.module.config.hidden_dropout_prob = 0.0
    bert.module.config.attention_probs_dropout_prob = 0.0
    examples = bert.encode(pairs)
    job = job_of(bert, examples)
    kept = np.array([False, True, True, True, True, False, False, True])
    steps = recipe(steps=4, batch_size=len(examples), lr=0.02, warmup=0.5)
    losses = []

    def loss(label, fresh, kept):
        row = evaluate(fresh.model, examples, [fresh.mask(kept)]).row(0)
        losses.append(row["loss"])
        return {"model": label}

    Scratch(job, examples, steps, loss).row("some", kept)
    fresh = bert.fresh(job.seed)
    smaller = prune(fresh, job.mask(kept)).model
    module = smaller.module
    optimiser = torch.optim.Adam(module.parameters(), betas=(0.9, 0.98), eps=1e-9)
    # Rises over two of four steps, then falls towards zero.
    for rate in (0.01, 0.02, 0.02 * 2 / 3, 0.02 / 3):
        for group in optimiser.param_groups:
            group["lr"] = rate
        batch = smaller.collate(examples, np.arange(len(examples)))
        optimiser.zero_grad()
        smaller.forward(batch).losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
    wanted = evaluate(smaller, examples, []).whole["loss"]
    np.testing.assert_allclose(losses[0], wanted, rtol=1e-9)


def test_the_same_heads_are_trained_once(bert: HuggingFaceModel, pairs: TextData) -> None:
    job = job_of(bert, bert.encode(pairs))
    trained = []

    def track(items, *, total, label):
        trained.append((label, total))
        yield from items

    calls = []

    def row(label, fresh, kept):
        calls.append(label)
        return {"model": label, "heads": kept.sum()}

    scratch = Scratch(dataclasses.replace(job, progress=track), job.examples, recipe(), row)
    everything = np.ones(8, dtype=np.bool_)
    some = everything.copy()
    some[3] = False
    rows = [scratch.row(label, kept) for label, kept in (("a", everything), ("b", everything))]
    assert rows == [{"model": "a", "heads": 8}, {"model": "b", "heads": 8}]
    assert scratch.row("c", some) == {"model": "c", "heads": 7}
    assert trained == [("train a", 6), ("train c", 6)]
    assert calls == ["a", "c"]


def test_a_sweep_has_it_for_each_lambda(bert: HuggingFaceModel, pairs: TextData) -> None:
    method = Gates(steps=40, batch_size=8, gate_lr=0.2, lambda_=0.05, sweep="1", scratch_steps=3)
    tables = method.score(bert, bert.encode(pairs)).tables
    assert tables["evaluation"]["model"].tolist() == LABELS
    assert tables["sweep"]["model"].tolist() == [LABELS[1], LABELS[2]] * 2
    assert tables["sweep"]["lambda"].tolist() == [0.05, 0.05, 1.0, 1.0]


@pytest.mark.slow
def test_enough_steps_learn_the_task(bert: HuggingFaceModel) -> None:
    """A word decides the label; the model given knows nothing of it."""
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=120)
    texts = tuple(f"w{label} w{rng.integers(5, 20)} w{rng.integers(5, 20)}" for label in labels)
    data = TextData(
        "t", "classification", {"text_a": texts, "label": tuple(map(str, labels.tolist()))}
    )
    table = (
        Dsp(heads=4, steps=5, scratch_steps=100, scratch_lr=0.01)
        .score(bert, bert.encode(data))
        .tables["evaluation"]
        .set_index("model")
    )
    assert table.loc["whole model", "accuracy"] < 0.6
    assert table.loc["all heads from scratch", "accuracy"] > 0.9
    assert table.loc["kept heads from scratch", "accuracy"] > 0.9


def test_half_precision_is_trained_in_single(bert: HuggingFaceModel, pairs: TextData) -> None:
    bert.module.bfloat16()
    job = job_of(bert, bert.encode(pairs))
    found = []
    Scratch(
        job,
        job.examples,
        recipe(),
        lambda label, fresh, kept: found.append(fresh.model.module.dtype) or {},
    ).row("all", np.ones(8, dtype=np.bool_))
    assert found == [torch.float32]
    assert bert.module.dtype == torch.bfloat16


def test_translation_models_count_heads_by_kind(save_fairseq) -> None:
    model = load_model(f"fairseq:{save_fairseq()}")
    data = TextData(
        "t", "translation", {"source": ("a b c", "b a") * 4, "target": ("c d", "a") * 4}
    )
    method = Dsp(heads=9, steps=4, scratch_steps=3)
    table = method.score(model, model.encode(data)).tables["evaluation"].set_index("model")
    assert list(table.index) == LABELS
    kinds = table[["enc-self", "dec-self", "cross"]]
    assert (kinds.sum(axis=1) == table["heads"]).all()
    assert kinds.loc["whole model"].tolist() == [8, 8, 8]
    assert table["heads"].tolist() == [24, 9, 9, 24]


def test_a_model_that_cannot_be_built_anew_is_refused_first(toy, toy_data: TextData) -> None:
    model = toy((3.0, 0.0))

    def never(items, *, total, label):
        raise AssertionError(label)
        yield

    with pytest.raises(HeadtoolError, match="toy is a model of toy, which cannot be built anew"):
        Gates(scratch_steps=2).score(model, model.encode(toy_data), progress=never)


def test_scores_alone_need_none_of_it() -> None:
    method = Gates(sweep="0.1", scratch_steps=2, scratch_lr=0.1, steps=9)
    assert method.scores_only() == Gates(steps=9)


@pytest.mark.parametrize("method", [Gates, Dsp])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scratch_steps": -1}, r"scratch_steps must be at least 0, got -1"),
        ({"scratch_steps": 1, "scratch_batch_size": 0}, "scratch_batch_size must be at least 1"),
        ({"scratch_steps": 1, "scratch_lr": 0.0}, "scratch_lr must be above 0"),
        ({"scratch_steps": 1, "scratch_warmup": 1.0}, r"scratch_warmup must be in \[0, 1\)"),
        ({"scratch_lr": 0.1}, r"scratch_lr has no effect without \w+.scratch_steps"),
        ({"scratch_warmup": 0.1}, "scratch_warmup has no effect without"),
        ({"scratch_batch_size": 8}, "scratch_batch_size has no effect without"),
    ],
)
def test_options_that_make_no_sense(method, options, message: str) -> None:
    with pytest.raises(HeadtoolError, match=rf"{method.name}\.{message}"):
        method(**options)
