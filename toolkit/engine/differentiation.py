"""Second primitive: the derivative of each example's loss with respect to every head's gate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.engine.evaluation import finite_forward
from headtool.heads import AttentionSite, Sites
from headtool.models.base import Examples, ModelAdapter
from headtool.progress import Progress, silent

__all__ = ["Gradients", "differentiate", "frozen"]


@dataclass(frozen=True)
class Gradients:
    """Derivatives with respect to gates of one, per example.

    With ``s[b, h, t]`` the inner product of head h's output at query token t and the gradient of
    example b's loss with respect to it, padding left out:

    Attributes
    ----------
    sites
        The sites, which order the heads.
    per_example
        ``dL_b/dxi_h = sum_t s[b, h, t]``, shape [N, heads].
    token_magnitude
        ``sum_t |s[b, h, t]|``, shape [N, heads].
    tokens
        Real query tokens of example b at head h's site, shape [N, heads].
    losses
        L_b, shape [N].
    """

    sites: Sites
    per_example: NDArray[np.float64]
    token_magnitude: NDArray[np.float64]
    tokens: NDArray[np.float64]
    losses: NDArray[np.float64]


def differentiate(
    model: ModelAdapter, examples: Examples, *, progress: Progress = silent
) -> Gradients:
    """Differentiate every example's loss with one backward pass a batch.

    Each query token of each example has its own gate at every head, so one backward pass gives
    ``s`` for a whole batch, exactly, at any batch size. Weights take no gradient meanwhile.

    Raises
    ------
    HeadtoolError
        If a loss is not a finite number.
    """
    sites, count = model.sites, len(examples)
    per_example = np.zeros((count, sites.n_heads))
    magnitude = np.zeros((count, sites.n_heads))
    tokens = np.zeros((count, sites.n_heads))
    losses = np.zeros(count)
    batches = examples.batches()
    with frozen(model.module):
        for index in progress(batches, total=len(batches), label="gradients"):
            batch = model.collate(examples, index)
            gates: dict[AttentionSite, Tensor] = {}

            def gate(
                site: AttentionSite,
                contexts: Tensor,
                gates: dict[AttentionSite, Tensor] = gates,
            ) -> Tensor:
                gates[site] = contexts.new_ones(contexts.shape[:3], requires_grad=True)
                return contexts * gates[site][..., None]

            with torch.enable_grad(), model.intercept(gate, batch):
                result = finite_forward(model, batch, examples)
                gradients = torch.autograd.grad(
                    result.losses.sum(), list(gates.values()), allow_unused=True
                )
            losses[index] = result.losses.detach().double().cpu().numpy()
            for site, gradient in zip(gates, gradients, strict=True):
                real = batch.queries[site.kind].real
                columns = sites.columns(site)
                tokens[index, columns] = real.sum(dim=1, keepdim=True).cpu().numpy()
                if gradient is not None:
                    s = gradient.double() * real[..., None]
                    per_example[index, columns] = s.sum(dim=1).cpu().numpy()
                    magnitude[index, columns] = s.abs().sum(dim=1).cpu().numpy()
    return Gradients(sites, per_example, magnitude, tokens, losses)


@contextlib.contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Take no gradients of weights inside; afterwards everything is as it was."""
    trainable = [weight for weight in module.parameters() if weight.requires_grad]
    for weight in trainable:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in trainable:
            weight.requires_grad_(True)
