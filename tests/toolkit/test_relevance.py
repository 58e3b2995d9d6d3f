"""Relevance against hand-written rules, and its conservation on every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headtool.differentiation import frozen
from headtool.relevance import RULES, propagate, relevance_rules

from .families import FAMILIES, TrueFloat64, inputs
from .test_evaluation import DATA, FamilyModel

LEAKY = {
    "Qwen3-Next": "linear attention multiplies decays, which keep relevance",
    "M2M-100": "positions are no embedding module, and keep theirs",
    "ViT": "pixels are no embeddings",
}


ALIBI = {
    "MPT": (tf.models.mpt.modeling_mpt, "build_mpt_alibi_tensor"),
    "Bloom": (tf.models.bloom.modeling_bloom, "build_alibi_tensor"),
    "Falcon, multi-head": (tf.models.falcon.modeling_falcon, "build_alibi_tensor"),
}
"""Families that add constants to the scores, which keep relevance of their own."""


class Softmaxes(TorchFunctionMode):
    """Keeps what goes into every softmax and what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.softmax, nn.functional.softmax, Tensor.softmax) and result.requires_grad:
            self.seen.append((args[0], result))
        return result


def without_biases(name: str) -> Any:
    model = FAMILIES[name].model().double()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if key.endswith("bias"):
                weight.zero_()
    return model


def run(model: Any, rule: str) -> tuple[Tensor, float, float]:
    """Logits; the relevance that arrives at the embeddings; what softmaxes kept."""
    embedded: list[Tensor] = []
    softmaxes = Softmaxes()
    with frozen(model), TrueFloat64(), softmaxes, torch.enable_grad(), relevance_rules(model, rule):
        hooks = [
            part.register_forward_hook(lambda module, args, output: embedded.append(output))
            for part in model.modules()
            if isinstance(part, nn.Embedding)
        ]
        logits = model(**inputs(model)).logits
        for hook in hooks:
            hook.remove()
    both = [part for pair in softmaxes.seen for part in pair]
    top = logits[..., 0].sum()
    gradients = torch.autograd.grad(top, [*embedded, *both], allow_unused=True)
    relevance = [
        0.0 if gradient is None else float((part.detach().nan_to_num(neginf=0) * gradient).sum())
        for part, gradient in zip([*embedded, *both], gradients, strict=True)
    ]
    arrived = sum(relevance[: len(embedded)])
    before, after = relevance[len(embedded) :: 2], relevance[len(embedded) + 1 :: 2]
    return logits.detach(), arrived, sum(after) - sum(before)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in LEAKY])
def test_relevance_is_conserved_where_there_are_no_biases(name: str) -> None:
    model = without_biases(name)
    logits, arrived, _ = run(model, "conservative")
    assert arrived == pytest.approx(float(logits[..., 0].sum()), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in LEAKY])
def test_softmax_keeps_all_that_attnlrp_loses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in ALIBI:
        place, function = ALIBI[name]
        build = getattr(place, function)
        monkeypatch.setattr(place, function, lambda *args, **kwargs: 0 * build(*args, **kwargs))
    model = without_biases(name)
    logits, arrived, leak = run(model, "attnlrp")
    total = float(logits[..., 0].sum())
    assert arrived + leak == pytest.approx(total, rel=1e-6, abs=1e-6)
    assert abs(leak) > 1e-3 * abs(total), "without a leak this shows nothing"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["BERT", "ModernBERT", "GPT-2", "Bloom", "Llama", "Qwen3", "T5"])
def test_values_do_not_change(name: str, rule: str) -> None:
    model = FAMILIES[name].model().double()
    with torch.no_grad(), TrueFloat64():
        expected = model(**inputs(model)).logits
    logits, *_ = run(model, rule)
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    assert not any(part._forward_hooks for part in model.modules())
    assert all(weight.requires_grad for weight in model.parameters())


@pytest.mark.parametrize("norm", [nn.RMSNorm(6), nn.LayerNorm(6)])
def test_norms_pass_on_all_relevance(norm: nn.Module) -> None:
    norm = norm.double()
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x.requires_grad_()
    with relevance_rules(norm):
        y = norm(x)
    (gradient,) = torch.autograd.grad(y[:, 2].sum(), x)
    torch.testing.assert_close((x * gradient).sum(dim=1), y[:, 2])
    torch.testing.assert_close(y, norm(x))


