"""Other forward functions for a while: modules that answer what is known, or are looked into."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

__all__ = ["answering", "patched"]


@contextlib.contextmanager
def patched(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Give one module another forward function inside.

    Parameters
    ----------
    module
        The module; its class stays as it is.
    forward
        The function.
    """
    before = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = before


def answering(module: nn.Module, output: Any) -> contextlib.AbstractContextManager[None]:
    """Let a module put out what is known inside, whatever it is given.

    Parameters
    ----------
    module
        The module.
    output
        What it puts out.
    """
    return patched(module, lambda *args, **kwargs: output)
