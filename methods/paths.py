"""Gradients gathered on the way from a corrupted input, or from no attention, to the whole model.

The third way, along the heads' gates, needs nothing but `headtool.engine.differentiation`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.watching import AttentionWatch
from headtool.engine.counting import unit_work
from headtool.engine.freezing import frozen
from headtool.engine.passes import finite_forward
from headtool.engine.stepping import Stepping, batches_of, joined
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_turn, run_units
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.progress import Progress, silent
from headtool.work import Passes

__all__ = ["along_attention", "along_inputs", "midpoints", "softmax_numbers"]


def midpoints(steps: int) -> list[float]:
    """Middles of equal steps from 0 to 1.

    Parameters
    ----------
    steps
        How many.

    Examples
    --------
    >>> from headtool.methods.paths import midpoints
    >>> midpoints(2)
    [0.25, 0.75]
    """
    return [(step + 0.5) / steps for step in range(steps)]


def along_inputs(
    model: ModelAdapter,
    examples: Examples,
    steps: int,
    *,
    corrupted: bool = False,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> NDArray[np.float64]:
    """Integrate the loss from other token embeddings to the given ones, through the heads' outputs.

    Parameters
    ----------
    model, examples
        The model and its data.
    steps
        Points on the way.
    corrupted
        Whether the way begins at the corrupted texts' embeddings; else at zero.
    execute
        Who runs the units, a batch each.
    progress
        Reports progress.

    Returns
    -------
    ndarray
        Per example and head of the model ``sum_t (ctx - z) . mean of dL/dctx``, with z the head's
        output at the beginning, [N, heads].

    Raises
    ------
    HeadtoolError
        If the model embeds no tokens, or the data has no corrupted texts.
    """
    others = examples.corrupted if corrupted else None
    found = np.zeros((len(examples), model.sites.n_heads))
    with frozen(model.module):
        for unit, result in run_units(
            cut(batches_of(model, examples)),
            lambda: Stepping(
                partial(_through_heads, model, examples, steps, others),
                joined(0),
                model,
                examples,
                "paths",
            ),
            label="integrated gradients",
            execute=execute,
            progress=progress,
            work=unit_work(examples, Passes(forward=steps + 2, backward=steps)),
        ):
            found[unit.examples] = result["change"]
    return found


def _through_heads(
    model: ModelAdapter, examples: Examples, steps: int, others: Examples | None, unit: Unit
) -> UnitResult:
    """Integrate for one batch."""
    batch = model.collate(examples, unit.examples)
    other = None if others is None else model.collate(others, unit.examples)
    with torch.no_grad():
        clean, _ = _outputs(model, examples, batch, 1.0, other)
        corrupted, _ = _outputs(model, examples, batch, 0.0, other)
    total = {site: torch.zeros_like(output) for site, output in clean.items()}
    for share in midpoints(steps):
        with torch.enable_grad():
            outputs, losses = _outputs(model, examples, batch, share, other)
        gradients = torch.autograd.grad(losses.sum(), list(outputs.values()), allow_unused=True)
        for site, gradient in zip(outputs, gradients, strict=True):
            if gradient is not None:
                total[site] += gradient / steps
    change = np.zeros((len(batch), model.sites.n_heads))
    for site, gradient in total.items():
        moved = ((clean[site] - corrupted[site]).double() * gradient.double()).sum(dim=-1)
        real = batch.queries[site.kind].real
        change[:, model.sites.columns(site)] = (moved * real[..., None]).sum(dim=1).cpu().numpy()
    return {"change": change}


def _outputs(
    model: ModelAdapter, examples: Examples, batch: Batch, share: float, other: Batch | None
) -> tuple[dict[AttentionSite, Tensor], Tensor]:
    """Heads' outputs [B, T, H, D] by site, and losses, with `share` of the embeddings."""
    outputs: dict[AttentionSite, Tensor] = {}

    def keep(site: AttentionSite, contexts: Tensor) -> Tensor:
        is_leaf = torch.is_grad_enabled() and not contexts.requires_grad
        outputs[site] = contexts.detach().requires_grad_() if is_leaf else contexts
        return outputs[site]

    with _moved_embeddings(model, batch, share, other), model.intercept(keep, batch):
        losses = finite_forward(model, batch, examples).losses
    return outputs, losses


