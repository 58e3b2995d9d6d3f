"""Where a model's weights are, and how to read them one by one.

A model that one device does not hold lives on several, and some of its weights wait on the CPU or
on disk until their layer runs (`accelerate` does this). Between calls such a weight is on torch's
meta device, which has shapes and no values. Nothing else in headtool needs to know.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections import ChainMap
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headtool.errors import HeadtoolError

__all__ = [
    "check_trainable",
    "copied",
    "home",
    "is_offloaded",
    "present",
    "replace_module",
    "replace_weight",
    "stored",
    "weight_of",
    "weights",
]


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
    value = stored(module.get_submodule(path), leaf)
    if value.device.type == "meta":
        raise HeadtoolError(
            f"{name} has no values: its module is offloaded in a way that cannot be read; give "
            "another `device_map`"
        )
    if not value.is_floating_point():
        raise HeadtoolError(
            f"{name} is quantised, and its values are needed; load the model without `load_in`"
        )
    return value


def stored(part: nn.Module, leaf: str) -> Tensor:
    """Return a parameter or buffer as it is stored, detached.

    Parameters
    ----------
    part
        The module that holds it.
    leaf
        Its name in the module.
    """
    known: Tensor = getattr(part, leaf)
    waiting = getattr(_hook(part), "weights_map", None)
    if known.device.type == "meta" and waiting is not None:
        known = waiting[leaf]
    return known.detach()


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
            yield name, stored(module.get_submodule(path), leaf) if offloaded else value


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
                value = stored(part, leaf).to(device)
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


def replace_weight(part: nn.Module, leaf: str, value: Tensor) -> None:
    """Give a module another parameter, of any shape; one that waited elsewhere waits on the CPU.

    Parameters
    ----------
    part
        The module that holds it.
    leaf
        The parameter's name in the module.
    value
        Its new value.
    """
    old = part.get_parameter(leaf)
    if old.device.type == "meta" and value.device.type != "meta":
        hook = _hook(part)
        hook.weights_map = ChainMap({leaf: value.cpu()}, hook.weights_map)
        value = value.to("meta")
    part._parameters[leaf] = nn.Parameter(value, requires_grad=old.requires_grad)


def replace_module(model: nn.Module, name: str, new: nn.Module) -> None:
    """Put another module in the place of one whose parameters it takes over.

    Parameters
    ----------
    model
        The model.
    name
        Name of the module in it.
    new
        The other module.
    """
    hook = getattr(model.get_submodule(name), "_hf_hook", None)
    model.set_submodule(name, new)
    if hook is not None:
        importlib.import_module("accelerate.hooks").add_hook_to_module(new, hook)


def copied(module: nn.Module, *, share: bool) -> nn.Module:
    """Copy a model.

    Parameters
    ----------
    module
        The model.
    share
        Let both have the same weights until one gets others (`replace_weight`): then neither may
        be trained. Weights that wait on the CPU or on disk are always shared.
    """
    memo: dict[int, Any] = {}
    for part in module.modules():
        for name in ("weights_map", "tied_params_map"):
            if (known := getattr(_hook(part), name, None)) is not None:
                memo[id(known)] = known
    if share:
        tensors = [*module.parameters(), *module.buffers()]
        memo |= {id(tensor): tensor for tensor in tensors}
    return copy.deepcopy(module, memo)


def check_trainable(module: nn.Module, names: Iterable[str], *, spec: str, what: str) -> None:
    """Refuse to train weights that are read as their layer runs, or quantised.

    Parameters
    ----------
    module
        The model.
    names
        Parameters that are to take gradients.
    spec
        What to call the model in messages.
    what
        What needs the gradients, such as the name of a method.

    Raises
    ------
    HeadtoolError
        Naming the first parameter that cannot take any.
    """
    for name in names:
        weight = module.get_parameter(name)
        if weight.device.type == "meta":
            raise HeadtoolError(
                f"{what} needs gradients of {name}, which {spec} keeps on the CPU or on disk "
                "between uses; load it without `device_map`, or with one that offloads nothing"
            )
        if not weight.is_floating_point():
            raise HeadtoolError(
                f"{what} needs gradients of {name}, which is quantised; load {spec} without "
                "`load_in`"
            )


def _hook(part: nn.Module) -> Any:
    """The hook of accelerate that places a module's weights; None where there is none."""
    hook = getattr(part, "_hf_hook", None)
    several = getattr(hook, "hooks", (hook,))
    return next((one for one in several if hasattr(one, "execution_device")), None)
