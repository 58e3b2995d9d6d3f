"""See attention probabilities, whatever code computes them.

A `torch` function mode notes every softmax. Fused attention never shows its probabilities, so
inside the mode `scaled_dot_product_attention` is computed step by step instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headtool.errors import HeadtoolError

__all__ = ["AttentionWatch", "explicit_attention", "pause_watching", "resume_watching"]

_pauses = 0

_SOFTMAX = {
    torch.softmax,
    torch.special.softmax,
    torch.nn.functional.softmax,
    torch.Tensor.softmax,
}


def pause_watching() -> None:
    """Let no `AttentionWatch` see what is computed until `resume_watching`."""
    global _pauses
    _pauses += 1


def resume_watching() -> None:
    """End the innermost `pause_watching`."""
    global _pauses
    _pauses -= 1


class AttentionWatch(TorchFunctionMode):
    """Call `on_softmax` with the result of every softmax; what it returns is used in its place.

    Raises
    ------
    HeadtoolError
        If a forward pass inside uses `torch.nn.MultiheadAttention`, whose softmax cannot be seen.
    """

    def __init__(self, on_softmax: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.on_softmax = on_softmax

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if _pauses:
            return func(*args, **kwargs)
        if func is torch.nn.functional.scaled_dot_product_attention:
            return explicit_attention(*args, **kwargs, on_softmax=self.on_softmax)
        if func is torch.nn.functional.multi_head_attention_forward:
            raise HeadtoolError(
                "this model's heads cannot be reached one by one: torch.nn.MultiheadAttention "
                "computes its attention in one piece"
            )
        result = func(*args, **kwargs)
        return self.on_softmax(result) if func in _SOFTMAX else result


def explicit_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    on_softmax: Callable[[Tensor], Tensor],
) -> Tensor:
    """Compute `torch.nn.functional.scaled_dot_product_attention` with visible probabilities.

    Rows in which everything is masked give zeros, as there.

    Parameters
    ----------
    query, key, value
        Shapes [..., H, T, D], [..., H, S, D] and [..., H, S, D].
    attn_mask
        Booleans (True: visible) or numbers that are added to the scores.
    dropout_p
        Must be 0.
    is_causal
        Whether a query sees only keys up to its own position.
    scale
        What scores are multiplied by; None: ``1 / sqrt(D)``.
    enable_gqa
        Whether groups of query heads share keys and values.
    on_softmax
        Gets the probabilities [..., H, T, S]; what it returns is used in their place.

    Raises
    ------
    ValueError
        For dropout: probabilities are only watched in evaluation mode.
    """
    if dropout_p:
        raise ValueError("attention probabilities are only watched in evaluation mode")
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key = key.repeat_interleave(repeats, dim=-3)
        value = value.repeat_interleave(repeats, dim=-3)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale
    unseen: list[Tensor] = []  # masks are the same for all heads: looking at them costs little
    if is_causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        unseen.append(~visible)
        scores = scores.masked_fill(~visible, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        unseen.append(~attn_mask)
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        unseen.append(attn_mask == -math.inf)
        scores = scores + attn_mask
    probabilities = torch.softmax(scores, dim=-1)
    if unseen:
        blind = functools.reduce(torch.logical_or, unseen).all(dim=-1, keepdim=True)
        if blind.any():
            probabilities = probabilities.masked_fill(blind, 0.0)
    return on_softmax(probabilities) @ value
