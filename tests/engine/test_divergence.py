"""The divergence of masked models from the whole one, against a literal sum."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool import ablate, load_data, load_model
from headtool.attention.gating import Gating
from headtool.data import TextData
from headtool.engine import divergence
from headtool.engine.divergence import compared
from headtool.engine.evaluation import evaluate
from headtool.engine.passes import mask_gates
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.metrics import get_metric

from ..support.language_model import WORDS, language_model

TEXT = TextData("t.txt", "text", {"text": (" ".join(WORDS[i % 20] for i in range(50)), "w1 w2 w3")})


def literal(model, examples, mask, row):
    """KL in float64, token by token, of one example alone."""
    batch = model.collate(examples, np.array([row]))
    with torch.no_grad():
        whole = model.module(**batch.inputs).logits.double()
        with model.intercept(Gating(mask_gates(mask, model)), batch):
            other = model.module(**batch.inputs).logits.double()
    scored = batch.targets != -100 if whole.ndim == 3 else torch.ones(1, dtype=torch.bool)
    total = 0.0
    for p, q in zip(whole[scored].softmax(-1), other[scored].softmax(-1), strict=True):
        total += float((p * (p.log() - q.log())).sum())
    return total


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("numbers", [1, 2**24])
def test_equals_a_literal_sum(chained: bool, numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence, "_NUMBERS", numbers)
    model = language_model()
    examples = model.encode(TEXT, batch_tokens=80)
    masks = [HeadMask.without(model.sites, heads) for heads in ((), model.sites.heads)]
    masks += [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    found = evaluate(model, examples, masks, divergence=True, chained=chained)
    np.testing.assert_array_equal(found.whole["kl"], 0)
    np.testing.assert_array_equal(found.masked["kl"][0], 0)
    for mask in (1, 2, 9):
        for row in range(len(examples)):
            expected = literal(model, examples, masks[mask], row)
            assert found.masked["kl"][mask, row] == pytest.approx(expected, rel=1e-6)
            assert expected > 1e-3
    assert "kl" not in evaluate(model, examples, masks).whole


def test_a_classifier_s_divergence_is_per_example() -> None:
    model = load_model("builtin:nli", device="cpu")
    data = load_data("builtin:nli/matched", limit=8)
    ablation = ablate(model, data, metric="kl")
    assert ablation.whole["kl"] == 0.0
    rows = ablation.frame[ablation.frame["metric"] == "kl"]
    assert rows["delta"].min() >= 0.0
    head = model.sites.heads[7]
    mask, examples = HeadMask.without(model.sites, [head]), model.encode(data)
    expected = np.mean([literal(model, examples, mask, row) for row in range(8)])
    assert rows["delta"].iloc[7] == pytest.approx(expected, rel=1e-3)


def test_a_regression_has_none() -> None:
    with pytest.raises(HeadtoolError, match="'kl' is not defined for regression"):
        get_metric("kl", task="regression")


def test_two_models_are_compared_like_masks() -> None:
    model = language_model()
    examples = model.encode(TEXT, batch_tokens=80)
    other = language_model()
    handle = other.handles[0]
    width = handle.site.head_dim
    with torch.no_grad():
        handle.module.weight[:, :width] = 0
    mask = HeadMask.without(model.sites, [model.sites.heads[0]])
    expected = evaluate(model, examples, [mask], divergence=True).row(0)
    found = compared(model, other, examples)
    for name in ("kl", "loss", "tokens"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-9)
    np.testing.assert_array_equal(compared(model, model, examples)["kl"], 0)
