"""Optimal constants for closed heads against a search over constants."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from headtool.data import TextData
from headtool.engine.replacement import Mean, Optimal
from headtool.errors import HeadtoolError
from headtool.methods.ablation import Ablation
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.progress import silent


def test_no_constant_does_better(toy, toy_data: TextData) -> None:
    weights = np.array([1.5, -0.5])
    model = toy(tuple(weights))
    examples = model.encode(toy_data)
    parts = np.array([np.mean(row["features"], axis=0) * weights for row in examples.rows])
    sign = np.array([2 * row["target"] - 1 for row in examples.rows])

    def loss(constant: float, head: int) -> float:
        logits = parts[:, 1 - head] + weights[head] * constant
        return float(np.log1p(np.exp(-sign * logits)).mean())

    whole = np.log1p(np.exp(-sign * parts.sum(axis=1))).mean()
    method = Ablation(signal="loss", replacement="optimal", optimal_steps=300)
    found = method.score(model, examples).frame["score"]
    for head in range(2):
        least = minimize_scalar(loss, args=(head,), bounds=(-20, 20), method="bounded")
        assert found[head] == pytest.approx(least.fun - whole, abs=1e-5)


def test_every_head_has_its_own(bert: HuggingFaceModel, pairs: TextData) -> None:
    """Whatever heads share a forward pass, each is trained as if it were the only one."""
    batch = bert.collate(bert.encode(pairs), np.arange(3))
    found = [
        Optimal(steps=3).fit(bert, bert.encode(pairs, batch_tokens=tokens), silent)(batch)
        for tokens in (1, 700, 100_000)
    ]
    for site in bert.sites:
        torch.testing.assert_close(found[0][site], found[1][site], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found[0][site], found[2][site], rtol=1e-9, atol=1e-12)
        start = Mean().fit(bert, bert.encode(pairs), silent)(batch)[site]
        assert (found[0][site] != start).all()


def test_less_is_lost_than_with_the_mean(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs.head(16))
    trained, mean = (
        Ablation(signal="loss", replacement=name).score(bert, examples).frame["score"]
        for name in ("optimal", "mean")
    )
    assert (trained < mean).all()


def test_training_has_steps() -> None:
    with pytest.raises(HeadtoolError, match=r"ablation\.optimal_steps must be at least 1, got 0"):
        Ablation(replacement="optimal", optimal_steps=0)
    with pytest.raises(HeadtoolError, match="optimal_steps has no effect on replacement mean"):
        Ablation(replacement="mean", optimal_steps=10)
