"""Relevance against hand-written rules, and its conservation on every family."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headtool.engine.freezing import frozen
from headtool.methods.relevance import propagate
from headtool.methods.relevance_rules import RULES, relevance_rules

from ..support.families import FAMILIES, TrueFloat64, inputs
from ..support.family_model import DATA, FamilyModel

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


@pytest.mark.parametrize("rule", ["conservative", "alpha-beta"])
@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in LEAKY])
def test_relevance_is_conserved_where_there_are_no_biases(name: str, rule: str) -> None:
    model = without_biases(name)
    logits, arrived, _ = run(model, rule)
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
@pytest.mark.parametrize(
    "name",
    ["BERT", "ModernBERT", "GPT-2", "Bloom", "Falcon, multi-query", "Llama", "Qwen3", "T5", "BART"],
)
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


def apart(contributions: np.ndarray, relevance: float, bias: float = 0.0) -> np.ndarray:
    """Bach et al., eq. 60, for one output: what each of its contributions gets."""
    positive = contributions.clip(min=0), max(bias, 0.0)
    negative = contributions.clip(max=0), min(bias, 0.0)
    shares = [part / (part.sum() + own) for part, own in (positive, negative) if part.sum() + own]
    return relevance * sum(shares) / len(shares)


def linear_apart(
    given: np.ndarray, weight: np.ndarray, relevance: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    """The rule for inputs [T, I] and weights [O, I], output by output."""
    result = np.zeros_like(given)
    for t, o in itertools.product(range(len(given)), range(len(weight))):
        own = 0.0 if bias is None else bias[o]
        result[t] += apart(given[t] * weight[o], relevance[t, o], own)
    return result


def test_alpha_beta_of_one_layer_by_hand() -> None:
    model = OneLayer()
    x = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x.requires_grad_()
    with relevance_rules(model, "alpha-beta"), torch.enable_grad():
        out, kept = model(x)
    assert not kept["weights"].requires_grad, "attention weights are constants"
    names = ("x", "v", "context", "hidden", "active")
    gradients = torch.autograd.grad(out, [kept[name] for name in names])
    found = {
        name: (kept[name].detach() * gradient)[0].numpy()
        for name, gradient in zip(names, gradients, strict=True)
    }
    at = {name: value.detach()[0].numpy() for name, value in kept.items()}
    weights = {name: getattr(model, name).numpy() for name in ("v", "o", "up", "read")}
    first = np.zeros((3, 1))
    first[0] = out.item()
    r_active = linear_apart(at["active"], weights["read"], first)
    r_normed = linear_apart(at["normed"], weights["up"], r_active)  # activation and norm: identity
    projected = at["context"] @ weights["o"].T
    pairs = np.stack([at["x"], projected], axis=-1)
    r_pairs = np.array([[apart(pairs[t, i], r_normed[t, i]) for i in range(4)] for t in range(3)])
    r_context = linear_apart(at["context"], weights["o"], r_pairs[..., 1])
    r_values = np.zeros((3, 4))
    for t, d in itertools.product(range(3), range(4)):
        r_values[:, d] += apart(at["weights"][t] * at["v"][:, d], r_context[t, d])
    r_x = r_pairs[..., 0] + linear_apart(at["x"], weights["v"], r_values)
    for name, wanted in {
        "active": r_active,
        "hidden": r_normed,
        "context": r_context,
        "v": r_values,
        "x": r_x,
    }.items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-9, atol=1e-12, err_msg=name)
    assert r_x.sum() == pytest.approx(out.item())


@pytest.mark.parametrize("layer", ["linear", "conv1d"])
def test_alpha_beta_leaves_biases_their_share(layer: str) -> None:
    rng = np.random.default_rng(0)
    weight, bias, given = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=(3, 4))
    given[0] = abs(given[0])
    weight[0] = abs(weight[0])  # contributions of one sign only: they get all, beside the bias
    module: Any
    if layer == "linear":
        module = nn.Linear(4, 5).double()
        module.weight.data = torch.tensor(weight)
    else:
        module = tf.pytorch_utils.Conv1D(5, 4).double()
        module.weight.data = torch.tensor(weight.T.copy())
    module.bias.data = torch.tensor(bias)
    x = torch.tensor(given, requires_grad=True)
    with frozen(module), relevance_rules(module, "alpha-beta"):
        y = module(x)
    relevance = rng.normal(size=(3, 5))
    (gradient,) = torch.autograd.grad(y, x, torch.tensor(relevance) / y.detach())
    wanted = linear_apart(given, weight, relevance, bias)
    np.testing.assert_allclose(given * gradient.numpy(), wanted, rtol=1e-9)
    torch.testing.assert_close(y, module(x))


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in LEAKY])
def test_alpha_beta_keeps_the_sign_and_makes_no_relevance(name: str) -> None:
    model = FAMILIES[name].model().double()
    embedded: list[Tensor] = []
    with frozen(model), TrueFloat64(), torch.enable_grad(), relevance_rules(model, "alpha-beta"):
        hooks = [
            part.register_forward_hook(lambda module, args, output: embedded.append(output))
            for part in model.modules()
            if isinstance(part, nn.Embedding)
        ]
        top = model(**inputs(model)).logits.max()
        for hook in hooks:
            hook.remove()
    logit = top.item()
    assert logit > 0
    found = torch.autograd.grad(top, embedded, allow_unused=True)
    arrived = [
        part.detach() * gradient
        for part, gradient in zip(embedded, found, strict=True)
        if gradient is not None
    ]
    total = sum(float(part.sum()) for part in arrived)
    assert 0 < total <= logit * (1 + 1e-9)
    assert all(float(part.min()) >= -1e-12 * logit for part in arrived)


def test_heads_share_what_their_projection_got() -> None:
    model = FamilyModel("BERT", dtype=torch.float64)
    examples = model.encode(DATA, batch_tokens=1000)
    for rule in RULES:
        if rule == "alpha-beta":  # a bias keeps no fixed share there
            with torch.no_grad():
                model.module.bert.encoder.layer[1].attention.output.dense.bias.zero_()
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
