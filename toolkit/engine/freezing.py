"""Weights that take no gradient while something else does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

__all__ = ["frozen"]


@contextlib.contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Take no gradients of weights inside; afterwards everything is as it was.

    Parameters
    ----------
    module
        The model.
    """
    trainable = [weight for weight in module.parameters() if weight.requires_grad]
    for weight in trainable:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in trainable:
            weight.requires_grad_(True)
