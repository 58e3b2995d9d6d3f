"""Which parts of an attention's parameters and arguments belong to which head.

Nothing about families or parameter names is assumed. NaN is sent backwards from one head's output
after the other: whatever that head's computation reads, and nothing else, gets a gradient of NaN.
So the rows of any projection are attributed to heads, fused or not, whatever their order; rows that
a group of heads shares belong to all of its heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.discovery import is_linear
from headtool.attention.gating import SiteHandle
from headtool.attention.probing import Probe
from headtool.attention.watching import AttentionWatch
from headtool.attention.weights import present

__all__ = ["PerHead", "TracedAttention", "trace", "unit_name"]


@dataclass(frozen=True)
class PerHead:
    """An axis of a tensor along which heads have slices of their own.

    Attributes
    ----------
    axis
        The axis.
    heads
        Which heads read each slice; boolean [slices, H].
    """

    axis: int
    heads: NDArray[Any]


@dataclass(frozen=True)
class TracedAttention:
    """An attention with its projections.

    Attributes
    ----------
    name, module
        The smallest module that holds the attention and its output projection.
    handles
        Its sites; several where layers share their weights.
    parameters
        The parameters with slices per head, by their name in the model; not the output projection.
    outputs
        All linear layers before the heads' outputs, by their name in the model; None for a layer
        that every head reads in full.
    arguments
        The arguments of `module` with slices per head.
    """

    name: str
    module: nn.Module
    handles: tuple[SiteHandle, ...]
    parameters: Mapping[str, PerHead]
    outputs: Mapping[str, PerHead | None]
    arguments: Mapping[str, PerHead]

    @property
    def handle(self) -> SiteHandle:
        """The first of its sites."""
        return self.handles[0]


class _Reached(Exception):  # noqa: N818
    """Ends a forward pass at the output projection; carries what that was given."""

    def __init__(self, projected: Tensor) -> None:
        super().__init__()
        self.projected = projected


def trace(model: nn.Module, handles: Sequence[SiteHandle], probe: Probe) -> list[TracedAttention]:
    """Attribute the parameters and arguments of every attention to heads; the model is unchanged.

    Parameters
    ----------
    model
        In evaluation mode.
    handles
        Its sites.
    probe
        The forward pass that they were found with.
    """
    grouped: dict[str, list[SiteHandle]] = {}
    modules: dict[str, nn.Module] = {}
    for handle in handles:
        name = unit_name(model, handle)
        grouped.setdefault(name, []).append(handle)
        modules[name] = model.get_submodule(name)
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            calls.setdefault(name, (args, kwargs))

        return hook

    hooks = [
        # Before our own hooks, which narrow the arguments of a model that was pruned before.
        module.register_forward_pre_hook(keep(name), with_kwargs=True, prepend=True)
        for name, module in modules.items()
    ]
    try:
        with torch.no_grad():
            probe.run()
    finally:
        for hook in hooks:
            hook.remove()
    found = []
    for name, uses in grouped.items():
        with torch.enable_grad(), present(modules[name]):
            found.append(_unit(name, modules[name], tuple(uses), *calls[name], probe))
    return found


def unit_name(model: nn.Module, handle: SiteHandle) -> str:
    """Name of the smallest module around both the attention and its projection.

    Parameters
    ----------
    model
        The model.
    handle
        The site.
    """
    owner: str = next(name for name, part in model.named_modules() if part is handle.owner)
    if handle.site.projection.startswith(f"{owner}."):
        return owner
    common: list[str] = []
    for left, right in zip(owner.split("."), handle.site.projection.split("."), strict=False):
        if left != right:
            break
        common.append(left)
    return ".".join(common)


def _unit(
    name: str,
    module: nn.Module,
    handles: tuple[SiteHandle, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    probe: Probe,
) -> TracedAttention:
    handle = handles[0]
    weights = {
        key: value.detach().requires_grad_(value.is_floating_point())
        for key, value in module.named_parameters()
    }
    arguments = {key: _leaf(value) for key, value in kwargs.items() if _is_float(value)}
    given = {key: None if _is_cache(value) else value for key, value in kwargs.items()} | arguments
    outputs: dict[str, Tensor] = {}
    calls: Counter[str] = Counter()

    def note(key: str) -> Any:
        def hook(part: nn.Module, args: Any, output: Tensor) -> None:
            outputs[key] = output
            calls[key] += 1

        return hook

    hooks = [
        part.register_forward_hook(note(key))
        for key, part in module.named_modules()
        if is_linear(part) and part is not handle.module
    ]
    hooks.append(handle.module.register_forward_pre_hook(_stop, prepend=True))
    try:
        with AttentionWatch(lambda probabilities: probabilities):
            torch.func.functional_call(
                module, weights, tuple(None if _is_cache(a) else a for a in args), given
            )
        raise AssertionError(f"{name} did not call its projection")
    except _Reached as reached:
        contexts = handle.split(reached.projected, probe.batch)
    finally:
        for hook in hooks:
            hook.remove()
    prefix = f"{name}." if name else ""
    by_output = _per_head(contexts, outputs)
    in_weights: dict[str, PerHead | None] = {}
    for key, output in outputs.items():
        if calls[key] == 1:
            in_weights |= _rows(key, module.get_submodule(key), output, by_output.get(key))
    others = {key: value for key, value in weights.items() if key not in in_weights}
    in_weights |= _per_head(contexts, others)
    return TracedAttention(
        name=name,
        module=module,
        handles=handles,
        parameters={
            f"{prefix}{key}": part for key in weights if (part := in_weights.get(key)) is not None
        },
        outputs={f"{prefix}{key}": part for key, part in by_output.items()},
        arguments={key: part for key, part in _per_head(contexts, arguments).items() if part},
    )


def _rows(
    key: str, part: nn.Module, output: Tensor, found: PerHead | None
) -> dict[str, PerHead | None]:
    """Attribute the weights of a plain linear layer as its outputs, which cost far less to mark."""
    plain = type(part) is nn.Linear
    if not plain and type(part).__name__ != "Conv1D":
        return {}
    if found is None:
        return {f"{key}.weight": None, f"{key}.bias": None}
    if found.axis != output.ndim - 1:
        return {}
    axis = 0 if plain else 1  # GPT-2's is transposed
    return {f"{key}.weight": PerHead(axis, found.heads), f"{key}.bias": PerHead(0, found.heads)}


def _per_head(contexts: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, PerHead | None]:
    """Attribute tensors to the heads whose outputs [B, T, H, D] depend on them.

    Tensors that no head depends on are left out.
    """
    reading = {key: value for key, value in tensors.items() if value.requires_grad}
    if not reading:
        return {}
    # By tensor and axis, which slices each head reads: [H, slices]. Whole masks would take as much
    # memory as the weights, for every head.
    slices: dict[str, list[list[Tensor]]] = {
        key: [[] for _ in value.shape] for key, value in reading.items()
    }
    for head in range(contexts.shape[2]):
        mark = torch.zeros_like(contexts)
        mark[:, :, head] = torch.nan
        gradients = torch.autograd.grad(
            contexts, list(reading.values()), mark, retain_graph=True, allow_unused=True
        )
        for (key, tensor), gradient in zip(reading.items(), gradients, strict=True):
            read = torch.zeros_like(tensor) if gradient is None else gradient
            for axis, found in enumerate(slices[key]):
                found.append(_any_nan(read, axis))
    stacked = {key: [torch.stack(found) for found in axes] for key, axes in slices.items()}
    return {key: _axis(axes) for key, axes in stacked.items() if axes and axes[0].any()}


def _any_nan(tensor: Tensor, axis: int) -> Tensor:
    """Which slices of an axis hold NaN, which a sum keeps."""
    others = [i for i in range(tensor.ndim) if i != axis]
    return (tensor.sum(dim=others) if others else tensor).isnan()


def _axis(axes: Sequence[Tensor]) -> PerHead | None:
    """Find the axis along which heads differ in what they read, of [H, slices] for each.

    A single head has nothing to differ from; it reads one slice of several.
    """
    for axis, slices in enumerate(axes):
        alone = len(slices) == 1 and slices.shape[1] > 1 and slices.sum() == 1
        if alone or (slices != slices[:1]).any():
            return PerHead(axis, slices.T.cpu().numpy())
    return None


def _stop(module: nn.Module, args: tuple[Any, ...]) -> None:
    raise _Reached(args[0])


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _leaf(value: Tensor) -> Tensor:
    return value.detach().clone().requires_grad_()


def _is_cache(value: Any) -> bool:
    """Whether an argument is a transformers cache, which a second call would add to."""
    return hasattr(value, "update") and hasattr(value, "get_seq_length")
