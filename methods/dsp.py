"""Differentiable subset pruning: exactly K heads (Li, Cotterell & Sachan 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.methods.base import Job, Scored, option
from headtool.methods.estimates import highest
from headtool.methods.gate_training import GateTraining
from headtool.metrics.base import Metric

__all__ = ["Dsp", "gumbel_top_k", "straight_through_top_k"]

_COLDEST = 1e-8
_TINY = torch.finfo(torch.float64).tiny


def gumbel_top_k(weights: Tensor, noise: Tensor, *, heads: int, temperature: float) -> Tensor:
    """Relax the choice of the `heads` largest ``weights + noise``.

    A softmax picks one head after the other; a head picked before can hardly be picked again:
    ``p_1 = softmax(r / t)``, ``r += log(1 - p_{j-1})``, ``p_j = softmax(r / t)``, and the gates are
    ``sum_j p_j``. They sum to `heads`; at low temperatures they are zeros and ones.

    Parameters
    ----------
    weights, noise
        Shape [H]; computed with in float64.
    heads
        How many to choose.
    temperature
        Above 0.

    Returns
    -------
    Tensor
        Gates in float64, shape [H]; differentiable.

    Examples
    --------
    >>> import torch
    >>> from headtool.methods.dsp import gumbel_top_k
    >>> weights, noise = torch.tensor([0.2, -1.0, 0.7]), torch.zeros(3)
    >>> gumbel_top_k(weights, noise, heads=2, temperature=0.01).round(decimals=2).tolist()
    [1.0, 0.0, 1.0]
    """
    r = weights.double() + noise.double()
    chosen = torch.softmax(r / temperature, dim=0)
    total = chosen
    for _ in range(heads - 1):
        r = r + (1 - chosen).clamp(min=_TINY).log()
        chosen = torch.softmax(r / temperature, dim=0)
        total = total + chosen
    return total


def straight_through_top_k(weights: Tensor, *, heads: int) -> Tensor:
    """Open the `heads` largest weights and close the rest, with the gradient of the identity.

    Parameters
    ----------
    weights
        Shape [H].
    heads
        How many to open.

    Returns
    -------
    Tensor
        Gates of exactly 0 and 1, shape [H]; their gradient passes to `weights` unchanged.

    Examples
    --------
    >>> import torch
    >>> from headtool.methods.dsp import straight_through_top_k
    >>> weights = torch.tensor([0.2, -1.0, 0.7], requires_grad=True)
    >>> gates = straight_through_top_k(weights, heads=2)
    >>> gates.tolist()
    [1.0, 0.0, 1.0]
    >>> (gates * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    >>> weights.grad.tolist()
    [1.0, 2.0, 3.0]
    """
    hard = torch.zeros_like(weights)
    hard[weights.detach().topk(heads).indices] = 1.0
    return hard + (weights - weights.detach())


@dataclass(frozen=True)
class Dsp(GateTraining):
    """Trained weight of the head in a choice of exactly K heads.

    One weight per head is trained on the loss per token of the model with K heads open. In each
    step the choice is drawn with Gumbel noise and relaxed (see `gumbel_top_k`), with a temperature
    that falls exponentially from `temperature` to 1e-8 over the training; or, with
    ``variant=straight-through``, it is the K largest weights, and gradients pass through as if the
    gates were the weights. ``score`` is the trained weight: higher means more important. `kept`
    are the K largest. There is no standard error (NaN).

    The K largest are what was trained for; ranks within them, and among the rest, say less. The
    table `evaluation` compares the whole model with the K heads on examples held out of training,
    on adapted and on original weights.

    References
    ----------
    Li, Cotterell & Sachan 2021, "Differentiable Subset Pruning of Transformer Heads", sec. 3.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> dsp = headtool.get_method("dsp")(heads=24, steps=40, gate_lr=0.5, holdout=0.5)
    >>> scores = dsp.score(model, examples)
    >>> int(scores.frame["kept"].sum())
    24
    >>> scores.tables["evaluation"][["model", "heads"]]
                              model  heads
    0                   whole model     32
    1  kept heads, original weights     24
    """

    name: ClassVar[str] = "dsp"
    summary: ClassVar[str] = "weight in a trained choice of exactly K heads"
    reference: ClassVar[str] = "Li, Cotterell & Sachan 2021"

    heads: int | None = option(None, "number of heads to keep; none: half of them")
    variant: str = option(
        "gumbel",
        "noisy choice that hardens as the temperature falls, or a hard choice with the gradient of "
        "the identity",
        choices=("gumbel", "straight-through"),
    )
    temperature: float | None = option(None, "temperature at the start, for gumbel; none: 1000")

    def check(self) -> None:
        """Raise `HeadtoolError` for numbers that make no sense."""
        super().check()
        if self.temperature is not None:
            self._refuse("temperature", not self.temperature > _COLDEST, f"above {_COLDEST:g}")

    def idle(self, metric: Metric | None = None) -> Mapping[str, str]:
        """A hard choice has no temperature."""
        found = dict(super().idle(metric))
        if self.variant == "straight-through":
            found["temperature"] = "on straight-through"
        return found

    def compute(self, job: Job) -> Scored:
        """Train the weights, then evaluate the heads they choose."""
        job.check_heads("dsp.heads", self._k(job))
        return super().compute(job)

    def _k(self, job: Job) -> int:
        return self.heads if self.heads is not None else max(1, job.sites.n_heads // 2)

    def start(self, job: Job, generator: torch.Generator) -> Tensor:
        """Start near zero, with a little noise so that no two heads tie."""
        return 0.01 * torch.randn(job.sites.n_heads, generator=generator, dtype=torch.float64)

    def draw(self, numbers: Tensor, step: int, generator: torch.Generator, job: Job) -> Tensor:
        """Draw the choice of a step."""
        if self.variant == "straight-through":
            return straight_through_top_k(numbers, heads=self._k(job))
        uniform = torch.rand(len(numbers), generator=generator, dtype=torch.float64)
        noise = -(-uniform.clamp(min=_TINY).log()).log()
        start = 1000.0 if self.temperature is None else self.temperature
        temperature = start * (_COLDEST / start) ** (step / max(1, self.steps - 1))
        return gumbel_top_k(numbers, noise, heads=self._k(job), temperature=temperature)

    def kept(self, numbers: Tensor, job: Job) -> NDArray[np.bool_]:
        """Keep the K heads with the largest weights."""
        return highest(numbers.numpy(), self._k(job), seed=job.seed)

    def columns(self, numbers: Tensor) -> dict[str, NDArray[Any]]:
        """Score by the weight."""
        return {"score": numbers.numpy()}
