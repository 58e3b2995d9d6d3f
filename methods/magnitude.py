"""Magnitude of the heads' weights: a baseline that needs no labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from headtool.attention.gating import SiteHandle
from headtool.attention.probing import Probe
from headtool.methods.base import Job, Method, Scored
from headtool.surgery.tracing import TracedAttention, trace

__all__ = ["Magnitude"]


@dataclass(frozen=True)
class Magnitude(Method):
    """Frobenius norm of the head's slices of W_Q, W_K, W_V and W_O.

    ``sqrt(|W_Q^h|^2 + |W_K^h|^2 + |W_V^h|^2 + |W_O^h|^2)``, biases left out. A higher score means
    more important. Which rows of a projection belong to which head is measured, not read off its
    shape, so that fused projections count like separate ones. Keys and values that several heads
    share count in full for each of them.

    The score looks at the weights alone: one batch is run to find them, whatever its labels. There
    is no standard error (NaN). Layers of different scale are compared as they are.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("magnitude")().score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score"]].round(2)
        layer  head  score
    15      1     7   6.12
    13      1     5   6.02
    29      3     5   6.00
    """

    name: ClassVar[str] = "magnitude"
    summary: ClassVar[str] = "norm of the head's query, key, value and output weights"
    reference: ClassVar[str] = "baseline; Frobenius norm"

    def compute(self, job: Job) -> Scored:
        """Add the squares of each head's slices."""
        batch = job.model.collate(job.examples, np.argsort(job.examples.lengths)[-2:])
        probe = Probe(lambda: job.model.forward(batch), batch=len(batch), source=0)
        squares = np.zeros(job.model.sites.n_heads)
        for unit in trace(job.model.module, job.model.handles, probe):
            inputs = _input_squares(job.model.module, unit)
            for handle in unit.handles:
                squares[job.model.sites.columns(handle.site)] = inputs + _output_squares(handle)
        return Scored(np.sqrt(job.columns(squares)), np.full(job.sites.n_heads, np.nan))


def _input_squares(model: nn.Module, unit: TracedAttention) -> NDArray[np.float64]:
    """Squares of each head's part of the linear layers before the heads, shape [H]."""
    heads = unit.handle.site.n_heads
    total = np.zeros(heads)
    for name in unit.outputs:
        squares = _squares(model.get_submodule(name))
        slices = unit.parameters.get(f"{name}.weight")
        if slices is None:  # every head reads all of it
            total += squares.sum()
        else:
            total += squares.sum(axis=1 - slices.axis) @ slices.heads
    return total


def _output_squares(handle: SiteHandle) -> NDArray[np.float64]:
    """Squares of the output projection's columns by head, shape [H]."""
    squares = _squares(handle.module)
    by_input = squares.sum(axis=0 if isinstance(handle.module, nn.Linear) else 1)
    by_head: NDArray[np.float64] = by_input.reshape(handle.site.n_heads, -1).sum(axis=1)
    return by_head


def _squares(linear: nn.Module) -> NDArray[np.float64]:
    """Squared weights of a linear layer, [out, in] or, for GPT-2's, [in, out]."""
    weight = linear.get_parameter("weight")
    squares: NDArray[np.float64] = weight.detach().double().square().cpu().numpy()
    return squares
