"""The evaluation engine against a plain loop over masks, on every family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.gating import Gating
from headtool.engine import running
from headtool.engine.evaluation import evaluate
from headtool.engine.passes import mask_gates
from headtool.engine.replay import Replay
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.heads.masks import DealtMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Forward

from ..support.families import FAMILIES
from ..support.family_model import DATA, FamilyModel, some_masks


def plain(model: ModelAdapter, examples: Examples, masks: list[HeadMask]) -> NDArray[np.float64]:
    losses = np.zeros((len(masks), len(examples)))
    with torch.no_grad():
        for index in examples.batches():
            batch = model.collate(examples, index)
            for row, mask in enumerate(masks):
                with model.intercept(Gating(mask_gates(mask, model)), batch):
                    losses[row, index] = model.forward(batch).losses.numpy()
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("batch_tokens", [15, 40, 200], ids=["cut", "whole", "shared"])
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_a_plain_loop(name: str, batch_tokens: int) -> None:
    model = FamilyModel(name, dtype=torch.float64)
    examples = model.encode(DATA, batch_tokens=batch_tokens)
    masks = some_masks(model)
    outcomes = evaluate(model, examples, masks)
    expected = plain(model, examples, masks)
    np.testing.assert_allclose(outcomes.masked["loss"], expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        outcomes.whole["loss"], plain(model, examples, [HeadMask.full(model.sites)])[0], atol=1e-10
    )
    assert np.ptp(expected, axis=0).min() > 1e-4, "the masks must matter for this to show anything"
    untouched = outcomes.masked["loss"][len(model.sites.heads)]
    np.testing.assert_array_equal(untouched, outcomes.whole["loss"])


@pytest.mark.parametrize("name", ["BERT", "Llama", "BART"])
def test_masks_share_a_pass_where_a_batch_leaves_the_cpu_idle(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the shape of a pass of the whole model, so that a head without effect has none at all."""
    model = FamilyModel(name)
    for handle in model.handles[::2]:
        with torch.no_grad():
            handle.module.weight[:, : handle.site.head_dim] = 0
    examples = model.encode(DATA, batch_tokens=200)
    idle = [HeadMask.without(model.sites, [site.heads[0]]) for site in list(model.sites)[::2]]
    masks = [*some_masks(model), *idle]
    rows: list[int] = []
    forward = FamilyModel.forward

    def counted(self: FamilyModel, batch: Batch, **options: float) -> Forward:
        rows.append(len(batch))
        return forward(self, batch, **options)

    monkeypatch.setattr(FamilyModel, "forward", counted)
    monkeypatch.setattr(running, "_OVERHEAD", 0)
    alone = evaluate(model, examples, masks)
    assert max(rows) == len(examples)
    monkeypatch.setattr(running, "_OVERHEAD", 10_000)
    together = evaluate(model, examples, masks)
    assert len(examples) < max(rows) <= 200 // 5
    np.testing.assert_allclose(alone.masked["loss"], together.masked["loss"], rtol=0, atol=1e-5)
    for outcomes in (alone, together):
        for row in (len(model.sites.heads), *range(-len(idle), 0)):
            np.testing.assert_array_equal(outcomes.masked["loss"][row], outcomes.whole["loss"])


