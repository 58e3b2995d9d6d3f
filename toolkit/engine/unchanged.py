"""Finds what a decoder computes from the encoder's output alone: keys and values, usually.

No head of the decoder changes them, so that they need not be computed again for its masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["unchanged_layers"]


def unchanged_layers(
    blocks: Sequence[nn.Module], run: Callable[[], object], again: Callable[[], object]
) -> dict[nn.Module, Tensor]:
    """Linear layers in some blocks whose input does not depend on the blocks' hidden states.

    Parameters
    ----------
    blocks
        Layers of a decoder, each of which gets its hidden states first or as `hidden_states`.
    run
        A forward pass.
    again
        The same pass, which is run with noise on the hidden states of the blocks.

    Returns
    -------
    dict
        Such layers with their outputs in the first pass; none where the noise does not reach every
        block.
    """
    plain = _seen(blocks, run, noise=False)
    try:
        noisy = _seen(blocks, again, noise=True)
    except (RuntimeError, KeyError, TypeError, AttributeError):
        return {}  # the model's code cannot take the noise; all is computed in full
    found: dict[nn.Module, Tensor] = {}
    for block in blocks:
        layers = [part for part in block.modules() if isinstance(part, nn.Linear)]
        same = [
            part
            for part in layers
            if len(plain[part]) == len(noisy[part]) == 1
            and torch.equal(plain[part][0][0], noisy[part][0][0])
        ]
        if len(same) == len(layers):
            return {}
        found |= {part: plain[part][0][1] for part in same}
    return found


def _seen(
    blocks: Sequence[nn.Module], run: Callable[[], object], *, noise: bool
) -> dict[nn.Module, list[tuple[Tensor, Tensor]]]:
    """What the linear layers of the blocks are given, and what they make of it."""
    seen: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {
        part: [] for block in blocks for part in block.modules() if isinstance(part, nn.Linear)
    }
    generator = torch.Generator().manual_seed(0)

    def keep(part: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        seen[part].append((args[0], output))

    def disturb(
        block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args:
            return (_disturbed(args[0], generator), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": _disturbed(kwargs["hidden_states"], generator)}

    hooks = [part.register_forward_hook(keep) for part in seen]
    if noise:
        hooks += [block.register_forward_pre_hook(disturb, with_kwargs=True) for block in blocks]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _disturbed(hidden: Tensor, generator: torch.Generator) -> Tensor:
    return hidden + torch.randn(hidden.shape, generator=generator).to(hidden)
