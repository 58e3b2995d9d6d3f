"""The architecture that is left, trained from scratch (Voita et al. 2019, table 2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headtool.attention.gating import Gating
from headtool.methods.base import Job
from headtool.methods.training import loss_per_token, shuffled, training
from headtool.models.examples import Examples
from headtool.progress import counted

__all__ = ["Recipe", "Scratch"]

_BETAS, _EPSILON, _CLIP = (0.9, 0.98), 1e-9, 1.0


@dataclass(frozen=True)
class Recipe:
    """How to train from scratch.

    Attributes
    ----------
    steps
        Optimiser steps.
    batch_size
        Examples in a step.
    lr
        Highest learning rate. It rises linearly to there and falls linearly to zero.
    warmup
        Share of the steps in which it rises.
    label_smoothing
        Label smoothing of the loss.
    """

    steps: int
    batch_size: int
    lr: float
    warmup: float
    label_smoothing: float

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0, as a share of the highest."""
        rising = max(1, round(self.warmup * self.steps))
        if step < rising:
            return (step + 1) / rising
        return (self.steps - step) / (self.steps - rising + 1)


class Scratch:
    """Models of a job's configuration, trained from scratch with some heads closed.

    All start from the same fresh weights and see the same batches. The job's model is not touched.
    Heads that are not kept put out zero from the first step to the evaluation, so that nothing of
    theirs is ever trained: the result is the architecture without them.

    Parameters
    ----------
    job
        The job, whose seed draws weights, batches and dropout.
    examples
        What to train on.
    recipe
        How to train.
    evaluate
        Called with a label, a job, and which heads are open [heads]; makes the row of a table.

    Raises
    ------
    HeadtoolError
        If the job's model cannot be built anew.
    """

    def __init__(
        self,
        job: Job,
        examples: Examples,
        recipe: Recipe,
        evaluate: Callable[[str, Job, NDArray[np.bool_]], dict[str, Any]],
    ) -> None:
        self._job = dataclasses.replace(job, model=job.model.fresh(job.seed))
        self._examples, self._recipe, self._evaluate = examples, recipe, evaluate
        module = self._job.model.module
        if next(module.parameters()).dtype in (torch.float16, torch.bfloat16):
            module.float()  # steps from scratch are too small for half precision
        self._start = {name: weight.clone() for name, weight in module.state_dict().items()}
        self._rows: dict[bytes, dict[str, Any]] = {}

    @property
    def passes(self) -> float:
        """How often training sees each example."""
        return self._recipe.steps * self._recipe.batch_size / len(self._examples)

    def row(self, label: str, kept: NDArray[np.bool_]) -> dict[str, Any]:
        """Train with some heads and evaluate; each set of heads is trained only once.

        Parameters
        ----------
        label
            What the row calls the model.
        kept
            Which heads are open, shape [heads].

        Returns
        -------
        dict
            The row that `evaluate` made.
        """
        known = self._rows.get(kept.tobytes())
        if known is None:
            self._train(label, kept)
            known = self._rows[kept.tobytes()] = self._evaluate(label, self._job, kept)
        return {**known, "model": label}

    def _train(self, label: str, kept: NDArray[np.bool_]) -> None:
        job, recipe = self._job, self._recipe
        model, sites = job.model, job.sites
        model.module.load_state_dict(self._start)
        gates = torch.from_numpy(kept.copy()).to(model.device)
        closed = Gating({site: gates[sites.columns(site)] for site in sites})
        weights = [weight for weight in model.module.parameters() if weight.requires_grad]
        optimiser = torch.optim.Adam(weights, lr=recipe.lr, betas=_BETAS, eps=_EPSILON)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, recipe.rate)
        batches = shuffled(len(self._examples), recipe.batch_size, job.seed)
        with training(model.module, weights, seed=job.seed):
            steps = zip(range(recipe.steps), batches, strict=False)
            shown = counted(
                job.progress,
                steps,
                total=recipe.steps,
                label=f"train {label}",
                work=lambda item: 3.0 * self._examples.lengths[item[1]].sum(),
            )
            for _, index in shown:
                loss = loss_per_token(
                    model,
                    self._examples,
                    index,
                    closed,
                    label_smoothing=recipe.label_smoothing,
                )
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(weights, _CLIP)
                optimiser.step()
                schedule.step()
