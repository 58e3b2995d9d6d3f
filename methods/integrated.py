"""Integrated gradients of a head, along three paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headtool.engine.differentiation import differentiate
from headtool.engine.replacement import Fill, replacement
from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.estimates import influence_stderr
from headtool.methods.paths import along_attention, along_inputs, midpoints, softmax_numbers
from headtool.metrics.base import Metric
from headtool.work import Passes, Size

__all__ = ["Integrated"]


@dataclass(frozen=True)
class Integrated(Method):
    """Gradients averaged on the way from a corrupted model to the whole one.

    A gradient at the whole model says nothing of a loss that is flat there. With L_b the loss of
    example b:

    =========  ===================================================================================
    gates      ``c_b = int_0^1 dL_b/dxi_h da`` with the gates of all heads at a. Over all heads
               these add up to the loss of the whole model less that with every head closed
    inputs     ``c_b = sum_t (ctx - z) . g``: z is the head's output for token embeddings of
               zero, or those of the corrupted text, and g the gradient with respect to its output,
               averaged over embeddings between these and the given ones (EAP-IG, for heads instead
               of edges)
    attention  ``c_b = max over positions of A int_0^1 dF/d(a A) da``: the attention weights A of
               one layer's heads are scaled, and F is the negated loss (ATTATTR)
    =========  ===================================================================================

    The score is ``mean_b |c_b|``; with ``sign=signed`` it is ``-mean_b c_b``, which is positive
    where the head helps. On the path `attention` it is ``mean_b c_b``. A higher score means more
    important. Integrals are sums over midpoints of `ig_steps` equal steps. The standard error is
    over examples. With ``baseline=counterfactual`` a gate of 0 lets a head put out what it puts out
    on the corrupted text, instead of zero. The loss of a translation or text is that of all its
    tokens.

    `gates` and `inputs` take a backward pass a step, `attention` one a step and layer; its column
    `total` is the sum of the attribution over positions instead of the largest.

    Deviations: Hao et al. take the probability of the label for F where this takes its logarithm,
    which several tokens have as well; Hanna et al. corrupt inputs with other texts, as
    ``baseline=counterfactual`` does, where the default begins at zero.

    References
    ----------
    Sundararajan, Taly & Yan 2017, "Axiomatic Attribution for Deep Networks"; Hanna, Pezzelle &
    Belinkov 2024, "Have Faith in Faithfulness: Going Beyond Circuit Overlap When Finding Model
    Mechanisms" (EAP-IG); Hao, Dong, Wei & Xu 2021, "Self-Attention Attribution: Interpreting
    Information Interactions Inside Transformer" (ATTATTR).

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> integrated = headtool.get_method("integrated")(path="gates", sign="signed")
    >>> scores = integrated.score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(2)
        layer  head  score  stderr
    15      1     7   3.17    1.00
    7       0     7   2.20    0.72
    21      2     5   0.94    0.49
    """

    name: ClassVar[str] = "integrated"
    summary: ClassVar[str] = "gradients averaged on the way from a corrupted model to the whole one"
    reference: ClassVar[str] = "Sundararajan et al. 2017; Hanna et al. 2024; Hao et al. 2021"
    replaced_by: ClassVar[str] = "baseline"

    path: str = option(
        "gates",
        "what grows from nothing: the gates of all heads, token embeddings (EAP-IG), or the "
        "attention of one layer at a time (ATTATTR)",
        choices=("gates", "inputs", "attention"),
    )
    baseline: str = option(
        "zero",
        "where the way begins: at zero, or with the example's corrupted text",
        choices=("zero", "counterfactual"),
    )
    ig_steps: int = option(10, "steps on the way, a backward pass each")
    sign: str = option(
        "absolute",
        "how much a head matters, or also whether it helps or harms",
        choices=("absolute", "signed"),
    )

    def check(self) -> None:
        """Refuse a path without steps."""
        if self.ig_steps < 1:
            raise HeadtoolError(f"integrated.ig_steps must be at least 1, got {self.ig_steps}")

    def idle(self, metric: Metric | None = None) -> Mapping[str, str]:
        """The largest attribution to attention has no other sign."""
        names = ("sign", "baseline") if self.path == "attention" else ()
        return dict.fromkeys(names, "on path attention")

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take a pass forwards and backwards a step; on the path `attention`, for each site."""
        steps = self.ig_steps * (size.sites if self.path == "attention" else 1)
        ends = 2 if self.path == "inputs" else 0
        if self.path == "gates" and self.baseline == "counterfactual":
            ends = steps  # the corrupted texts, each time
        return (Passes(forward=steps + ends, backward=steps),)

    def compute(self, job: Job) -> Scored:
        """Integrate along the path."""
        if self.path == "attention":
            return self._attention(job)
        change = job.columns(self._gates(job) if self.path == "gates" else self._inputs(job))
        each = np.abs(change) if self.sign == "absolute" else -change
        score = each.mean(axis=0)
        return Scored(score, influence_stderr(each - score))

    def _gates(self, job: Job) -> NDArray[np.float64]:
        """Average the gates' gradients, [N, heads of the model]; finished steps are kept."""
        total = np.zeros((len(job.examples), job.model.sites.n_heads))
        source = replacement(self.baseline, seed=job.seed)
        fill = source.fit(job.model, job.examples, job.progress)
        for step, gate in enumerate(midpoints(self.ig_steps)):
            compute = partial(_gradients, job, gate, fill)
            total += job.keep(f"gates-{step:04d}", compute)["gradients"]
        return total / self.ig_steps

    def _inputs(self, job: Job) -> NDArray[np.float64]:
        return along_inputs(
            job.model,
            job.examples,
            self.ig_steps,
            corrupted=self.baseline == "counterfactual",
            execute=job.execute,
            progress=job.progress,
        )

    def _attention(self, job: Job) -> Scored:
        """Attribute to the attention of each site; finished sites are kept."""
        numbers = softmax_numbers(job.model, job.examples)
        shape = (len(job.examples), job.sites.n_heads)
        largest, total = np.zeros(shape), np.zeros(shape)
        for site in job.sites:
            found = job.keep(
                f"attention-{site}",
                partial(
                    along_attention,
                    job.model,
                    job.examples,
                    site,
                    numbers[site],
                    self.ig_steps,
                    execute=job.execute,
                    progress=job.progress,
                ),
            )
            columns = job.sites.columns(site)
            largest[:, columns], total[:, columns] = found["largest"], found["total"]
        score = largest.mean(axis=0)
        stderr = influence_stderr(largest - score)
        return Scored(score, stderr, columns={"total": total.mean(axis=0)})


def _gradients(job: Job, gate: float, fill: Fill) -> Mapping[str, NDArray[np.float64]]:
    """Gradients of all gates with all gates at one value."""
    found = differentiate(
        job.model, job.examples, gate=gate, fill=fill, execute=job.execute, progress=job.progress
    )
    return {"gradients": found.per_example}
