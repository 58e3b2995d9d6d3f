"""Attribution patching against literal loops, finite differences, ablation and relevance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headtool.data import TextData
from headtool.engine.donors import draw_donors
from headtool.methods.ablation import Ablation
from headtool.methods.attribution import Attribution
from headtool.methods.gradient import Gradient
from headtool.methods.relevance import propagate
from headtool.models.examples import Batch, Forward
from headtool.models.huggingface.model import HuggingFaceModel

from .conftest import ToyModel


def outputs_of(bert: HuggingFaceModel, batch: Batch) -> dict[Any, Tensor]:
    found: dict[Any, Tensor] = {}

    def keep(site, contexts):
        found[site] = contexts.clone()

    with torch.no_grad(), bert.intercept(keep, batch):
        bert.forward(batch)
    return found


def replaced(bert: HuggingFaceModel, examples, baseline: str) -> list[dict[Any, Tensor]]:
    """Per example and site, what stands in for the heads' outputs, one example at a time."""
    alone = [bert.collate(examples, np.array([i])) for i in range(len(examples))]
    own = [outputs_of(bert, batch) for batch in alone]
    if baseline == "zero":
        return [{site: torch.zeros_like(value) for site, value in found.items()} for found in own]
    if baseline == "mean":
        means = {
            site: torch.cat([found[site][0] for found in own]).mean(dim=0) for site in bert.sites
        }
        return [
            {site: means[site].float().double().expand_as(found[site]) for site in found}
            for found in own
        ]
    if baseline == "counterfactual":
        others = examples.corrupted
        return [outputs_of(bert, bert.collate(others, np.array([i]))) for i in range(len(examples))]
    donors = draw_donors(examples.lengths, np.random.default_rng(3))
    found = []
    for i, donor in enumerate(donors):
        width = own[i][bert.sites.items[0]].shape[1]
        places = np.minimum(np.arange(width), examples.lengths[donor] - 1)
        found.append({site: own[donor][site][:, places] for site in bert.sites})
    return found


def with_corrupted(data: TextData) -> TextData:
    """The same data with other words, or other numbers, in place of each text's own."""
    rng = np.random.default_rng(8)
    columns = dict(data.columns)
    for name, text in (("corrupted", "text_a"), ("corrupted_b", "text_b")):
        if text in columns:
            tokens = [value.split() for value in columns[text]]
            pool = [token for value in tokens for token in value]
            columns[name] = tuple(" ".join(rng.choice(pool, len(value))) for value in tokens)
    return TextData(data.spec, data.kind, columns)


@pytest.mark.parametrize("baseline", ["zero", "mean", "resample", "counterfactual"])
def test_equals_the_slope_towards_the_replacement(
    baseline: str, bert: HuggingFaceModel, pairs: TextData
) -> None:
    """Central differences of the loss along ctx -> z, head by head and example by example."""
    examples = bert.encode(with_corrupted(pairs.head(6)))
    instead, step = replaced(bert, examples, baseline), 1e-5
    slopes = np.zeros((6, 8))
    for i in range(6):
        batch = bert.collate(examples, np.array([i]))
        for column, head in enumerate(bert.sites.heads):
            site = next(site for site in bert.sites if site.layer == head.layer)
            losses = []
            for share in (step, -step):

                def move(this, contexts, i=i, site=site, head=head, share=share):
                    if this != site:
                        return None
                    moved = contexts.clone()
                    own = contexts[:, :, head.index]
                    moved[:, :, head.index] = own + share * (
                        instead[i][site][:, :, head.index] - own
                    )
                    return moved

                with torch.no_grad(), bert.intercept(move, batch):
                    losses.append(bert.forward(batch).losses.item())
            slopes[i, column] = (losses[0] - losses[1]) / (2 * step)
    found = Attribution(baseline=baseline, sign="signed").score(bert, examples, seed=3).frame
    np.testing.assert_allclose(found["score"], slopes.mean(axis=0), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(
        found["stderr"], slopes.std(axis=0, ddof=1) / np.sqrt(6), rtol=1e-5, atol=1e-8
    )
    sizes = Attribution(baseline=baseline, sign="absolute").score(bert, examples, seed=3).frame
    np.testing.assert_allclose(sizes["score"], found["score"].abs())


class Linear(ToyModel):
    """The two-head model with a loss that is linear in its logits: 1 less the label's."""

    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        logits = self.module(**batch.inputs)
        losses = 1 - logits[:, 1] * (2 * batch.targets - 1)
        columns = {"loss": losses.detach(), "tokens": torch.ones_like(losses)}
        prediction = {"prediction": logits.argmax(dim=1), "gold": batch.targets}
        return Forward(losses, {**columns, **prediction})


@pytest.mark.parametrize("backward", ["gradient", "relp"])
@pytest.mark.parametrize("baseline", ["zero", "mean", "resample", "counterfactual"])
def test_equals_ablation_where_the_model_is_linear_after_the_head(
    baseline: str, backward: str, toy_data: TextData
) -> None:
    model = Linear((1.5, -0.5))
    examples = model.encode(with_corrupted(toy_data))
    expected = Ablation(signal="loss", replacement=baseline).score(model, examples, seed=5).frame
    method = Attribution(baseline=baseline, backward=backward, sign="signed")
    found = method.score(model, examples, seed=5).frame
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-6)
    np.testing.assert_allclose(found["stderr"], expected["stderr"], rtol=1e-6)


def test_zero_is_the_signed_gradient(bert: HuggingFaceModel, pairs: TextData) -> None:
    examples = bert.encode(pairs.head(1))
    signed = Attribution(sign="signed").score(bert, examples).frame["score"]
    sizes = Gradient(granularity="example", normalize="none").score(bert, examples).frame["score"]
    np.testing.assert_allclose(signed.abs(), sizes)
    assert signed.min() < 0 < signed.max()


class Explained(HuggingFaceModel):
    """A classifier whose loss is the logit of its prediction, negated."""

    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        logits = self.module(**batch.inputs).logits
        return Forward(-logits.amax(dim=-1), {})


def test_relp_propagates_as_lrp_with_constant_attention(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    model = Explained("tiny-bert", "classification", bert.module, bert.tokenizer)
    examples = model.encode(pairs)
    relevance = propagate(model, examples, rule="conservative").per_example
    found = Attribution(backward="relp", sign="signed").score(model, examples).frame["score"]
    np.testing.assert_allclose(found, relevance.mean(axis=0), rtol=1e-8)
    plain = Attribution(sign="signed").score(model, examples).frame["score"]
    assert not np.allclose(plain, found, rtol=1e-2)
