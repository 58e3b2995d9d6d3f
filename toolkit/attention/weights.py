"""Where a model's weights are, and how to read them one by one.

A model that one device does not hold lives on several, and some of its weights wait on the CPU or
on disk until their layer runs (`accelerate` does this). Between calls such a weight is on torch's
meta device, which has shapes and no values. Nothing else in headtool needs to know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headtool.errors import HeadtoolError

__all__ = ["home", "is_offloaded", "present", "weight_of", "weights"]


def home(module: nn.Module) -> torch.device:
    """Return the device that a model takes its input on, and gives its output.

    Parameters
    ----------
    module
        The model.
    """
    for part in module.modules():
        hook = _hook(part)
        if hook is not None and hook.execution_device is not None:
            return torch.device(hook.execution_device)
        for weight in part.parameters(recurse=False):
            if weight.device.type != "meta":
                return weight.device
    return torch.device("cpu")


def is_offloaded(module: nn.Module) -> bool:
    """Whether some weights are read only while their layer runs."""
    return any(weight.device.type == "meta" for weight in module.parameters())


def weight_of(module: nn.Module, name: str) -> Tensor:
    """Return the values of a parameter, wherever it is; it takes no gradient.

    Parameters
    ----------
    module
        The model, or a part of it.
    name
        The parameter's name in it.

    Raises
    ------
    HeadtoolError
        If the weights are quantised.
    """
    path, _, leaf = name.rpartition(".")
    part = module.get_submodule(path)
    value = _value(part, leaf, part.get_parameter(leaf).detach())
    if not value.is_floating_point():
        raise HeadtoolError(
            f"{name} is quantised, and its values are needed; load the model without `load_in`"
        )
    return value


def weights(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield all that the model's state holds, sorted by name, one tensor in memory at a time.

    Parameters
    ----------
    module
        The model.
    """
    for name, value in sorted(module.state_dict().items()):
        path, _, leaf = name.rpartition(".")
        if isinstance(value, Tensor):
            offloaded = value.device.type == "meta"
            yield name, _value(module.get_submodule(path), leaf, value) if offloaded else value


@contextlib.contextmanager
def present(module: nn.Module) -> Iterator[None]:
    """Keep the weights of a part of the model in memory while more than its own pass needs them.

    Parameters
    ----------
    module
        The part, such as one attention; on one device it is left alone.
    """
    waiting: list[tuple[nn.Module, str, nn.Parameter, Any]] = []
    hooks = []
    for part in module.modules():
        hook = _hook(part)
        if hook is None or not hook.offload:
            continue
        for leaf, weight in list(part.named_parameters(recurse=False)):
            if weight.device.type == "meta":
                device = torch.device(hook.execution_device)
                value = _value(part, leaf, weight).to(device)
                waiting.append((part, leaf, weight, value))
        hooks.append(hook)
    try:
        for hook in hooks:
            hook.offload = False  # else it would put other tensors in the place of these
        for part, leaf, weight, value in waiting:
            part._parameters[leaf] = nn.Parameter(value, requires_grad=weight.requires_grad)
        yield
    finally:
        for hook in hooks:
            hook.offload = True
        for part, leaf, weight, _ in waiting:
            part._parameters[leaf] = weight


def _hook(part: nn.Module) -> Any:
    """The hook of accelerate that places a module's weights; None where there is none."""
    hook = getattr(part, "_hf_hook", None)
    several = getattr(hook, "hooks", (hook,))
    return next((one for one in several if hasattr(one, "execution_device")), None)


def _value(part: nn.Module, leaf: str, known: Tensor) -> Tensor:
    """What a tensor holds that may be offloaded."""
    if known.device.type != "meta":
        return known
    hook = _hook(part)
    if hook is None or getattr(hook, "weights_map", None) is None:
        raise HeadtoolError(
            f"a weight {leaf} of {type(part).__name__} has no values: its module is offloaded in a "
            "way that cannot be read; give another `device_map`"
        )
    value: Tensor = hook.weights_map[leaf]
    return value
