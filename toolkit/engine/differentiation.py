"""Second primitive: the derivative of each example's loss with respect to every head's gate."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.engine.counting import unit_work
from headtool.engine.freezing import frozen
from headtool.engine.passes import finite_forward
from headtool.engine.replacement import Fill
from headtool.engine.stepping import Stepping, batches_of, joined
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_turn, run_units
from headtool.heads import AttentionSite, Sites
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.models.source import check_wrapped
from headtool.progress import ProgressLike, silent
from headtool.work import Passes

__all__ = ["Gradients", "Layers", "Rules", "differentiate"]

Layers = Mapping[str, NDArray[np.bool_] | None]
"""By name of a linear layer, which heads read each of its outputs, [outputs, H]; None: all do."""

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
    layers
        By name of a layer whose outputs y were asked for, ``sum_t y . dL_b/dy`` over the outputs
        that each head reads, shape [N, H], or over all of them, [N, 1]. For a linear layer that is
        ``sum w dL_b/dw`` over the weights and biases of these outputs, in all uses of the layer.
    """

    sites: Sites
    per_example: NDArray[np.float64]
    token_magnitude: NDArray[np.float64]
    tokens: NDArray[np.float64]
    losses: NDArray[np.float64]
    layers: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


def differentiate(
    model: ModelAdapter,
    examples: Examples,
    *,
    gate: float = 1.0,
    fill: Fill | None = None,
    rules: Rules = contextlib.nullcontext,
    layers: Layers | None = None,
    execute: Executor = in_turn,
    progress: ProgressLike = silent,
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
    layers
        Linear layers whose outputs are multiplied by their gradients as well; see `Gradients`.
    execute
        Who runs the units, a batch each.
    progress
        Reports progress; True shows a bar.

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
    check_wrapped(model)
    sites, count = model.sites, len(examples)
    found = {name: np.zeros((count, sites.n_heads)) for name in _PER_HEAD}
    losses = np.zeros(count)
    asked = dict(layers or {})
    products = {
        name: np.zeros((count, 1 if heads is None else heads.shape[1]))
        for name, heads in asked.items()
    }
    with frozen(model.module):
        for unit, result in run_units(
            cut(batches_of(model, examples)),
            lambda: Stepping(
                partial(_gradients, model, examples, gate, fill, rules, asked),
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
            for name, values in products.items():
                values[unit.examples] = result[f"layer {name}"]
    return Gradients(sites, losses=losses, layers=products, **found)


def _gradients(
    model: ModelAdapter,
    examples: Examples,
    gate: float,
    fill: Fill | None,
    rules: Rules,
    layers: Layers,
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

    with (
        torch.enable_grad(),
        rules(),
        _outputs_of(model, layers) as uses,
        model.intercept(gated, batch),
    ):
        result = finite_forward(model, batch, examples)
        total = result.losses.sum()
    seen = [*outputs.values(), *(output for _, output in uses)]
    gradients = torch.autograd.grad(total, seen, allow_unused=True)
    found = {name: np.zeros((len(batch), model.sites.n_heads)) for name in _PER_HEAD}
    for site, gradient in zip(outputs, gradients, strict=False):
        real = batch.queries[site.kind].real
        columns = model.sites.columns(site)
        found["tokens"][:, columns] = real.sum(dim=1, keepdim=True).cpu().numpy()
        if gradient is not None:
            s = (directions[site].double() * gradient.double()).sum(dim=-1) * real[..., None]
            found["per_example"][:, columns] = s.sum(dim=1).cpu().numpy()
            found["token_magnitude"][:, columns] = s.abs().sum(dim=1).cpu().numpy()
    for name, heads in layers.items():
        found[f"layer {name}"] = np.zeros((len(batch), 1 if heads is None else heads.shape[1]))
    time_first = any(handle.layout == "time-first" for handle in model.handles)
    for (name, output), gradient in zip(uses, gradients[len(outputs) :], strict=True):
        if gradient is not None:
            product = output.detach().double() * gradient.double()
            summed = _by_example(product, len(batch), time_first=time_first).cpu().numpy()
            heads = layers[name]
            found[f"layer {name}"] += (
                summed.sum(axis=1, keepdims=True) if heads is None else summed @ heads
            )
    return {"losses": result.losses.detach().double().cpu().numpy(), **found}


@contextlib.contextmanager
def _outputs_of(model: ModelAdapter, layers: Layers) -> Iterator[list[tuple[str, Tensor]]]:
    """Note the outputs of layers in all their uses, so that gradients can be taken of them."""
    uses: list[tuple[str, Tensor]] = []

    def watch(name: str) -> Callable[..., Tensor]:
        def note(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            seen = output if output.requires_grad else output.detach().requires_grad_()
            uses.append((name, seen))
            return seen.clone()  # what comes next may change its input in place

        return note

    with contextlib.ExitStack() as stack:
        for name in layers:
            part = model.module.get_submodule(name)
            stack.callback(part.register_forward_hook(watch(name)).remove)
        yield uses


def _by_example(values: Tensor, batch: int, *, time_first: bool) -> Tensor:
    """Sum a layer's outputs over tokens, [B, outputs]: from [B, T, ...], [T, B, ...] or [B*T, ...].

    Where both could be meant, the layout is that of the model's output projections.
    """
    if values.ndim == 2:
        values = (
            values.view(-1, batch, values.shape[-1])
            if time_first
            else values.view(batch, -1, values.shape[-1])
        )
    first = 1 if time_first else 0
    if values.shape[first] != batch:
        first = 1 - first
    return values.transpose(0, first).flatten(1, -2).sum(dim=1)
