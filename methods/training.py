"""What training gates and training from scratch share: batches, the loss, and a training mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.gating import Gating
from headtool.engine.evaluation import finite_forward
from headtool.models.base import Examples, ModelAdapter

__all__ = ["loss_per_token", "shuffled", "training"]


def shuffled(count: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Batches of indices, for ever; each pass over the data has an order of its own."""
    rng = np.random.default_rng([seed, 2])
    while True:
        order = rng.permutation(count)
        yield from (np.sort(order[start : start + size]) for start in range(0, count, size))


def loss_per_token(
    model: ModelAdapter,
    examples: Examples,
    index: NDArray[np.int64],
    gating: Gating,
    *,
    label_smoothing: float,
) -> Tensor:
    """Mean loss over the scored tokens of some examples, under gates; differentiable."""
    batch = model.collate(examples, index)
    with model.intercept(gating, batch):
        result = finite_forward(model, batch, examples, label_smoothing=label_smoothing)
    return result.losses.sum() / result.columns["tokens"].sum()


@contextlib.contextmanager
def training(module: nn.Module, weights: Sequence[nn.Parameter], *, seed: int) -> Iterator[None]:
    """Let only `weights` take gradients, with dropout where there are any; undone afterwards.

    Without weights to train the model stays in evaluation mode: dropout would only blur what the
    gates are told.
    """
    asked = [(weight, weight.requires_grad) for weight in module.parameters()]
    for weight, _ in asked:
        weight.requires_grad_(False)
    for weight in weights:
        weight.requires_grad_(True)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module.train(bool(weights))
        try:
            with torch.enable_grad():
                yield
        finally:
            module.eval()
            for weight, before in asked:
                weight.requires_grad_(before)
                weight.grad = None