class OneLayer(nn.Module):
    """Attention, a residual, a norm, an activation and a readout: small enough for pencil rules."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def matrix(rows: int, columns: int) -> Tensor:
            return torch.randn(rows, columns, generator=generator, dtype=torch.float64)

        self.q, self.k, self.v, self.o = (matrix(4, 4) for _ in range(4))
        self.up, self.read = matrix(6, 4), matrix(1, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        q, k, v = x @ self.q.T, x @ self.k.T, x @ self.v.T
        scores = torch.matmul(q, k.transpose(-2, -1))
        weights = torch.softmax(scores, dim=-1)
        context = torch.matmul(weights, v)
        hidden = x + context @ self.o.T
        normed = nn.functional.layer_norm(hidden, (4,))
        active = nn.functional.gelu(normed @ self.up.T)
        out = (active @ self.read.T)[:, 0].sum()
        kept = {
            "x": x, "q": q, "k": k, "v": v, "scores": scores, "weights": weights,
            "context": context, "hidden": hidden, "normed": normed, "active": active,
        }  # fmt: skip
        return out, kept


def linear(given: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """Epsilon rule, epsilon zero: R_i = sum_j x_i w_ji R_j / z_j."""
    z = given @ weight.T
    return given * ((relevance / z) @ weight)


def test_one_layer_by_hand() -> None:
    model = OneLayer()
    x = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x.requires_grad_()
    with relevance_rules(model), torch.enable_grad():
        out, kept = model(x)
    gradients = dict(zip(kept, torch.autograd.grad(out, list(kept.values())), strict=True))
    found = {name: kept[name].detach() * gradients[name] for name in kept}

    with torch.no_grad():
        at = {name: value.detach() for name, value in kept.items()}
        first = torch.zeros(1, 3, 1, dtype=torch.float64)
        first[:, 0] = (at["active"] @ model.read.T)[:, 0]
        r_active = linear(at["active"], model.read, first)
        r_up = r_active  # identity rule
        r_normed = linear(at["normed"], model.up, r_up)
        # Norm with a constant scale: a linear map, centring.
        centre = torch.eye(4, dtype=torch.float64) - 0.25
        r_hidden = linear(at["hidden"], centre, r_normed)
        projected = at["context"] @ model.o.T
        r_projected = r_hidden * projected / at["hidden"]
        r_context = linear(at["context"], model.o, r_projected)
        # Product: half to the weights, half to the values, each in proportion to its terms.
        share = r_context / at["context"]
        terms = at["weights"][..., None] * at["v"][:, None]  # [1, T, S, D]
        r_pairs = terms * share[:, :, None]
        r_weights, r_values = r_pairs.sum(-1) / 2, r_pairs.sum(1) / 2
        r_scores = at["scores"] * (
            r_weights - at["weights"] * r_weights.sum(-1, keepdim=True)
        )  # as the paper writes it, for relevance of the probabilities
        q_terms = at["q"][:, :, None] * at["k"][:, None] * (r_scores / at["scores"])[..., None]
    for name, wanted in {
        "active": r_active,
        "normed": r_normed,
        "context": r_context,
        "weights": r_weights,
        "v": r_values,
        "scores": r_scores,
        "q": q_terms.sum(2) / 2,
        "k": q_terms.sum(1) / 2,
    }.items():
        torch.testing.assert_close(found[name], wanted, rtol=1e-8, atol=1e-10, msg=name)


def test_heads_share_what_their_projection_got() -> None:
    model = FamilyModel("BERT", dtype=torch.float64)
    examples = model.encode(DATA, batch_tokens=1000)
    for rule in RULES:
        found = propagate(model, examples, rule=rule)
        assert found.per_example.shape == (len(examples), 8)
        batch = model.collate(examples, np.arange(len(examples)))
        with frozen(model.module), torch.enable_grad(), TrueFloat64():
            projected: list[Tensor] = []
            dense = model.module.bert.encoder.layer[1].attention.output.dense

            def keep(part: nn.Module, args: Any, out: Tensor, into: Any = projected) -> None:
                into.append(out)

            hook = dense.register_forward_hook(keep)
            with relevance_rules(model.module, rule):
                logits = model.module(**batch.inputs).logits
            hook.remove()
            (gradient,) = torch.autograd.grad(logits.amax(dim=-1).sum(), projected)
        arrived = (projected[0].detach() - dense.bias.detach()) * gradient
        np.testing.assert_allclose(
            found.per_example[:, 4:].sum(axis=1), arrived.sum(dim=(1, 2)).numpy(), rtol=1e-6
        )
        np.testing.assert_allclose(found.explained, logits.amax(dim=-1).detach().numpy(), rtol=1e-6)
