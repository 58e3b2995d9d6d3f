"""Shared by methods that train a gate per head: the training loop and the evaluation after it."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.gating import Gating
from headtool.attention.weights import check_trainable
from headtool.engine.evaluation import evaluate
from headtool.engine.measurement import measure
from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.scratch import Recipe, Scratch
from headtool.methods.training import loss_per_token, shuffled, training
from headtool.metrics.base import Metric
from headtool.metrics.translation import TranslationMetric
from headtool.models.examples import Examples
from headtool.progress import counted
from headtool.work import Passes, Size

__all__ = ["GateTraining", "Penalty"]

_FASTEST = 1000.0  # far beyond any learning rate that trains, and within every precision
_LONGEST = 100_000_000  # steps; a model that takes a millisecond for one takes a day for so many
_RATE = f"above 0 and at most {_FASTEST:g}"

Penalty = Callable[[Tensor, int], Tensor]
"""Computes a term that is added to the loss, from the trained numbers [heads] and the step."""


@dataclass(frozen=True)
class GateTraining(Method):
    """Base of methods that train one number per head, from which gates on the heads are drawn.

    A gate is drawn per head and step and shared by the batch; training starts from the trained
    model and may adapt weights beside the gates. A share of the examples is held out. The table
    `evaluation` compares, on those, the whole model with the heads that stay, on the adapted
    weights and on the original ones; the difference of the last two is what the weights' adaptation
    did, not the choice of heads. With `scratch_steps`, the remaining architecture and the whole one
    are also trained from scratch, for the same number of steps: where the first reaches the second,
    the removed heads were not needed for learning the task either. Both are trained for far fewer
    steps than the model itself was, unless you know that it had no more.
    """

    train: str = option(
        "gates",
        "what trains: gates, all, or comma-separated patterns of parameter names such as "
        "encoder.*,*.bias (gates always train)",
    )
    steps: int = option(400, "optimiser steps")
    batch_size: int = option(32, "examples in a step")
    gate_lr: float = option(0.05, "learning rate of the gates (Adam)")
    weight_lr: float = option(3e-5, "learning rate of the weights (Adam)")
    label_smoothing: float = option(0.0, "label smoothing of the training loss")
    holdout: float = option(0.2, "share of the examples kept out of training for the evaluation")
    scratch_steps: int = option(
        0,
        "optimiser steps to train the heads that stay from scratch, and as many to train all, "
        "for comparison; 0: not; for small models",
    )
    scratch_batch_size: int | None = option(None, "examples in such a step; none: 64")
    scratch_lr: float | None = option(
        None, "highest learning rate from scratch (Adam, linear decay); none: 0.001"
    )
    scratch_warmup: float | None = option(
        None, "share of these steps in which the learning rate rises; none: 0.1"
    )

    @abstractmethod
    def start(self, job: Job, generator: torch.Generator) -> Tensor:
        """Initialise the numbers to train.

        Parameters
        ----------
        job
            What is scored.
        generator
            Source of randomness, seeded with the job's seed.

        Returns
        -------
        Tensor
            One number per head, shape [heads], on the CPU.
        """

    @abstractmethod
    def draw(self, numbers: Tensor, step: int, generator: torch.Generator, job: Job) -> Tensor:
        """Draw the gates of a step.

        Parameters
        ----------
        numbers
            The numbers being trained, shape [heads].
        step
            The step, counted from 0.
        generator
            Source of randomness.
        job
            What is scored.

        Returns
        -------
        Tensor
            Gates, shape [heads], on the CPU and differentiable in `numbers`.
        """

    def regulariser(self, job: Job) -> Penalty | None:
        """Return the penalty that is added to the loss per token; None for none."""
        return None

    @abstractmethod
    def kept(self, numbers: Tensor, job: Job) -> NDArray[np.bool_]:
        """Choose which heads stay.

        Parameters
        ----------
        numbers
            The trained numbers, shape [heads].
        job
            What was scored.

        Returns
        -------
        ndarray
            Booleans, shape [heads].
        """

    @abstractmethod
    def columns(self, numbers: Tensor) -> dict[str, NDArray[Any]]:
        """Return `score` and further columns of the result, each [heads]."""

    @property
    def uses_metric(self) -> bool:
        """True: the table `evaluation` holds the metric. The scores do not depend on it."""
        return True

    def check(self) -> None:
        """Raise `HeadtoolError` for numbers that make no sense."""
        for name in ("steps", "batch_size"):
            self._refuse(name, getattr(self, name) < 1, "at least 1")
        for name in ("steps", "scratch_steps"):
            self._refuse(name, getattr(self, name) > _LONGEST, f"at most {_LONGEST:,}")
        for name in ("gate_lr", "weight_lr"):
            self._refuse(name, not 0 < getattr(self, name) <= _FASTEST, _RATE)
        for name in ("holdout", "label_smoothing"):
            self._refuse(name, not 0 <= getattr(self, name) < 1, "in [0, 1)")
        self._refuse("scratch_steps", self.scratch_steps < 0, "at least 0")
        for name in ("scratch_batch_size", "scratch_lr", "scratch_warmup"):
            if getattr(self, name) is not None and self.scratch_steps == 0:
                raise HeadtoolError(
                    f"{self.name}.{name} has no effect without {self.name}.scratch_steps; "
                    "give both, or leave it out"
                )
        recipe = self.recipe
        self._refuse("scratch_batch_size", recipe.batch_size < 1, "at least 1")
        self._refuse("scratch_lr", not 0 < recipe.lr <= _FASTEST, _RATE)
        self._refuse("scratch_warmup", not 0 <= recipe.warmup < 1, "in [0, 1)")

    def idle(self, metric: Metric | None = None) -> Mapping[str, str]:
        """The learning rate of the weights has no effect where none are trained."""
        return {"weight_lr": f"where {self.name}.train=gates"} if self.train == "gates" else {}

    def _refuse(self, name: str, bad: bool, wanted: str) -> None:
        if bad:
            value = self.settings()[name]
            raise HeadtoolError(f"{self.name}.{name} must be {wanted}, got {value}")

    def scores_only(self) -> Self:
        """Without training from scratch, which no score depends on."""
        return dataclasses.replace(
            self, scratch_steps=0, scratch_batch_size=None, scratch_lr=None, scratch_warmup=None
        )

    @property
    def recipe(self) -> Recipe:
        """How models are trained from scratch."""
        size, lr, warmup = self.scratch_batch_size, self.scratch_lr, self.scratch_warmup
        return Recipe(
            steps=self.scratch_steps,
            batch_size=64 if size is None else size,
            lr=1e-3 if lr is None else lr,
            warmup=0.1 if warmup is None else warmup,
            label_smoothing=self.label_smoothing,
        )

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Train on batches of examples, and evaluate on those held out."""
        held = round(self.holdout * size.examples)
        held = size.examples if held in (0, size.examples) else held
        learning = size.examples - held or size.examples
        weights = self.train != "gates"

        def trained(steps: int, batch: int, what: str, *, weights: bool) -> Passes:
            full, rest = divmod(steps, math.ceil(learning / batch))
            seen = (full * learning + min(rest * batch, learning)) / size.examples
            return Passes(forward=seen, backward=seen, steps=steps, weights=weights, what=what)

        rows = 2 + weights
        recipe = self.recipe
        parts = [trained(self.steps, self.batch_size, "train gates", weights=weights)]
        if recipe.steps:
            both = trained(recipe.steps, recipe.batch_size, "from scratch", weights=True)
            # Where all heads stay, both are one.
            parts.append(dataclasses.replace(both.times(2), least=0.5))
            rows += 2
        share = held / size.examples
        least = (rows - 1) / rows if recipe.steps else 1.0
        parts.append(Passes(forward=2 * rows * share, least=least, what="evaluation"))
        if size.beam:
            decoded = Passes(decoded=2 * rows * share, beam=size.beam, least=least)
            parts.append(dataclasses.replace(decoded, what="decoded evaluation"))
        return tuple(parts)

    def compute(self, job: Job) -> Scored:
        """Train the gates, then evaluate the heads they keep."""
        return self._scored(job, self._scratch(job))

    def _scratch(self, job: Job) -> Scratch | None:
        """Build it first, so that an unsuitable model is refused before training."""
        if self.scratch_steps == 0:
            return None
        learning, held_out = self._split(job)
        return Scratch(
            job,
            learning,
            self.recipe,
            lambda label, fresh, kept: self._row(label, fresh, held_out, kept),
        )

    def _scored(self, job: Job, scratch: Scratch | None) -> Scored:
        """Train and evaluate, from the model as it is now."""
        learning, held_out = self._split(job)
        trained = self._trained_weights(job)
        original = {name: weight.detach().clone() for name, weight in trained.items()}
        rows: list[dict[str, Any]] = []
        try:
            numbers = self._train(job, learning, list(trained.values()))
            kept = self.kept(numbers, job)
            weights = {name: weight.detach().cpu().clone() for name, weight in trained.items()}
            if weights:
                rows.append(self._row("kept heads, adapted weights", job, held_out, kept))
        finally:
            with torch.no_grad():
                for name, weight in trained.items():
                    weight.copy_(original[name])
        everything = np.ones_like(kept)
        rows.insert(0, self._row("kept heads, original weights", job, held_out, kept))
        rows.insert(0, self._row("whole model", job, held_out, everything))
        further: dict[str, Any] = {}
        if scratch is not None:
            rows.append(scratch.row("kept heads from scratch", kept))
            rows.append(scratch.row("all heads from scratch", everything))
            further["scratch"] = {
                **dataclasses.asdict(self.recipe),
                "examples": len(learning),
                "passes": scratch.passes,
            }
        columns = self.columns(numbers)
        return Scored(
            score=columns.pop("score"),
            stderr=np.full(len(kept), np.nan),
            columns={**columns, "kept": kept},
            tables={"evaluation": pd.DataFrame(rows)},
            weights=weights,
            provenance=further,
        )

    def _split(self, job: Job) -> tuple[Examples, Examples]:
        """Split the examples into those to train on and those to evaluate on."""
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
                    f"{self.name}.train: no parameter of {job.model.spec} matches '{pattern}'; "
                    f"names look like {next(iter(parameters))}"
                )
            chosen |= {name: parameters[name] for name in names}
        check_trainable(job.model.module, chosen, spec=job.model.spec, what=f"{self.name}.train")
        return chosen

    def _train(self, job: Job, examples: Examples, weights: list[nn.Parameter]) -> Tensor:
        """Run the optimiser and return the trained numbers, [heads] in float64."""
        model, sites = job.model, job.sites
        generator = torch.Generator().manual_seed(job.seed)
        numbers = self.start(job, generator).requires_grad_(True)  # few: the CPU is fastest
        penalty = self.regulariser(job)
        groups = [{"params": [numbers], "lr": self.gate_lr}]
        if weights:
            groups.append({"params": weights, "lr": self.weight_lr})
        optimiser = torch.optim.Adam(groups)
        with training(model.module, weights, seed=job.seed):
            batches = shuffled(len(examples), self.batch_size, job.seed)
            steps = zip(range(self.steps), batches, strict=False)
            shown = counted(
                job.progress,
                steps,
                total=self.steps,
                label="train gates",
                work=lambda item: examples.lengths[item[1]].sum() * (3 if weights else 2),
            )
            for step, index in shown:
                gates = self.draw(numbers, step, generator, job)
                drawn = Gating({site: gates[sites.columns(site)] for site in sites})
                loss = loss_per_token(
                    model, examples, index, drawn, label_smoothing=self.label_smoothing
                )
                if penalty is not None:
                    loss = loss + penalty(numbers, step).to(loss)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        return numbers.detach().double()

    def _row(
        self, label: str, job: Job, examples: Examples, kept: NDArray[np.bool_]
    ) -> dict[str, Any]:
        """Metric and loss of the model with some heads, as it is now."""
        columns: Mapping[str, NDArray[np.float64]]
        given = job.model, examples, [job.mask(kept)]
        shown: dict[str, Any] = {"execute": job.execute, "progress": job.progress}
        columns = measured = measure(*given, job.metric, **shown).outcomes.row(0)
        if isinstance(job.metric, TranslationMetric):  # which yields no loss
            columns = evaluate(*given, **shown).row(0)
        kinds = np.array([head.kind for head in job.sites.heads])
        by_kind: dict[str, Any] = {kind: int(kept[kinds == kind].sum()) for kind in job.sites.kinds}
        return {
            "model": label,
            "heads": int(kept.sum()),
            **(by_kind if len(by_kind) > 1 else {}),
            job.metric.name: job.metric.compute(measured),
            "loss": float(columns["loss"].sum() / columns["tokens"].sum()),
            "examples": len(examples),
        }
