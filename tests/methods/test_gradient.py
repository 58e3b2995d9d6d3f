"""Gradient importance against closed forms, finite differences and literal loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool.attention.gating import Gating
from headtool.data import TextData
from headtool.engine.differentiation import differentiate
from headtool.methods.gradient import Gradient
from headtool.models.huggingface.model import HuggingFaceModel


def raw(model, examples, **options) -> np.ndarray:
    return Gradient(normalize="none", **options).score(model, examples).frame["score"].to_numpy()


def test_closed_form_on_two_heads(toy, toy_data: TextData) -> None:
    weights = (1.5, -0.5)
    model = toy(weights)
    examples = model.encode(toy_data)
    s, tokens = [], []
    for row in examples.rows:
        contexts = np.mean(row["features"], axis=0)
        logit = contexts @ weights
        dlogit = 1 / (1 + np.exp(-logit)) - row["target"]
        s.append(dlogit * contexts * weights)  # only the first query token reaches the loss
        tokens.append(len(row["features"]))
    s = np.array(s)
    np.testing.assert_allclose(raw(model, examples), np.abs(s).sum(0) / sum(tokens))
    np.testing.assert_allclose(raw(model, examples, granularity="example"), np.abs(s).mean(0))
    batches = [s[i : i + 5].mean(0) for i in range(0, 12, 5)]
    np.testing.assert_allclose(
        raw(model, examples, granularity="batch", batch_size=5), np.abs(batches).mean(0)
    )
    running, total = np.zeros(2), np.zeros(2)
    for batch in batches:
        running = running + batch
        total += np.abs(running)
    np.testing.assert_allclose(raw(model, examples, granularity="cumulative", batch_size=5), total)


def test_per_example_gradient_equals_central_differences(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    gradients = differentiate(bert, examples)
    batch = bert.collate(examples, np.arange(len(examples)))
    step = 1e-5
    for site in bert.sites:
        for head in range(site.n_heads):
            losses = []
            for sign in (1, -1):
                gates = torch.ones(site.n_heads, dtype=torch.float64)
                gates[head] += sign * step
                with torch.no_grad(), bert.intercept(Gating({site: gates}), batch):
                    losses.append(bert.forward(batch).losses.numpy())
            expected = (losses[0] - losses[1]) / (2 * step)
            column = bert.sites.columns(site).start + head
            np.testing.assert_allclose(
                gradients.per_example[:, column], expected, rtol=1e-5, atol=1e-9
            )
    np.testing.assert_allclose(gradients.losses, bert.forward(batch).losses.detach().numpy())


def test_token_magnitude_equals_a_loop_over_single_examples(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    gradients = differentiate(bert, examples)
    for i in range(len(examples)):
        batch = bert.collate(examples, np.array([i]))
        contexts = {}

        def keep(site, ctx, contexts=contexts):
            contexts[site] = ctx.detach().requires_grad_(True)
            return contexts[site]

        # Cutting the graph at every site leaves each one's own gradient, so go from the top down:
        # the sites are independent leaves only because each replaces the value, not the gradient.
        for site in bert.sites:

            def only(this, ctx, site=site):
                return keep(this, ctx) if this == site else None

            with bert.intercept(only, batch):
                loss = bert.forward(batch).losses.sum()
            (g,) = torch.autograd.grad(loss, [contexts[site]])
            s = (contexts[site] * g).sum(dim=-1)[0]
            columns = bert.sites.columns(site)
            np.testing.assert_allclose(
                gradients.token_magnitude[i, columns], s.abs().sum(dim=0).detach().numpy()
            )
            np.testing.assert_allclose(
                gradients.per_example[i, columns], s.sum(dim=0).detach().numpy(), atol=1e-14
            )
        assert (gradients.tokens[i] == len(examples.rows[i]["input_ids"])).all()


def test_token_is_at_least_example_is_at_least_batch(
    bert: HuggingFaceModel, pairs: TextData
) -> None:
    examples = bert.encode(pairs)
    tokens = differentiate(bert, examples).tokens.mean(axis=0)
    token = raw(bert, examples) * tokens  # per example instead of per token
    example = raw(bert, examples, granularity="example")
    batch = raw(bert, examples, granularity="batch", batch_size=17)
    assert (token >= example - 1e-15).all()
    assert (example >= batch - 1e-15).all()
    assert (token > batch).any()


@pytest.mark.parametrize("granularity", ["token", "example", "batch"])
def test_layer_norms_are_one(granularity: str, bert: HuggingFaceModel, pairs: TextData) -> None:
    frame = Gradient(granularity=granularity).score(bert, bert.encode(pairs)).frame
    norms = frame.groupby("layer")["score"].apply(lambda x: np.linalg.norm(x))
    np.testing.assert_allclose(norms, 1.0)


def test_minmax_spans_zero_to_one(bert: HuggingFaceModel, pairs: TextData) -> None:
    frame = Gradient(normalize="minmax").score(bert, bert.encode(pairs)).frame
    assert frame["score"].min() == 0
    assert frame["score"].max() == 1
    assert frame["stderr"].min() == pytest.approx(0, abs=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("normalize", ["none", "layer", "minmax"])
@pytest.mark.parametrize("granularity", ["token", "example"])
def test_standard_error_agrees_with_the_jackknife(granularity: str, normalize: str, toy) -> None:
    rng = np.random.default_rng(0)
    n = 80
    texts = [
        " ".join(
            ":".join(f"{x:.4f}" for x in rng.normal(1, 1, 2)) for _ in range(rng.integers(2, 5))
        )
        for _ in range(n)
    ]
    labels = tuple(str(x) for x in rng.integers(0, 2, n))
    data = TextData("toy.tsv", "classification", {"text_a": tuple(texts), "label": labels})
    model = toy((1.0, -0.7))
    method = Gradient(granularity=granularity, normalize=normalize)
    examples = model.encode(data)
    result = method.score(model, examples).frame
    left_out = np.array(
        [
            method.score(model, examples.take(np.delete(np.arange(n), i))).frame["score"]
            for i in range(n)
        ]
    )
    jackknife = np.sqrt((n - 1) * left_out.var(axis=0))
    np.testing.assert_allclose(result["stderr"], jackknife, rtol=0.08, atol=1e-9)


def test_one_example_has_no_standard_error(bert: HuggingFaceModel, pairs: TextData) -> None:
    frame = Gradient().score(bert, bert.encode(pairs.head(1))).frame
    assert frame["stderr"].isna().all()
