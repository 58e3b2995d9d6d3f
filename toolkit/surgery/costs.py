"""What a model costs: parameters and floating-point operations, in total and in its attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headtool.attention.probing import Probe

__all__ = ["Costs", "count_costs"]


@dataclass(frozen=True)
class Costs:
    """Parameters, and operations of one forward pass (a multiplication and an addition are two).

    Attributes
    ----------
    parameters, attention_parameters
        Shared weights count once.
    flops, attention_flops
        Of matrix products, counted as they run.
    """

    parameters: int
    attention_parameters: int
    flops: int
    attention_flops: int


def count_costs(module: nn.Module, attention: Sequence[str], probe: Probe) -> Costs:
    """Count a model's parameters, and its operations on a forward pass.

    Parameters
    ----------
    module
        The model.
    attention
        Names of the modules that hold its attention with all projections.
    probe
        The forward pass.
    """
    parts = [module.get_submodule(name) for name in attention]
    inside = {id(weight) for part in parts for weight in part.parameters()}
    weights = list(module.parameters())
    counter = FlopCounterMode(display=False)
    spent: list[int] = []
    started: list[int] = []

    def start(part: nn.Module, args: Any) -> None:
        started.append(counter.get_total_flops())

    def stop(part: nn.Module, args: Any, output: Any) -> None:
        spent.append(counter.get_total_flops() - started.pop())

    hooks = [part.register_forward_pre_hook(start) for part in parts]
    hooks += [part.register_forward_hook(stop) for part in parts]
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
            probe.run()
    finally:
        for hook in hooks:
            hook.remove()
    return Costs(
        parameters=sum(weight.numel() for weight in weights),
        attention_parameters=sum(weight.numel() for weight in weights if id(weight) in inside),
        flops=counter.get_total_flops(),
        attention_flops=sum(spent),
    )
