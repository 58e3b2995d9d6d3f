"""Shared by training gates and training from scratch: batches, the loss, and a training mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.gating import Gating
from headtool.engine.passes import finite_forward
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

__all__ = ["loss_per_token", "shuffled", "training"]


def shuffled(count: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield batches of example indices without end, in a new order for each pass over the data.

    Parameters
    ----------
    count
        Number of examples.
    size
        Examples in a batch; the last batch of a pass may be smaller.
    seed
        Seed of the orders.

    Yields
    ------
    ndarray
        Indices in ascending order, shape [size].
    """
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
    """Mean loss over the scored tokens of a batch, with gates on the heads; differentiable.

    Parameters
    ----------
    model, examples
        The model and its data set.
    index
        Which examples form the batch, shape [B].
    gating
        The gates.
    label_smoothing
        Label smoothing of the loss, in [0, 1).

    Returns
    -------
    Tensor
        In nats per token (classification: per example), a scalar.
    """
    batch = model.collate(examples, index)
    with model.intercept(gating, batch):
        result = finite_forward(model, batch, examples, label_smoothing=label_smoothing)
    return result.losses.sum() / result.columns["tokens"].sum()


@contextlib.contextmanager
def training(module: nn.Module, weights: Sequence[nn.Parameter], *, seed: int) -> Iterator[None]:
    """Let gradients reach only `weights`, and switch on dropout if there are any; undone on exit.

    Without weights to train, the model stays in evaluation mode: dropout would only add noise to
    the gradients of the gates.

    Parameters
    ----------
    module
        The model.
    weights
        Its parameters that are trained; may be empty.
    seed
        Seed of dropout. The global random state of torch is restored on exit.
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
