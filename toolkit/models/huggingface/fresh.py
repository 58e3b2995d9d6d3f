"""Models of transformers with weights drawn anew."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from headtool.models.fresh import build_fresh
from headtool.models.huggingface.pruned import pruned_class

__all__ = ["fresh_huggingface"]


def fresh_huggingface(module: nn.Module, *, seed: int, spec: str) -> nn.Module:
    """Build a transformers model of a module's class and configuration.

    Parameters
    ----------
    module
        The model, which may be pruned; left as it is.
    seed
        Seed of the weights.
    spec
        What to call it in messages.

    Raises
    ------
    HeadtoolError
        If that does not give a model with weights of the same names and shapes.
    """

    def build() -> nn.Module:
        original: Any = module
        kind: Any = pruned_class(original.config, spec) or type(module)
        built: Any = kind(copy.deepcopy(original.config))
        if hasattr(original, "generation_config"):  # how it decodes is no matter of weights
            built.generation_config = copy.deepcopy(original.generation_config)
        return built  # type: ignore[no-any-return]

    return build_fresh(module, build, seed=seed, spec=spec)
