"""Second primitive: the derivative of each example's loss with respect to every head's gate."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.engine.counting import unit_work
from headtool.engine.freezing import frozen
from headtool.engine.passes import finite_forward
from headtool.engine.replacement import Fill
from headtool.engine.stepping import Stepping, joined
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_turn, run_units
from headtool.heads import AttentionSite, Sites
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, silent
from headtool.work import Passes

__all__ = ["Gradients", "Rules", "differentiate"]

Rules = Callable[[], contextlib.AbstractContextManager[None]]
"""Makes a context in which forward passes get changed gradients."""

_PER_HEAD = ("per_example", "token_magnitude", "tokens")


@dataclass(frozen=True)
class Gradients:
    """Derivatives with respect to the heads' gates, per example.

    With ``s[b, h, t]`` the inner product of head h's output at query token t (less what it puts out
    when closed) and the gradient of example b's loss with respect to it, padding left out:

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
    model: ModelAdapter,
    examples: Examples,
    *,
    gate: float = 1.0,
    fill: Fill | None = None,
    rules: Rules = contextlib.nullcontext,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> Gradients:
    """Differentiate every example's loss with one backward pass a batch.

    With a gate xi on it, a head puts out ``xi ctx + (1 - xi) z``. The gradient with respect to that
    output gives ``s`` for a whole batch, exactly, at any batch size. Weights take no gradient
    meanwhile.

    Parameters
    ----------
    model
        The model; its weights stay as they are.
    examples
        The N examples, as ``model.encode`` returned them.
    gate
        Where all gates stand: 1 is the whole model.
    fill
        What closed heads put out, z; None for zero.
    rules
        Makes the context that forward passes run in; it may change gradients.
    execute
        Who runs the units, a batch each.
    progress
        Reports progress.

    Raises
    ------
    HeadtoolError
        If a loss is not a finite number.

    Examples
    --------
    >>> from headtool import differentiate
    >>> from headtool import load_data, load_model
    >>> model = load_model("builtin:nli", device="cpu")
    >>> examples = model.encode(load_data("builtin:nli/matched", limit=4))
    >>> differentiate(model, examples).per_example.shape
    (4, 32)
    """
    sites, count = model.sites, len(examples)
    found = {name: np.zeros((count, sites.n_heads)) for name in _PER_HEAD}
    losses = np.zeros(count)
    with frozen(model.module):
        for unit, result in run_units(
            cut(examples.batches()),
            lambda: Stepping(
                partial(_gradients, model, examples, gate, fill, rules),
                joined(0),
                model,
                examples,
                "gradients",
            ),
            label="gradients",
            execute=execute,
            progress=progress,
            work=unit_work(examples, Passes(forward=1, backward=1)),
        ):
            losses[unit.examples] = result["losses"]
            for name, values in found.items():
                values[unit.examples] = result[name]
    return Gradients(sites, losses=losses, **found)


def _gradients(
    model: ModelAdapter,
    examples: Examples,
    gate: float,
    fill: Fill | None,
    rules: Rules,
    unit: Unit,
) -> UnitResult:
    """Differentiate the losses of one batch."""
    batch = model.collate(examples, unit.examples)
    with torch.no_grad():
        closed = fill(batch) if fill else None
    directions: dict[AttentionSite, Tensor] = {}
    outputs: dict[AttentionSite, Tensor] = {}

    def gated(site: AttentionSite, contexts: Tensor) -> Tensor:
        direction = contexts if closed is None else contexts - closed[site].to(contexts)
        output = contexts if gate == 1 else contexts - (1 - gate) * direction
        outputs[site] = output if output.requires_grad else output.detach().requires_grad_()
        directions[site] = direction.detach()
        return outputs[site]

    with torch.enable_grad(), rules(), model.intercept(gated, batch):
        result = finite_forward(model, batch, examples)
    gradients = torch.autograd.grad(result.losses.sum(), list(outputs.values()), allow_unused=True)
    found = {name: np.zeros((len(batch), model.sites.n_heads)) for name in _PER_HEAD}
    for site, gradient in zip(outputs, gradients, strict=True):
        real = batch.queries[site.kind].real
        columns = model.sites.columns(site)
        found["tokens"][:, columns] = real.sum(dim=1, keepdim=True).cpu().numpy()
        if gradient is not None:
            s = (directions[site].double() * gradient.double()).sum(dim=-1) * real[..., None]
            found["per_example"][:, columns] = s.sum(dim=1).cpu().numpy()
            found["token_magnitude"][:, columns] = s.abs().sum(dim=1).cpu().numpy()
    return {"losses": result.losses.detach().double().cpu().numpy(), **found}
