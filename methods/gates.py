"""Hard-concrete gates trained with an L0 penalty (Louizos et al. 2018; Voita et al. 2019)."""

from __future__ import annotations

import contextlib
import fnmatch
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.errors import HeadtoolError
from headtool.evaluation import evaluate, finite_forward
from headtool.heads import HeadMask
from headtool.methods.base import Job, Method, Scored, option
from headtool.models.base import Examples
from headtool.models.gating import Gating

__all__ = ["Gates", "eval_gate", "open_probability", "sample_gate"]

BETA, GAMMA, ZETA, EPSILON = 0.33, -0.1, 1.1, 1e-6


def sample_gate(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """Draw gates in [0, 1] from uniform numbers in (0, 1); differentiable in `log_alpha`."""
    noise = uniform.clamp(EPSILON, 1 - EPSILON).logit()
    concrete = torch.sigmoid((noise + log_alpha) / BETA)
    return (concrete * (ZETA - GAMMA) + GAMMA).clamp(0.0, 1.0)


def eval_gate(log_alpha: Tensor) -> Tensor:
    """Return the gates without noise, and without temperature: exactly 0 or 1 beyond +-2.398."""
    return (torch.sigmoid(log_alpha) * (ZETA - GAMMA) + GAMMA).clamp(0.0, 1.0)


def open_probability(log_alpha: Tensor) -> Tensor:
    """Probability that a drawn gate is not zero."""
    return torch.sigmoid(log_alpha - BETA * math.log(-GAMMA / ZETA)).clamp(EPSILON, 1 - EPSILON)


@dataclass(frozen=True)
class Gates(Method):
    """Probability that a trained stochastic gate leaves the head open.

    One ``log_alpha`` per head is trained on ``loss per token + lambda * sum_h P(open)``, starting
    from the trained model; a gate is drawn per head and step and shared by the batch. ``score =
    P(open)``: higher means more important. The training loss is noisy and the gates depend on one
    another, so there is no standard error (NaN). `kept` says which heads stay: ``log_alpha > 0``,
    or the `heads` largest where a number of heads was asked for.

    A share of the examples is held out of training. The table `evaluation` compares, on those, the
    whole model with the final mask on the adapted weights and on the original ones; the difference
    of the last two is what the weights' adaptation did, not the choice of heads.

    References
    ----------
    Louizos, Welling & Kingma 2018, "Learning Sparse Neural Networks through L0 Regularization";
    Voita et al. 2019, "Analyzing Multi-Head Self-Attention", sec. 6. The number of heads is reached
    with an augmented Lagrangian, much as in Xia, Zhong & Chen 2022 (CoFi).
    """

    name: ClassVar[str] = "gates"
    summary: ClassVar[str] = "probability that a trained hard-concrete gate stays open"
    reference: ClassVar[str] = "Louizos et al. 2018; Voita et al. 2019, sec. 6"

    lambda_: float = option(0.02, "weight of the L0 penalty (ignored where heads= is given)")
    heads: int | None = option(None, "number of heads to keep; lambda is then adapted to reach it")
    penalty: str = option(
        "sum",
        "sum over heads (the paper), or the mean over sites of their sums (the released code)",
        choices=("sum", "site-mean"),
    )
    train: str = option(
        "gates",
        "what trains: gates, all, or comma-separated patterns of parameter names such as "
        "encoder.*,*.bias (gates always train)",
    )
    init: str = option(
        "open",
        "log_alpha at the start: 2.5, or uniform +-sqrt(3/heads of the site) as released",
        choices=("open", "released"),
    )
    steps: int = option(400, "optimiser steps")
    batch_size: int = option(32, "examples in a step")
    gate_lr: float = option(0.05, "learning rate of the gates (Adam)")
    weight_lr: float = option(3e-5, "learning rate of the weights (Adam)")
    label_smoothing: float = option(0.0, "label smoothing of the training loss")
    holdout: float = option(0.2, "share of the examples kept out of training for the evaluation")

    @property
    def uses_metric(self) -> bool:
        """The table `evaluation` holds it; the scores do not depend on it."""
        return True

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise HeadtoolError(f"gates.{name} must be at least 1, got {getattr(self, name)}")
        for name in ("gate_lr", "weight_lr"):
            if not getattr(self, name) > 0:
                raise HeadtoolError(f"gates.{name} must be above 0, got {getattr(self, name)}")
        for name in ("holdout", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise HeadtoolError(f"gates.{name} must be in [0, 1), got {getattr(self, name)}")
        if not self.lambda_ >= 0:
            raise HeadtoolError(f"gates.lambda must be at least 0, got {self.lambda_}")

    def compute(self, job: Job) -> Scored:
        """Train the gates, and evaluate what they keep."""
        if self.heads is not None:
            job.check_heads("gates.heads", self.heads)
        training, held_out = self._split(job)
        trained = self._trained_weights(job)
        original = {name: weight.detach().clone() for name, weight in trained.items()}
        try:
            log_alpha = self._train(job, training, list(trained.values()))
            kept = self._kept(log_alpha)
            closed = [head for head, keep in zip(job.sites.heads, kept, strict=True) if not keep]
            mask = HeadMask.without(job.model.sites, closed)
            weights = {name: weight.detach().cpu().clone() for name, weight in trained.items()}
            rows: dict[str, Mapping[str, NDArray[np.float64]]] = {}
            if weights:
                rows["kept heads, adapted weights"] = evaluate(job.model, held_out, [mask]).row(0)
        finally:
            with torch.no_grad():
                for name, weight in trained.items():
                    weight.copy_(original[name])
        outcomes = evaluate(job.model, held_out, [mask])
        rows |= {"kept heads, original weights": outcomes.row(0), "whole model": outcomes.whole}
        return Scored(
            score=open_probability(log_alpha).numpy(),
            stderr=np.full(len(log_alpha), np.nan),
            columns={
                "log_alpha": log_alpha.numpy(),
                "gate": eval_gate(log_alpha).numpy(),
                "kept": kept,
            },
            tables={"evaluation": self._table(job, rows, n_kept=int(kept.sum()))},
            weights=weights,
        )

    def _split(self, job: Job) -> tuple[Examples, Examples]:
        """Examples to train on and examples to evaluate on."""
        order = np.random.default_rng([job.seed, 1]).permutation(len(job.examples))
        held = round(self.holdout * len(order))
        if held == 0 or held == len(order):
            return job.examples, job.examples
        return job.examples.take(np.sort(order[held:])), job.examples.take(np.sort(order[:held]))

    def _trained_weights(self, job: Job) -> dict[str, nn.Parameter]:
        if self.train == "gates":
            return {}
        patterns = ["*"] if self.train == "all" else [p.strip() for p in self.train.split(",")]
        parameters = dict(job.model.module.named_parameters())
        chosen: dict[str, nn.Parameter] = {}
        for pattern in patterns:
            names = fnmatch.filter(parameters, pattern)
            if not names:
                raise HeadtoolError(
                    f"gates.train: no parameter of {job.model.spec} matches '{pattern}'; names "
                    f"look like {next(iter(parameters))}"
                )
            chosen |= {name: parameters[name] for name in names}
        return chosen

    def _train(self, job: Job, examples: Examples, weights: list[nn.Parameter]) -> Tensor:
        """Run the optimiser and return log_alpha, [heads] in float64 on the CPU."""
        model, sites = job.model, job.sites
        generator = torch.Generator().manual_seed(job.seed)
        log_alpha = self._start(job, generator).to(model.device).requires_grad_(True)
        groups = [{"params": [log_alpha], "lr": self.gate_lr}]
        if weights:
            groups.append({"params": weights, "lr": self.weight_lr})
        optimiser = torch.optim.Adam(groups)
        constraint = None
        if self.heads is not None:
            constraint = _Constraint(self.heads / sites.n_heads, self.steps)
        with _training(model.module, weights, seed=job.seed), torch.enable_grad():
            batches = _shuffled(len(examples), self.batch_size, job.seed)
            steps = zip(range(self.steps), batches, strict=False)
            for step, index in job.progress(steps, total=self.steps, label="train gates"):
                batch = model.collate(examples, index)
                uniform = torch.rand(len(log_alpha), generator=generator).to(model.device)
                gates = sample_gate(log_alpha, uniform)
                handler = Gating({site: gates[sites.columns(site)] for site in sites})
                with model.intercept(handler, batch):
                    result = finite_forward(
                        model, batch, examples, label_smoothing=self.label_smoothing
                    )
                probability = open_probability(log_alpha)
                loss = result.losses.sum() / result.columns["tokens"].sum()
                if constraint is None:
                    loss = loss + self.lambda_ * self._penalty(probability, job)
                else:
                    loss = loss + constraint(probability.mean(), step)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        return log_alpha.detach().cpu().double()

    def _start(self, job: Job, generator: torch.Generator) -> Tensor:
        if self.init == "open":
            return torch.full((job.sites.n_heads,), 2.5)
        widths = torch.tensor([site.n_heads for site in job.sites for _ in range(site.n_heads)])
        return (2 * torch.rand(len(widths), generator=generator) - 1) * (3 / widths).sqrt()

    def _penalty(self, probability: Tensor, job: Job) -> Tensor:
        total = probability.sum()
        return total if self.penalty == "sum" else total / len(job.sites)

    def _kept(self, log_alpha: Tensor) -> NDArray[np.bool_]:
        if self.heads is None:
            return (log_alpha > 0).numpy()
        kept = np.zeros(len(log_alpha), dtype=np.bool_)
        kept[np.argsort(-log_alpha.numpy(), kind="stable")[: self.heads]] = True
        return kept

    def _table(
        self, job: Job, rows: Mapping[str, Mapping[str, NDArray[np.float64]]], n_kept: int
    ) -> pd.DataFrame:
        """Metric and loss on the held-out examples, the whole model first."""
        return pd.DataFrame(
            [
                {
                    "model": name,
                    "heads": job.sites.n_heads if name == "whole model" else n_kept,
                    job.metric.name: job.metric.compute(columns),
                    "loss": float(columns["loss"].sum() / columns["tokens"].sum()),
                    "examples": len(columns["loss"]),
                }
                for name, columns in reversed(list(rows.items()))
            ]
        )


@dataclass
class _Constraint:
    """Augmented Lagrangian that brings the expected share of open gates to a target.

    The target starts at one and falls linearly during the first half of training. The quadratic
    term does the pulling and damps the multiplier, which climbs along the gap and would overshoot.
    """

    target: float
    steps: int
    multiplier: float = 0.0
    quadratic: float = 30.0
    rate: float = 0.1

    def __call__(self, share: Tensor, step: int) -> Tensor:
        progress = min(1.0, 2 * (step + 1) / self.steps)
        gap = share - (1 + progress * (self.target - 1))
        penalty = self.multiplier * gap + self.quadratic / 2 * gap**2
        self.multiplier += self.rate * gap.item()
        return penalty


def _shuffled(count: int, size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Batches of indices, for ever; each pass over the data has an order of its own."""
    rng = np.random.default_rng([seed, 2])
    while True:
        order = rng.permutation(count)
        yield from (np.sort(order[start : start + size]) for start in range(0, count, size))


@contextlib.contextmanager
def _training(module: nn.Module, weights: list[nn.Parameter], *, seed: int) -> Iterator[None]:
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
            yield
        finally:
            module.eval()
            for weight, before in asked:
                weight.requires_grad_(before)
                weight.grad = None
