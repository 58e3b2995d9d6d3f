"""The changes that remove heads from a model: written down, read back and carried out.

A plan names modules and parameters of the model and can be carried out on any copy of it, trained
or freshly built. That is how a pruned model is loaded again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from headtool.attention.discovery import is_linear
from headtool.attention.weights import replace_module, replace_weight, stored
from headtool.errors import HeadtoolError
from headtool.surgery.modules import (
    BiasOnly,
    ConfigView,
    HeadArguments,
    Nothing,
    RepeatingLinear,
    SharedBias,
    hide,
)

__all__ = ["EmptyAttention", "Plan", "Ranges", "carry_out", "ranges", "sizes"]

Ranges = list[tuple[int, int]]
"""Increasing indices as half-open ranges."""

_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "heads": ("num_heads", "n_heads", "n_head", "num_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "kv_heads"),
    "groups": ("num_key_value_groups",),
    "width": ("all_head_size", "embed_dim", "inner_dim", "split_size"),
    "kv_width": ("kv_dim",),
}
"""Names of the numbers in attention modules. A wrong guess would not pass the comparison."""


@dataclass(frozen=True)
class EmptyAttention:
    """An attention that loses all its heads.

    Attributes
    ----------
    owner
        The module that computes the attention.
    projection
        Its output projection; only the bias stays.
    inputs
        The linear layers before it, with the width of the zeros that they put out instead.
    """

    owner: str
    projection: str
    inputs: Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    """The changes that remove some heads, all by names in the model.

    Attributes
    ----------
    slices
        Parameters that become smaller: the axis, and what stays of it.
    numbers
        Per module, attributes (also of its own view of the configuration, ``config.NAME``).
    arguments
        Per module, the arguments with slices per head: axis, heads there, and the heads to keep;
        None for an argument that the layer must make itself.
    biases
        Per module with a position bias that layers share, the slices that it uses itself.
    repeats
        Projections of unevenly shared keys and values: which of their outputs each output is.
    empty
        Attention that loses all heads.
    biases_added
        Output projections without a bias that get one, for constants of heads that are gone.
    """

    slices: Mapping[str, tuple[int, Ranges]] = field(default_factory=dict)
    numbers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, tuple[int, int, Sequence[int]] | None]] = field(
        default_factory=dict
    )
    biases: Mapping[str, Sequence[int]] = field(default_factory=dict)
    repeats: Mapping[str, Sequence[int]] = field(default_factory=dict)
    empty: Sequence[EmptyAttention] = ()
    biases_added: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Plan:
        """Read what `to_json` returned."""
        parts = dict(document)
        parts["empty"] = [EmptyAttention(**part) for part in parts["empty"]]
        return cls(**parts)


def ranges(indices: Sequence[int]) -> Ranges:
    """Write increasing indices as half-open ranges."""
    found: Ranges = []
    for index in indices:
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return found


def sizes(owner: nn.Module, *, heads: int, kv_heads: int, head_dim: int) -> dict[str, int]:
    """Find the attributes from which a module knows its number of heads.

    Parameters
    ----------
    owner
        The module.
    heads, kv_heads
        Query heads, and heads of keys and values.
    head_dim
        Width of a head.

    Returns
    -------
    dict
        New values by attribute; only attributes that the module has.
    """
    values = {
        "heads": heads,
        "kv_heads": kv_heads,
        "groups": heads // kv_heads,
        "width": heads * head_dim,
        "kv_width": kv_heads * head_dim,
    }
    names = {name: values[role] for role, names in _NUMBERS.items() for name in names}
    own = {name: value for name, value in names.items() if type(vars(owner).get(name)) is int}
    # Some read the number of heads from the configuration as they run.
    code = inspect.unwrap(type(owner).forward).__code__.co_names
    return own | {
        f"config.{name}": value
        for name, value in names.items()
        if name in code and name not in own and hasattr(vars(owner).get("config"), name)
    }


def carry_out(plan: Plan, model: nn.Module) -> None:
    """Change a model as planned.

    Parameters
    ----------
    plan
        The plan.
    model
        The model to change, in place.

    Raises
    ------
    HeadtoolError
        If the model is not the one that the plan was made for.
    """
    try:
        for name in plan.biases_added:
            _add_bias(model.get_submodule(name))
        for name, (axis, kept) in plan.slices.items():
            _slice(model, name, axis, kept)
        for name, index in plan.repeats.items():
            linear = model.get_submodule(name)
            if not isinstance(linear, nn.Linear):
                raise AttributeError(f"{name} is a {type(linear).__name__}")
            replace_module(model, name, RepeatingLinear(linear, index))
        for name, numbers in plan.numbers.items():
            _set_numbers(model.get_submodule(name), numbers)
        for name, arguments in plan.arguments.items():
            _narrow_arguments(model.get_submodule(name), arguments)
        for name, slices in plan.biases.items():
            _share_bias(model.get_submodule(name), slices)
        for attention in plan.empty:
            _empty(model, attention)
    except (AttributeError, IndexError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise HeadtoolError(
            f"the record of removed heads does not fit the model: {reason[:200]}"
        ) from error


def _slice(model: nn.Module, name: str, axis: int, kept: Ranges) -> None:
    path, _, leaf = name.rpartition(".")
    module = model.get_submodule(path)
    old = module.get_parameter(leaf)
    if kept[-1][1] > old.shape[axis]:
        raise IndexError(f"{name} has the shape {tuple(old.shape)}")
    whole = stored(module, leaf)
    if not whole.is_floating_point():
        raise TypeError(f"{name} is quantised")
    index = torch.cat([torch.arange(*part, device=whole.device) for part in kept])
    value = whole.index_select(axis, index).contiguous()
    replace_weight(module, leaf, value)
    if leaf != "weight":
        return
    if isinstance(module, nn.Linear):
        module.out_features, module.in_features = value.shape
    elif is_linear(module):  # GPT-2's, which is transposed
        vars(module).update(nx=value.shape[0], nf=value.shape[1])
    elif isinstance(module, nn.Embedding):
        module.num_embeddings, module.embedding_dim = value.shape


def _add_bias(module: nn.Module) -> None:
    weight = module.get_parameter("weight")  # a linear layer's; GPT-2's transposed ones have biases
    zeros = torch.zeros(len(weight), dtype=weight.dtype, device=weight.device)
    module.bias = nn.Parameter(zeros, requires_grad=weight.requires_grad)


def _set_numbers(module: nn.Module, numbers: Mapping[str, int]) -> None:
    of_config = {name.partition(".")[2]: value for name, value in numbers.items() if "." in name}
    for name, value in numbers.items():
        if "." not in name:
            setattr(module, name, value)
    if of_config:
        config = vars(module)["config"]
        original = vars(config)["_config"] if isinstance(config, ConfigView) else config
        vars(module)["config"] = ConfigView(original, of_config)


def _narrow_arguments(
    module: nn.Module, kept: Mapping[str, tuple[int, int, Sequence[int]] | None]
) -> None:
    hook = _installed(module._forward_pre_hooks.values(), HeadArguments)
    if hook is None:
        module.register_forward_pre_hook(HeadArguments(kept), with_kwargs=True)
    else:
        hook.kept = kept


def _share_bias(module: nn.Module, kept: Sequence[int]) -> None:
    bound = (getattr(hook, "__self__", None) for hook in module._forward_pre_hooks.values())
    hook = _installed(bound, SharedBias)
    if hook is not None:
        hook.kept = kept
        return
    hook = SharedBias(kept)
    module.register_forward_pre_hook(hook.before, with_kwargs=True)
    module.register_forward_hook(hook.after, always_call=True)
    table = getattr(module, "relative_attention_bias", None)
    if table is not None:
        table.register_forward_hook(hook.looked_up)


def _installed(hooks: Any, kind: Callable[..., Any]) -> Any:
    return next((hook for hook in hooks if type(hook) is kind), None)


def _empty(model: nn.Module, attention: EmptyAttention) -> None:
    for name, width in attention.inputs.items():
        model.set_submodule(name, Nothing(width))
    projection: Any = model.get_submodule(attention.projection)
    width = projection.nf if hasattr(projection, "nf") else projection.out_features
    replace_module(model, attention.projection, BiasOnly(projection.bias, width))
    hide(model.get_submodule(attention.owner))
