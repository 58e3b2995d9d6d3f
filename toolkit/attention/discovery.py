"""Find the attention sites of any model by watching forward passes, and prove them right.

No family is listed. The same small probe runs several times:

1. As it is. Every softmax over attention-shaped scores is noted.
2. With attention probabilities of NaN, which mark all that the heads put out. The first linear
   layer to read NaN is the output projection, and is given its original input back. Whatever else
   NaN reaches, the prediction included, uses the heads without going through the projection.
3. With some heads' probabilities at zero. That must zero exactly those heads' slices of the
   projection's input.
4. With equal attention for all heads. Those that share keys and values put out the same.

A model for which this fails is refused, so that no family is silently wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headtool.attention.gating import Layout, SiteHandle
from headtool.attention.probing import Probe, as_attention, refusal
from headtool.attention.verification import Rerun, verify, with_kv_heads
from headtool.attention.watching import AttentionWatch
from headtool.errors import HeadtoolError
from headtool.heads import KINDS, AttentionSite, Kind

__all__ = ["Probe", "discover", "is_linear"]


def discover(model: nn.Module, probe: Probe) -> tuple[SiteHandle, ...]:
    """Find and verify the attention sites of `model`, in canonical order.

    Parameters
    ----------
    model
        In evaluation mode.
    probe
        A forward pass on a small batch.

    Raises
    ------
    HeadtoolError
        If the model's attention cannot be reached head by head.
    """
    names = {module: name or type(model).__name__ for name, module in model.named_modules()}
    with torch.no_grad():
        seen = _look(model, probe, names)
        uses = _trace(seen, probe, names)
        handles = _number(uses, probe)
        rerun = Rerun(probe, handles, list(filter(is_linear, names)))
        verify(rerun)
        handles = with_kv_heads(rerun)
    return tuple(sorted(handles, key=lambda h: (KINDS.index(h.site.kind), h.site.layer)))


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear map of its input's last axis (GPT-2 has its own class)."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


# -- the first pass: what attention there is -------------------------------------------------------


@dataclass(frozen=True)
class _Attention:
    """Attention that was computed, and the module that did, with its name."""

    probabilities: Tensor  # [B, H, T, S]
    owner: str
    module: nn.Module


@dataclass(frozen=True)
class _Seen:
    """What a pass showed: attention and the inputs of linear layers, in order; the prediction."""

    attentions: Sequence[_Attention]
    inputs: Sequence[Tensor]
    prediction: Tensor


def _look(model: nn.Module, probe: Probe, names: Mapping[nn.Module, str]) -> _Seen:
    attentions: list[_Attention] = []
    inputs: list[Tensor] = []
    running: list[nn.Module] = []

    def enter(module: nn.Module, args: tuple[Any, ...]) -> None:
        running.append(module)
        if is_linear(module):
            inputs.append(args[0])

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        running.pop()

    def on_softmax(probabilities: Tensor) -> Tensor:
        owner = names[running[-1]] if running else "the probe"
        per_head = as_attention(probabilities, probe)
        if per_head is not None:
            _check(per_head, owner)
            attentions.append(_Attention(per_head, owner, running[-1] if running else model))
        elif _may_be_attention(probabilities, owner, running):
            shape = tuple(probabilities.shape)
            raise refusal(f"{owner} computes attention of the unusual shape {shape}")
        return probabilities

    modules = list(names)
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_pre_hook(enter).remove)
            stack.callback(module.register_forward_hook(leave).remove)
        stack.enter_context(AttentionWatch(on_softmax))
        prediction = probe.predict()
    if list(model.modules()) != modules:
        raise refusal("it replaces its own layers when the input is short (block-sparse?)")
    if not attentions:
        raise refusal(
            f"a forward pass of {type(model).__name__} shows no softmax attention (flash and flex "
            "attention hide theirs; load it with attn_implementation sdpa or eager)"
        )
    return _Seen(attentions, inputs, prediction)


def _check(per_head: Tensor, owner: str) -> None:
    if not per_head.isfinite().all():
        raise HeadtoolError(
            f"the attention of {owner} is not finite on ordinary tokens; check the weights, "
            "or try `dtype=float32`"
        )
    if (per_head.sum(dim=-1) - 1).abs().max() > 0.02:  # half precision rounds that much
        raise refusal(f"{owner} does not normalise its attention over keys")


def _may_be_attention(probabilities: Tensor, owner: str, running: Sequence[nn.Module]) -> bool:
    """Whether a softmax of an unknown shape may be attention.

    Three axes can also be a router's of experts or a prediction's; there the names decide.
    """
    if probabilities.ndim != 3:
        return probabilities.ndim > 3
    names = [owner, *(type(module).__name__ for module in running)]
    return any(word in name.lower() for name in names for word in ("attention", "attn"))


# -- the second pass: which linear layers read it --------------------------------------------------


@dataclass(frozen=True)
class _Use:
    """One use of an output projection: the attention before it, and what it was given."""

    name: str
    module: nn.Module
    owner: nn.Module
    probabilities: Tensor  # [B, H, T, S]
    projected: Tensor
    layout: Layout


def _trace(seen: _Seen, probe: Probe, names: Mapping[nn.Module, str]) -> list[_Use]:
    """Follow NaN from each attention to its projection."""
    uses: list[_Use] = []
    attentions, inputs = iter(seen.attentions), iter(seen.inputs)
    unread: list[_Attention] = []

    def on_softmax(probabilities: Tensor) -> Tensor:
        if as_attention(probabilities, probe) is None:
            return probabilities
        refuse_unread()
        unread.append(next(attentions))
        return torch.full_like(probabilities, torch.nan)

    def on_linear(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        original = next(inputs)
        if not _reached(args[0], original):
            return None
        if not unread:
            raise refusal(
                f"{uses[-1].name} and {names[module]} both read them (an unmerged adapter? merge "
                "it into the weights first)"
            )
        uses.append(_use(module, names[module], original, unread.pop()))
        return (original, *args[1:])

    def refuse_unread() -> None:
        if unread:
            raise refusal(f"no linear layer projects the attention of {unread[0].owner}")

    with contextlib.ExitStack() as stack:
        for module in filter(is_linear, names):
            stack.callback(module.register_forward_pre_hook(on_linear).remove)
        stack.enter_context(AttentionWatch(on_softmax))
        prediction = probe.predict()
    refuse_unread()
    if _reached(prediction, seen.prediction):
        raise refusal(f"they reach the prediction by another way than {uses[0].name} and its like")
    return uses


def _reached(tensor: Tensor, original: Tensor) -> bool:
    """Whether NaN has got into a tensor."""
    return bool((tensor.isnan() & ~original.isnan()).any())


def _use(module: nn.Module, name: str, projected: Tensor, attention: _Attention) -> _Use:
    batch, heads, queries = attention.probabilities.shape[:3]
    layout = _layout(projected, batch, queries)
    if layout is None or projected.shape[-1] % heads:
        shape = tuple(projected.shape)
        raise refusal(f"{name} reads the attention of {attention.owner} in the shape {shape}")
    return _Use(name, module, attention.module, attention.probabilities, projected, layout)


def _layout(projected: Tensor, batch: int, queries: int) -> Layout | None:
    if projected.shape[:-1] == (batch, queries):
        return "batch-first"
    if projected.shape[:-1] == (queries, batch):
        return "time-first"
    if projected.shape[:-1] == (batch * queries,):
        return "flat"
    return None


# -- kinds and layers ------------------------------------------------------------------------------


def _number(uses: Sequence[_Use], probe: Probe) -> list[SiteHandle]:
    """Give each use its kind and layer, in the order of uses."""
    kinds = [_kind(use, probe) for use in uses]
    layers = {
        kind: iter(_layers([use for use, other in zip(uses, kinds, strict=True) if other == kind]))
        for kind in KINDS
    }
    handles = []
    for index, (use, kind) in enumerate(zip(uses, kinds, strict=True)):
        n_heads = use.probabilities.shape[1]
        site = AttentionSite(
            kind=kind,
            layer=next(layers[kind]),
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=use.projected.shape[-1] // n_heads,
            projection=use.name,
        )
        call = sum(other.module is use.module for other in uses[:index])
        calls = sum(other.module is use.module for other in uses)
        handles.append(SiteHandle(site, use.module, use.layout, call, calls, use.owner))
    return handles


def _kind(use: _Use, probe: Probe) -> Kind:
    queries, keys = use.probabilities.shape[2:]
    if queries != keys:
        return "cross"
    if probe.target:
        return "dec-self" if queries == probe.target else "enc-self"
    # A decoder-only model is told from an encoder by what its queries cannot see.
    ahead = use.probabilities.triu(diagonal=1)
    return "enc-self" if ahead.any() else "dec-self"


def _layers(uses: Sequence[_Use]) -> list[int]:
    """Layer numbers from the module names where those tell layers apart, else by order of calls.

    A hybrid model attends in some layers only, and its layers keep their own numbers.
    """
    numbers = ([int(part) for part in use.name.split(".") if part.isdecimal()] for use in uses)
    for column in zip(*numbers, strict=False):
        if list(column) == sorted(set(column)):
            return list(column)
    return list(range(len(uses)))
