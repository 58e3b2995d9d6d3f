"""Count the passes that really ran, whoever ran them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from headtool.models.base import ModelAdapter

__all__ = ["Tally", "tally"]


@dataclass
class Tally:
    """What ran while it was counted, in tokens at attention sites.

    Attributes
    ----------
    forward, backward
        Tokens that went through the output projections of the sites, and gradients that came back.
    """

    forward: int = 0
    backward: int = 0


@contextlib.contextmanager
def tally(model: ModelAdapter) -> Iterator[Tally]:
    """Count the forward and backward passes through a model's attention.

    Counting at each site counts a pass that starts in the middle of the model for the part that it
    runs, padding included.

    Parameters
    ----------
    model
        The model.

    Yields
    ------
    Tally
        Grows while passes run inside.
    """
    found = Tally()

    def note(module: nn.Module, args: Any, output: Tensor) -> None:
        tokens = output.numel() // output.shape[-1]
        found.forward += tokens

        def came_back(gradient: Tensor) -> None:
            found.backward += tokens

        if output.requires_grad:
            output.register_hook(came_back)  # type: ignore[no-untyped-call]

    modules = {handle.module: None for handle in model.handles}
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(note).remove)
        yield found
