"""The same model with biases in its attention, where its architecture has an option for them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

__all__ = ["biased"]

_OPTION = "attention_bias"  # of Llama and those that took its configuration over


def biased(module: nn.Module, projections: Sequence[str]) -> nn.Module | None:
    """Build a model of transformers again with zeros for biases in its attention.

    Parameters
    ----------
    module
        The model, which stays as it is.
    projections
        Names of the output projections that must have a bias then.

    Returns
    -------
    torch.nn.Module or None
        Computes the same and loads with ``from_pretrained``; None if the configuration has no
        option for such biases.
    """
    config: Any = copy.deepcopy(getattr(module, "config", None))
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    if getattr(inner, _OPTION, None) is not False:
        return None
    setattr(inner, _OPTION, True)
    weight = next(module.parameters())
    with torch.random.fork_rng():
        made: nn.Module = type(module)(config)
    made.to(device=weight.device, dtype=weight.dtype)
    missing, unexpected = made.load_state_dict(module.state_dict(), strict=False)
    if unexpected or not all(name.endswith(".bias") for name in missing):
        return None
    for name in missing:
        nn.init.zeros_(made.get_parameter(name))
    have = all(getattr(made.get_submodule(name), "bias", None) is not None for name in projections)
    return made.eval() if have else None
