"""Which parts of the weights belong to which head, for methods that look at weights."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.gating import SiteHandle
from headtool.attention.weights import weight_of
from headtool.heads import AttentionSite
from headtool.methods.base import Job
from headtool.models.base import ModelAdapter
from headtool.surgery.tracing import trace

__all__ = ["HeadSlices", "head_outputs", "head_slices", "output_weights"]


@dataclass(frozen=True)
class HeadSlices:
    """The slices of one parameter by head.

    Attributes
    ----------
    name
        The parameter's name in the model.
    axis
        The axis along which heads have slices of their own.
    heads
        Which heads read each slice, boolean [slices, H]; None where every head reads all of it.
    n_heads
        H, the number of heads of the site.
    """

    name: str
    axis: int
    heads: NDArray[np.bool_] | None
    n_heads: int

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add values up by head; a slice that several heads share counts in full for each.

        Parameters
        ----------
        values
            A number for each entry of the parameter, of its shape.

        Returns
        -------
        ndarray
            Shape [H].
        """
        if self.heads is None:
            return np.full(self.n_heads, values.sum())
        others = tuple(axis for axis in range(values.ndim) if axis != self.axis)
        by_head: NDArray[np.float64] = values.sum(axis=others) @ self.heads
        return by_head


def head_slices(job: Job, *, biases: bool) -> dict[AttentionSite, list[HeadSlices]]:
    """Find each site's weights by head: those before its heads' outputs, and W_O.

    What belongs to a head is measured, not read off shapes, so fused projections count like
    separate ones. The model is run on a few tokens of no data set to find them.

    Parameters
    ----------
    job
        The model.
    biases
        Whether biases of the projections before the heads' outputs belong to heads as well. That of
        W_O never does.
    """
    model = job.model
    found: dict[AttentionSite, list[HeadSlices]] = {}
    for unit in trace(model.module, model.handles, model.probe(model.module)):
        heads = unit.handle.site.n_heads
        inputs = []
        for layer in unit.outputs:
            for kind in ("weight", "bias") if biases else ("weight",):
                name = f"{layer}.{kind}"
                if getattr(model.module.get_submodule(layer), kind, None) is None:
                    continue
                part = unit.parameters.get(name)
                axis, mine = (0, None) if part is None else (part.axis, part.heads)
                inputs.append(HeadSlices(name, axis, mine, heads))
        for handle in unit.handles:
            found[handle.site] = [*inputs, _output(handle)]
    return found


def head_outputs(job: Job) -> dict[AttentionSite, dict[str, NDArray[np.bool_] | None]] | None:
    """Find the linear layers before each site's heads, and which head reads which output of them.

    Parameters
    ----------
    job
        The model.

    Returns
    -------
    dict or None
        By site and name of a layer, booleans [outputs, H]; None for a layer that every head reads.
        No dict at all where this does not say it: heads differ in what goes into a layer, or one
        has other outputs than a vector for each token, such as those for distances in DeBERTa.
    """
    found: dict[AttentionSite, dict[str, NDArray[np.bool_] | None]] = {}
    for site, parts in head_slices(job, biases=False).items():
        found[site] = {}
        for part in parts[:-1]:  # the last is W_O
            name = part.name.removesuffix(".weight")
            axis = 0 if isinstance(job.model.module.get_submodule(name), nn.Linear) else 1
            if part.heads is not None and part.axis != axis:
                return None
            found[site][name] = part.heads
    by_token = _by_token(job.model, {name for own in found.values() for name in own})
    return found if by_token else None


def _by_token(model: ModelAdapter, layers: Collection[str]) -> bool:
    """Whether layers put out a vector for each token of each example."""
    probe, seen = model.probe(model.module), set()

    def note(module: nn.Module, args: Any, output: Tensor) -> None:
        seen.add(output.numel() // output.shape[-1])

    with contextlib.ExitStack() as stack, torch.no_grad():
        for name in layers:
            part = model.module.get_submodule(name)
            stack.callback(part.register_forward_hook(note).remove)
        probe.run()
    return seen <= {probe.batch * length for length in probe.lengths}


def _output(handle: SiteHandle) -> HeadSlices:
    site = handle.site
    axis = 1 if isinstance(handle.module, nn.Linear) else 0  # GPT-2's is [in, out]
    heads = np.repeat(np.eye(site.n_heads, dtype=np.bool_), site.head_dim, axis=0)
    return HeadSlices(f"{site.projection}.weight", axis, heads, site.n_heads)


def output_weights(handle: SiteHandle) -> NDArray[np.float64]:
    """Columns of W_O by head, shape [H, D, width of the output].

    Parameters
    ----------
    handle
        The site.
    """
    weight = weight_of(handle.module, "weight").double().cpu().numpy()
    by_input = weight.T if isinstance(handle.module, nn.Linear) else weight
    return by_input.reshape(handle.site.n_heads, handle.site.head_dim, -1)