@contextlib.contextmanager
def _moved_embeddings(
    model: ModelAdapter, batch: Batch, share: float, other: Batch | None
) -> Iterator[None]:
    """Take a share of the batch's token embeddings, the rest of another's; positions stay."""
    calls = 0

    def move(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor | None:
        nonlocal calls
        found = [name for name, given in batch.inputs.items() if args and _same(args[0], given)]
        if not found:
            return None
        calls += 1
        if other is None:
            return output * share
        away = cast(Tensor, module.forward(other.inputs[found[0]].view_as(args[0])))
        return away + share * (output - away)

    tables = [
        part
        for part in model.module.modules()
        if isinstance(part, nn.Embedding) and "position" not in type(part).__name__.lower()
    ]
    with contextlib.ExitStack() as stack:
        for table in tables:
            stack.callback(table.register_forward_hook(move).remove)
        yield
    if not calls:
        raise HeadtoolError(
            f"integrated.path inputs needs token embeddings, and {model.spec} has none; choose "
            "gates or attention"
        )


def _same(first: Any, second: Tensor) -> bool:
    """Whether both are the same tokens."""
    return first is second or (
        isinstance(first, Tensor)
        and not first.is_floating_point()
        and first.shape == second.shape
        and torch.equal(first, second)
    )


def softmax_numbers(model: ModelAdapter, examples: Examples) -> dict[AttentionSite, int]:
    """Say which softmax of a forward pass is the attention of which site.

    Parameters
    ----------
    model, examples
        The model and its data, of which the first batch is run.

    Returns
    -------
    dict
        By site, its place among the softmaxes of tensors with three axes or more, from 0.
    """
    batch = model.collate(examples, examples.batches()[0])
    numbers: dict[AttentionSite, int] = {}
    seen = 0

    def count(probabilities: Tensor) -> Tensor:
        nonlocal seen
        seen += probabilities.ndim >= 3
        return probabilities

    def note(site: AttentionSite, contexts: Tensor) -> None:
        numbers[site] = seen - 1

    with torch.no_grad(), AttentionWatch(count), model.intercept(note, batch):
        model.forward(batch)
    return numbers


def along_attention(
    model: ModelAdapter,
    examples: Examples,
    site: AttentionSite,
    number: int,
    steps: int,
    *,
    execute: Executor = in_turn,
    progress: Progress = silent,
) -> Mapping[str, NDArray[np.float64]]:
    """Attribute the negated loss to the attention weights of one site (Hao et al. 2021, eq. 2).

    Parameters
    ----------
    model, examples
        The model and its data.
    site
        The site; the others stay as they are.
    number
        Which softmax is its attention; see `softmax_numbers`.
    steps
        Points on the way from no attention to all of it.
    execute
        Who runs the units, a batch each.
    progress
        Reports progress.

    Returns
    -------
    Mapping
        Per example and head of the site, the largest attribution (`largest`) and their sum over
        positions (`total`), [N, H] each.
    """
    shape = (len(examples), site.n_heads)
    found = {"largest": np.zeros(shape), "total": np.zeros(shape)}
    with frozen(model.module):
        for unit, result in run_units(
            cut(batches_of(model, examples)),
            lambda: Stepping(
                partial(_attributed, model, examples, site, number, steps),
                joined(0),
                model,
                examples,
                "attribution",
            ),
            label=f"attribution to {site}",
            execute=execute,
            progress=progress,
            work=unit_work(examples, Passes(forward=steps, backward=steps)),
        ):
            for name, values in found.items():
                values[unit.examples] = result[name]
    return found


def _attributed(
    model: ModelAdapter,
    examples: Examples,
    site: AttentionSite,
    number: int,
    steps: int,
    unit: Unit,
) -> UnitResult:
    """Attribute for one batch."""
    batch = model.collate(examples, unit.examples)
    total: Tensor | None = None
    for share in midpoints(steps):
        scaled: list[Tensor] = []
        with torch.enable_grad(), AttentionWatch(_scaling(number, share, scaled)):
            losses = finite_forward(model, batch, examples).losses
        (gradient,) = torch.autograd.grad(-losses.sum(), scaled)
        total = gradient.double() / steps + (0.0 if total is None else total)
        attention = scaled[0].detach().double() / share
    real = batch.queries[site.kind].real
    shape = (len(batch), site.n_heads, real.shape[1], -1)
    attention, slope = attention.reshape(shape), torch.as_tensor(total).reshape(shape)
    # Where nothing is attended to (padding, the future) there is nothing to attribute.
    attended = (attention > 0) & real[:, None, :, None]
    attributed = attention * slope * attended
    largest = attributed.masked_fill(~attended, -torch.inf).flatten(2).amax(dim=-1)
    return {
        "largest": largest.cpu().numpy(),
        "total": attributed.sum(dim=(2, 3)).cpu().numpy(),
    }


def _scaling(number: int, share: float, scaled: list[Tensor]) -> Callable[[Tensor], Tensor]:
    """Multiply the attention of one softmax by `share`, and keep what comes of it."""
    seen = 0

    def scale(probabilities: Tensor) -> Tensor:
        nonlocal seen
        seen += probabilities.ndim >= 3
        if probabilities.ndim < 3 or seen - 1 != number:
            return probabilities
        scaled.append((probabilities.detach() * share).requires_grad_())
        return scaled[0]

    return scale
