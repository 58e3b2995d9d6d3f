"""Models of the same configuration with weights drawn anew, as before any training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from headtool.attention.weights import check_trainable
from headtool.errors import HeadtoolError

__all__ = ["build_fresh"]

# What the libraries raise for a configuration that does not make a model.
_FAILURES = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def build_fresh(
    module: nn.Module, build: Callable[[], nn.Module], *, seed: int, spec: str
) -> nn.Module:
    """Build a like module from a seed, and check that it is one.

    Parameters
    ----------
    module
        The module whose like is built; left as it is.
    build
        Builds it, drawing from torch's random numbers.
    seed
        Seeds them.
    spec
        What to call the model in messages.

    Returns
    -------
    Module
        In evaluation mode, on the device and in the precision of `module`.

    Raises
    ------
    HeadtoolError
        If building fails, or gives weights of other names or shapes.
    """
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            built = build()
    except _FAILURES as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise _refusal(spec, reason[:200]) from error
    found, wanted = _shapes(built), _shapes(module)
    different = sorted(
        name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )
    if different:
        name = different[0]
        raise _refusal(
            spec,
            f"{name} would be {found.get(name, 'missing')}, and is {wanted.get(name, 'missing')}",
        )
    check_trainable(module, [n for n, _ in module.named_parameters()], spec=spec, what="a like one")
    like = dict(module.named_parameters()) | dict(module.named_buffers())
    for name, tensor in [*built.named_parameters(), *built.named_buffers()]:
        if name in like:
            tensor.data = tensor.data.to(like[name])
    return built.eval()


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in module.state_dict().items()}


def _refusal(spec: str, reason: str) -> HeadtoolError:
    return HeadtoolError(
        f"{spec} cannot be built anew from its configuration, so nothing can be trained from "
        f"scratch ({reason})"
    )
