"""Keep heads closed while other code runs the model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headtool.attention.gating import SiteHandle
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask

__all__ = ["closing"]


@contextlib.contextmanager
def closing(handles: Sequence[SiteHandle], mask: HeadMask, *, spec: str) -> Iterator[None]:
    """Keep the closed heads of a mask at zero in every forward pass inside.

    Scoring methods run inside as they would on a model without these heads: gates, ablations and
    gradients all meet a head that puts out zero.

    Parameters
    ----------
    handles
        The attention sites of the model, whose weights are not touched; nothing stays attached.
    mask
        Which heads are open.
    spec
        What to call the model in messages.

    Raises
    ------
    HeadtoolError
        If layers with closed heads share their weights, so that one cannot be told from another.
    """
    with contextlib.ExitStack() as stack:
        for handle in handles:
            is_open = mask.at(handle.site)
            if is_open.all():
                continue
            if handle.calls > 1:
                raise HeadtoolError(
                    f"the layers of {spec} share their weights, so that heads cannot be kept "
                    "closed in one of them while others are scored; leave `iterative` out"
                )
            gates = torch.from_numpy(is_open).repeat_interleave(handle.site.head_dim)
            hook = handle.module.register_forward_pre_hook(_Gate(gates))
            stack.callback(hook.remove)
        yield


class _Gate:
    """Multiply the input of an output projection, whose last axis runs over heads, by gates."""

    def __init__(self, gates: Tensor) -> None:
        self.gates = gates

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0] * self.gates.to(args[0]), *args[1:])