def test_masks_of_a_decoder_read_the_encoder_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FamilyModel("BART", dtype=torch.float64)
    decoder = [site for site in model.sites if site.kind != "enc-self"]
    masks = [HeadMask.without(model.sites, [site.heads[0]]) for site in decoder]
    calls: list[int] = []
    for layer in model.module.model.decoder.layers:
        forward = layer.encoder_attn.k_proj.forward

        def counted(hidden: Tensor, run: Any = forward) -> Tensor:
            calls.append(len(hidden))
            return run(hidden)

        monkeypatch.setattr(layer.encoder_attn.k_proj, "forward", counted)
    examples = model.encode(DATA, batch_tokens=40)
    outcomes = evaluate(model, examples, masks)
    passes = 2 + 1 + 1  # looked for, tried from the encoder on, recorded
    assert len(calls) == passes * len(model.module.model.decoder.layers)
    np.testing.assert_allclose(
        outcomes.masked["loss"], plain(model, examples, masks), rtol=0, atol=1e-10
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_chain_of_masks_equals_a_plain_loop(name: str) -> None:
    model = FamilyModel(name, dtype=torch.float64)
    examples = model.encode(DATA, batch_tokens=40)
    heads = model.sites.heads
    order = np.random.default_rng(0).permutation(len(heads))
    closed = [[heads[i] for i in order[:n]] for n in range(len(heads) + 1)]
    closed += [closed[3], closed[3], [heads[-1]], [heads[0]], []]
    masks = [HeadMask.without(model.sites, chosen) for chosen in closed]
    outcomes = evaluate(model, examples, masks, chained=True)
    expected = plain(model, examples, masks)
    np.testing.assert_allclose(outcomes.masked["loss"], expected, rtol=0, atol=1e-10)
    assert np.ptp(expected, axis=0).min() > 1e-4, "the masks must matter for this to show anything"
    np.testing.assert_array_equal(outcomes.masked["loss"][0], outcomes.whole["loss"])


def test_a_chain_restarts_where_masks_differ() -> None:
    model = FamilyModel("BERT")
    counters = [Counter([layer.intermediate]) for layer in model.module.bert.encoder.layer]
    first, second = model.sites[0].heads, model.sites[1].heads
    closed = [first[:1], (*first[:1], *second[:1]), (*first[:1], *second[:2]), first[:2]]
    masks = [HeadMask.without(model.sites, chosen) for chosen in closed]
    evaluate(model, model.encode(DATA, batch_tokens=40), masks, chained=True)
    assert counters[0].rows == 2 + 2  # two recordings; the first mask and the last
    assert counters[1].rows == 4 + len(masks)


@pytest.mark.parametrize("name", ["BERT", "Llama", "T5"])
def test_single_precision_agrees_to_rounding(name: str) -> None:
    model = FamilyModel(name)
    examples = model.encode(DATA, batch_tokens=200)
    masks = some_masks(model)
    outcomes = evaluate(model, examples, masks)
    expected = plain(model, examples, masks)
    np.testing.assert_allclose(outcomes.masked["loss"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch_tokens", [40, 200], ids=["whole", "shared"])
@pytest.mark.parametrize("name", ["BERT", "Llama"])
def test_a_head_without_effect_has_none_at_all(name: str, batch_tokens: int) -> None:
    model = FamilyModel(name)
    for handle in model.handles:
        width = handle.site.head_dim
        with torch.no_grad():
            handle.module.weight[:, :width] = 0
    masks = [HeadMask.without(model.sites, [site.heads[0]]) for site in model.sites]
    outcomes = evaluate(model, model.encode(DATA, batch_tokens=batch_tokens), masks)
    for row in outcomes.masked["loss"]:
        np.testing.assert_array_equal(row, outcomes.whole["loss"])


class Counter:
    """Counts the rows that pass through modules."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self.rows = 0
        for module in modules:
            module.register_forward_hook(self)

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        self.rows += 1


@pytest.mark.parametrize(
    ("name", "chained"),
    [("BERT", False), ("BERT", True), ("BERT", None), ("Llama", False), ("BART", None)],
)
def test_dealt_masks_are_those_of_each_example(name: str, chained: bool | None) -> None:
    model = FamilyModel(name, dtype=torch.float64)
    examples = model.encode(DATA, batch_tokens=40)
    shares = np.array([0.2, 0.5, 0.9])[:, None, None]
    drawn = np.random.default_rng(3).random((3, len(examples), model.sites.n_heads)) > shares
    one = HeadMask.without(model.sites, model.sites.heads[:1])
    masks = [DealtMask(model.sites, drawn[0]), one, *(DealtMask(model.sites, d) for d in drawn[1:])]
    found = evaluate(model, examples, masks, chained=chained).masked["loss"]
    literal = np.array(
        [
            np.diag(plain(model, examples, [HeadMask(model.sites, row) for row in rows]))
            for rows in drawn
        ]
    )
    np.testing.assert_allclose(found[[0, 2, 3]], literal, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found[1], plain(model, examples, [one])[0], rtol=0, atol=1e-10)


def test_layers_below_the_mask_run_once_a_batch() -> None:
    model = FamilyModel("BERT")
    feed_forwards = [layer.intermediate for layer in model.module.bert.encoder.layer]
    counters = [Counter([module]) for module in feed_forwards]
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    evaluate(model, model.encode(DATA, batch_tokens=40), masks)
    extra = 4  # two recordings, a try of the shortcuts, and the whole model through them
    per_site = len(model.sites[0].heads)
    assert counters[0].rows <= extra + per_site
    assert counters[-1].rows == extra + len(masks)


def test_a_model_that_cannot_take_a_shortcut_is_computed_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = FamilyModel("BERT", dtype=torch.float64)
    masks = some_masks(model)
    examples = model.encode(DATA, batch_tokens=40)
    expected = plain(model, examples, masks)

    def wrong(self: Replay, *args: Any, **kwargs: Any) -> Any:
        return args[0](*args[4], **args[5])[0] * 0

    monkeypatch.setattr(Replay, "_narrow", wrong)
    outcomes = evaluate(model, examples, masks)
    np.testing.assert_allclose(outcomes.masked["loss"], expected, rtol=0, atol=1e-10)


def test_shortcuts_are_tried_again_once_the_model_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = FamilyModel("BERT")
    examples = model.encode(DATA, batch_tokens=40)
    tries: list[Replay] = []
    record = Replay.record

    def counted(self: Replay) -> Any:
        if self not in tries:
            tries.append(self)
        return record(self)

    monkeypatch.setattr(Replay, "record", counted)
    for _ in range(2):
        evaluate(model, examples, some_masks(model))
    assert len(tries) == 1
    with torch.no_grad():
        model.module.classifier.weight.mul_(2)
    evaluate(model, examples, some_masks(model))
    assert len(tries) == 2
    hook = model.module.bert.register_forward_pre_hook(lambda module, args: None)
    evaluate(model, examples, some_masks(model))
    hook.remove()
    assert len(tries) == 3


def test_nothing_stays_patched_also_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FamilyModel("BERT")
    masks = some_masks(model)
    calls: list[Mapping[str, Tensor]] = []
    original = model.module.classifier.forward

    def fail_later(hidden: Tensor) -> Tensor:
        calls.append({})
        if len(calls) > 8:
            raise RuntimeError("the classifier broke")
        return original(hidden)

    monkeypatch.setattr(model.module.classifier, "forward", fail_later)
    with pytest.raises(RuntimeError, match="broke"):
        evaluate(model, model.encode(DATA, batch_tokens=40), masks)
    monkeypatch.undo()
    for module in model.module.modules():
        assert "forward" not in module.__dict__
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_a_loss_that_is_not_finite_is_named() -> None:
    model = FamilyModel("BERT")
    with torch.no_grad():
        model.module.classifier.bias.fill_(torch.nan)
    with pytest.raises(HeadtoolError, match=r"not finite .* examples 1, 2, 3, 4, 5, \.\.\."):
        evaluate(model, model.encode(DATA), [])
