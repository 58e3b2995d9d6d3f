"""Stand-ins for parts of a model, where making layers smaller is not enough.

They are needed where heads share keys and values unevenly, where an attention has no head left, and
where attention receives, or passes on, something with a slice for each head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headtool.attention.watching import pause_watching, resume_watching

__all__ = [
    "BiasOnly",
    "ConfigView",
    "HeadArguments",
    "Nothing",
    "RepeatingLinear",
    "SharedBias",
    "hide",
]


class RepeatingLinear(nn.Linear):
    """Projection of keys or values that heads share unevenly: repeats them, head by head.

    Attention code takes groups of equal size only. The parameters stay those of the groups.

    Parameters
    ----------
    linear
        The projection of the groups, whose parameters are taken over.
    index
        Which of its outputs each output is.
    """

    def __init__(self, linear: nn.Linear, index: Sequence[int]) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias = linear.weight, linear.bias
        self.in_features, self.out_features = linear.in_features, linear.out_features
        # No buffer: transformers would leave one that is in no checkpoint without values.
        self.index = torch.tensor(index, device="cpu")

    def forward(self, input: Tensor) -> Tensor:
        """Project, then repeat."""
        if self.index.device != input.device:
            self.index = self.index.to(input.device)
        return super().forward(input).index_select(-1, self.index)


class Nothing(nn.Module):
    """Projection of an attention without heads: zeros of the width that its code expects."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    @property
    def weight(self) -> Tensor:
        """An empty weight, for libraries that initialise every module that was a projection."""
        return torch.empty(0)

    def forward(self, input: Tensor) -> Tensor:
        """Return zeros, whatever the input."""
        return input.new_zeros(*input.shape[:-1], self.width)


class BiasOnly(nn.Module):
    """Output projection of an attention without heads: its bias is all that is left.

    Parameters
    ----------
    bias
        The bias; None for zeros.
    width
        Width of the output.
    """

    def __init__(self, bias: nn.Parameter | None, width: int) -> None:
        super().__init__()
        self.bias = bias
        self.width = width

    @property
    def weight(self) -> Tensor:
        """An empty weight; see `Nothing`."""
        return torch.empty(0)

    def forward(self, input: Tensor) -> Tensor:
        """Return the bias for every token."""
        output = input.new_zeros(*input.shape[:-1], self.width)
        return output if self.bias is None else output + self.bias


class ConfigView:
    """A configuration as one layer sees it, with some values of its own.

    Everything else is read from the model's configuration when it is asked for, so that settings
    such as the attention implementation still reach the layer.

    Parameters
    ----------
    config
        The model's configuration.
    own
        The layer's own values by name.
    """

    def __init__(self, config: Any, own: Mapping[str, int]) -> None:
        self.__dict__.update({"_config": config, **own})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_config" not in self.__dict__:  # as when it is being copied
            raise AttributeError(name)
        return getattr(self.__dict__["_config"], name)


@dataclass
class HeadArguments:
    """Forward pre-hook that passes on, of arguments with a slice per head, those of kept heads.

    Position biases that the model computes once for all layers are such arguments.

    Attributes
    ----------
    kept
        By the argument's name: its axis, how many heads that has, and which of them to keep. The
        axis may hold the heads of each example one after the other. None: the argument is left out.
    """

    kept: Mapping[str, tuple[int, int, Sequence[int]] | None]

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Narrow the arguments."""
        chosen = dict(kwargs)
        for name, narrowed in self.kept.items():
            value = chosen.get(name)
            if narrowed is None:
                chosen[name] = None
            elif isinstance(value, Tensor) and value.shape[narrowed[0]] % narrowed[1] == 0:
                chosen[name] = _take_heads(value, *narrowed)
        return args, chosen


def _take_heads(value: Tensor, axis: int, heads: int, kept: Sequence[int]) -> Tensor:
    """Keep some heads' slices of an axis; see `HeadArguments`."""
    index = torch.tensor(kept, device=value.device)
    starts = torch.arange(0, value.shape[axis], heads, device=value.device)
    return value.index_select(axis, (starts[:, None] + index).flatten())


@dataclass
class SharedBias:
    """Hooks for an attention whose position bias other layers use as well (T5).

    It computes the bias, or gets it from the layer before, with a slice for every head that any
    layer needs, uses its own heads' slices, and must hand on all of them.

    Attributes
    ----------
    kept
        The slices that belong to this layer's heads.
    full
        The bias of the forward pass that is under way, with all slices; None between passes.
    """

    kept: Sequence[int]
    full: Tensor | None = None

    def before(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Forward pre-hook: narrow the bias that comes in.

        Parameters
        ----------
        module
            The attention.
        args, kwargs
            The arguments of its forward pass.
        """
        self.full = kwargs.get("position_bias")
        if self.full is None:
            return args, kwargs
        return args, {**kwargs, "position_bias": self.full[:, list(self.kept)]}

    def looked_up(self, module: nn.Module, args: Any, values: Tensor) -> Tensor:
        """Forward hook of the table of biases: keep the slices of the layer's heads.

        Parameters
        ----------
        module
            The table.
        args
            Its arguments.
        values
            What was looked up, shape [T, S, H].
        """
        self.full = values.permute(2, 0, 1)[None]
        return values[..., list(self.kept)]

    def after(self, module: nn.Module, args: Any, output: tuple[Any, ...] | None) -> Any:
        """Forward hook: hand on the whole bias.

        Parameters
        ----------
        module
            The attention.
        args
            The arguments of its forward pass.
        output
            What it returned; None where it raised.
        """
        whole, self.full = self.full, None
        return None if output is None else (output[0], whole, *output[2:])


def hide(owner: nn.Module) -> None:
    """Keep attention without heads out of what discovery sees."""
    owner.register_forward_pre_hook(_pause)
    owner.register_forward_hook(_resume, always_call=True)


def _pause(module: nn.Module, args: Any) -> None:
    pause_watching()


def _resume(module: nn.Module, args: Any, output: Any) -> None:
    resume_watching()
