"""Prove by further passes of the probe that each head is where discovery says it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from headtool.attention.gating import SiteHandle, intercept
from headtool.attention.probing import Probe, as_attention, refusal
from headtool.attention.watching import AttentionWatch
from headtool.heads import AttentionSite

__all__ = ["Rerun", "verify", "with_kv_heads"]


@dataclass(frozen=True)
class Rerun:
    """The probe again, with other attention probabilities.

    The inputs of linear layers are replaced by noise, the same in each pass. So no site depends on
    another one, and heads differ whatever the tokens of the probe are.

    Attributes
    ----------
    probe
        The probe.
    handles
        The sites in the order of the forward pass.
    linears
        The model's linear layers.
    """

    probe: Probe
    handles: Sequence[SiteHandle]
    linears: Sequence[nn.Module]

    def contexts(self, change: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """The heads' outputs [B, T, H, D] after `change` of the probabilities [B, H, T, S]."""
        seen: list[Tensor] = []
        attended = 0
        calls = count()

        def add_noise(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            generator = torch.Generator().manual_seed(next(calls))
            return (torch.randn(args[0].shape, generator=generator).to(args[0]), *args[1:])

        def on_softmax(probabilities: Tensor) -> Tensor:
            nonlocal attended
            per_head = as_attention(probabilities, self.probe)
            if per_head is None:
                return probabilities
            attended += 1
            return change(per_head).reshape(probabilities.shape)

        def on_contexts(site: AttentionSite, contexts: Tensor) -> None:
            if len(seen) + 1 != attended or self.handles[len(seen)].site != site:
                raise refusal(f"{site.projection} is also used for something else")
            seen.append(contexts)

        projections = {handle.module for handle in self.handles}
        with contextlib.ExitStack() as stack:
            for module in self.linears:
                if module not in projections:
                    stack.callback(module.register_forward_pre_hook(add_noise).remove)
            stack.enter_context(AttentionWatch(on_softmax))
            stack.enter_context(intercept(self.handles, on_contexts, batch=self.probe.batch))
            self.probe.run()
        return seen


def verify(rerun: Rerun) -> None:
    """Check that head h's probabilities reach slice h of the projection's input, and nothing else.

    Heads are told apart by the bits of their index, so ``2 log2(H)`` passes suffice.
    """
    originals = rerun.contexts(lambda per_head: per_head)
    for keep in _patterns(max(handle.site.n_heads for handle in rerun.handles)):

        def close(per_head: Tensor, keep: Tensor = keep) -> Tensor:
            return per_head * keep[: per_head.shape[1], None, None].to(per_head)

        contexts = rerun.contexts(close)
        for handle, original, seen in zip(rerun.handles, originals, contexts, strict=True):
            wanted = original * keep[: handle.site.n_heads, None].to(original)
            if not _close(seen, wanted):
                raise refusal(
                    f"the input of {handle.site.projection} is not the heads' outputs side by side"
                )


def _patterns(heads: int) -> Iterable[Tensor]:
    """Per bit of a head's index: the heads that have it, and those that have not; [heads] each."""
    index = torch.arange(heads)
    for bit in range(max(1, (heads - 1).bit_length())):
        has_bit = (index >> bit) & 1
        yield has_bit
        yield 1 - has_bit


def with_kv_heads(rerun: Rerun) -> list[SiteHandle]:
    """Measure how many heads have keys and values of their own."""

    def attend_equally(per_head: Tensor) -> Tensor:
        return torch.full_like(per_head, 1 / per_head.shape[-1])

    def attend_first(per_head: Tensor) -> Tensor:
        return nn.functional.one_hot(
            torch.zeros_like(per_head[..., 0], dtype=torch.long), per_head.shape[-1]
        ).to(per_head)

    return [
        replace(handle, site=replace(handle.site, n_kv_heads=_distinct(first / equally)))
        for handle, first, equally in zip(
            rerun.handles,
            rerun.contexts(attend_first),
            rerun.contexts(attend_equally),
            strict=True,
        )
    ]


def _distinct(ratio: Tensor) -> int:
    """Count the groups of neighbouring heads that share values.

    Attending alike, they put out the same: up to a gate of each head's own (Qwen3-Next has one),
    which cancels in the ratio [B, T, H, D] of two outputs.
    """
    heads = ratio.shape[2]
    for groups in range(1, heads):
        if heads % groups == 0:
            grouped = ratio.reshape(*ratio.shape[:2], groups, heads // groups, -1)
            first = grouped[:, :, :, :1].expand_as(grouped)
            # Rounding of half-precision outputs is all that may differ.
            if torch.allclose(grouped, first, rtol=0.05, atol=0.0, equal_nan=True):
                return groups
    return heads


def _close(actual: Tensor, wanted: Tensor) -> bool:
    """Whether two tensors agree but for rounding; the same computation was done twice."""
    scale = float(wanted.abs().nan_to_num().max())
    return torch.allclose(actual, wanted, rtol=0.0, atol=1e-5 * scale, equal_nan=True)
