"""Watched attention is the model's own, computed in the open."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from headtool.attention.discovery import discover
from headtool.attention.gating import intercept
from headtool.attention.watching import AttentionWatch, explicit_attention
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite

from ..support.families import FAMILIES, TrueFloat64, inputs, probe


def same(probabilities: Tensor) -> Tensor:
    return probabilities


@given(
    queries=st.integers(1, 4),
    keys=st.integers(1, 4),
    mask=st.sampled_from(["none", "boolean", "additive", "infinite"]),
    scale=st.sampled_from([None, 0.3, 1.0]),
    groups=st.sampled_from([1, 2]),
    is_causal=st.booleans(),
    seed=st.integers(0, 100),
)
def test_explicit_attention_equals_the_fused_one(
    queries: int, keys: int, mask: str, scale: float | None, groups: int, is_causal: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q = random(2, 4, queries, 3)
    k, v = random(2, 4 // groups, keys, 3), random(2, 4 // groups, keys, 3)
    visible = torch.rand(2, 1, queries, keys, generator=generator) > 0.3
    masks = {
        "none": None,
        "boolean": visible,
        "additive": random(2, 1, queries, keys),
        "infinite": torch.zeros_like(visible, dtype=torch.float64).masked_fill(~visible, -math.inf),
    }
    options: dict[str, Any] = {"scale": scale, "enable_gqa": groups > 1}
    if is_causal:
        options["is_causal"] = True  # torch takes this or a mask
    else:
        options["attn_mask"] = masks[mask]
    rows: list[Tensor] = []

    def note(probabilities: Tensor) -> Tensor:
        rows.append(probabilities)
        return probabilities

    actual = explicit_attention(q, k, v, **options, on_softmax=note)
    torch.testing.assert_close(actual, scaled_dot_product_attention(q, k, v, **options))
    (probabilities,) = rows
    assert probabilities.shape == (2, 4, queries, keys)
    sums = probabilities.sum(dim=-1)
    assert (torch.isclose(sums, torch.ones_like(sums)) | (sums == 0)).all()


def test_rows_that_see_nothing_are_zero() -> None:
    q = k = v = torch.randn(1, 2, 3, 4)
    mask = torch.tensor([[True, True, False], [False, False, False], [False, True, True]])
    seen: list[Tensor] = []
    result = explicit_attention(q, k, v, mask, on_softmax=lambda p: seen.append(p) or p)  # type: ignore[func-returns-value]
    assert (seen[0][:, :, 1] == 0).all()
    assert (result[:, :, 1] == 0).all()
    assert result.isfinite().all()


def test_dropout_is_refused() -> None:
    x = torch.randn(1, 1, 2, 2)
    with pytest.raises(ValueError, match="evaluation mode"), AttentionWatch(same):
        scaled_dot_product_attention(x, x, x, dropout_p=0.1)


@pytest.mark.parametrize(
    "softmax",
    [
        lambda x: torch.softmax(x, -1),
        lambda x: torch.softmax(x, dim=-1, dtype=torch.float64),
        lambda x: torch.special.softmax(x, -1),
        lambda x: nn.functional.softmax(x, dim=-1),
        lambda x: x.softmax(dim=-1),
        nn.Softmax(dim=-1),
        lambda x: scaled_dot_product_attention(x, torch.zeros_like(x), torch.eye(3)),
    ],
)
def test_every_softmax_is_seen_once_and_can_be_replaced(
    softmax: Callable[[Tensor], Tensor],
) -> None:
    scores = torch.randn(2, 3, 3)
    plain = softmax(scores)
    seen: list[Tensor] = []

    def halve(probabilities: Tensor) -> Tensor:
        seen.append(probabilities)
        return probabilities / 2

    with AttentionWatch(halve):
        replaced = softmax(scores)
    assert len(seen) == 1
    torch.testing.assert_close(replaced, plain / 2)
    torch.testing.assert_close(softmax(scores), plain)
    assert len(seen) == 1


def test_watches_nest() -> None:
    seen: list[str] = []

    def note(name: str) -> Callable[[Tensor], Tensor]:
        return lambda probabilities: seen.append(name) or probabilities  # type: ignore[func-returns-value]

    x = torch.randn(1, 1, 2, 2)
    with AttentionWatch(note("outer")), AttentionWatch(note("inner")):
        scaled_dot_product_attention(x, x, x)
    assert seen == ["outer", "inner"]


def test_other_functions_are_left_alone() -> None:
    x = torch.randn(3, 4)
    with AttentionWatch(lambda probabilities: probabilities * 0):
        assert torch.equal(torch.log_softmax(x, -1), x.log_softmax(-1))
        assert (x.sigmoid() > 0).all()


def test_torchs_own_multi_head_attention_is_refused() -> None:
    layer = nn.MultiheadAttention(4, 2).eval()
    x = torch.randn(3, 1, 4)
    with torch.no_grad(), AttentionWatch(same), pytest.raises(HeadtoolError, match="in one piece"):
        layer(x, x, x)


@pytest.mark.parametrize(
    ("family", "value", "time_first"),
    [
        ("BERT", "attention.self.value", False),
        ("GPT-NeoX", "", False),
        ("Llama", "self_attn.v_proj", False),
        ("Mistral", "self_attn.v_proj", False),
        ("Gemma3", "self_attn.v_proj", False),
        ("T5", "Attention.v", False),
        ("BART", "attn.v_proj", False),
        ("FSMT", "attn.v_proj", True),
    ],
)
def test_attention_times_values_is_what_the_heads_put_out(
    family: str, value: str, time_first: bool
) -> None:
    """The values are read from the model's own value projections."""
    model = FAMILIES[family].model().double()
    handles = discover(model, probe(model))
    values: list[Tensor] = []
    latest: list[Tensor] = []
    checked: list[AttentionSite] = []

    def note(probabilities: Tensor) -> Tensor:
        latest[:] = [probabilities]
        return probabilities

    def check(site: AttentionSite, contexts: Tensor) -> None:
        batch, heads, queries, width = len(contexts), site.n_heads, contexts.shape[1], site.head_dim
        projected = values.pop()
        if family == "GPT-NeoX":  # query, key and value of each head side by side
            projected = projected.view(batch, -1, heads, 3, width)[:, :, :, 2].flatten(2)
        projected = projected.transpose(0, 1) if time_first else projected
        per_head = projected.reshape(batch, -1, site.n_kv_heads, width).transpose(1, 2)
        per_head = per_head.repeat_interleave(heads // site.n_kv_heads, dim=1)
        attention = latest.pop().reshape(batch, heads, queries, -1)
        wanted = torch.einsum("bhts,bhsd->bthd", attention, per_head)
        torch.testing.assert_close(contexts, wanted, rtol=1e-10, atol=1e-10)
        checked.append(site)

    def keep(module: nn.Module, args: Any, output: Tensor) -> None:
        values.append(output)

    for name, module in model.named_modules():
        if name.endswith(value or "query_key_value"):
            module.register_forward_hook(keep)
    with (
        torch.no_grad(),
        TrueFloat64(),
        AttentionWatch(note),
        intercept(handles, check, batch=2),
    ):
        model(**inputs(model, padded=True))
    assert len(checked) == len(handles)
