"""Hard-concrete gates trained with an L0 penalty (Louizos et al. 2018; Voita et al. 2019)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Scored, option
from headtool.methods.estimates import highest
from headtool.methods.gate_training import GateTraining, Penalty
from headtool.methods.scratch import Scratch
from headtool.metrics.base import Metric
from headtool.progress import labelled
from headtool.work import Passes, Size

__all__ = ["Gates", "eval_gate", "open_probability", "sample_gate"]

_COLUMN = "evaluation."
BETA, GAMMA, ZETA, EPSILON = 0.33, -0.1, 1.1, 1e-6
_ASCENT = 0.1
"""Learning rate of CoFi's multipliers; its own, .01, is for tens of thousands of steps."""


def sample_gate(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """Draw hard-concrete gates in [0, 1] (Louizos et al. 2018); differentiable in `log_alpha`.

    Parameters
    ----------
    log_alpha
        The gates' parameters, shape [H].
    uniform
        Uniform numbers in (0, 1), shape [H]; one draw for each gate.

    Examples
    --------
    >>> import torch
    >>> from headtool.methods.gates import sample_gate
    >>> sample_gate(torch.tensor([-3.0, 0.0, 3.0]), torch.tensor([0.5, 0.5, 0.5])).tolist()
    [0.0, 0.5, 1.0]
    """
    noise = uniform.clamp(EPSILON, 1 - EPSILON).logit()
    concrete = torch.sigmoid((noise + log_alpha) / BETA)
    return (concrete * (ZETA - GAMMA) + GAMMA).clamp(0.0, 1.0)


def eval_gate(log_alpha: Tensor) -> Tensor:
    """Return the gates without noise, and without temperature: exactly 0 or 1 beyond +-2.398."""
    return (torch.sigmoid(log_alpha) * (ZETA - GAMMA) + GAMMA).clamp(0.0, 1.0)


def open_probability(log_alpha: Tensor) -> Tensor:
    """Probability that a drawn gate is not zero: ``sigmoid(log_alpha - beta log(-gamma / zeta))``.

    Examples
    --------
    >>> import torch
    >>> from headtool.methods.gates import open_probability
    >>> [round(p, 3) for p in open_probability(torch.tensor([-2.5, 0.0, 2.5])).tolist()]
    [0.153, 0.688, 0.964]
    """
    return torch.sigmoid(log_alpha - BETA * math.log(-GAMMA / ZETA)).clamp(EPSILON, 1 - EPSILON)


@dataclass(frozen=True)
class Gates(GateTraining):
    """Probability that a trained stochastic gate leaves the head open.

    One ``log_alpha`` per head is trained on ``loss per token + lambda * sum_h P(open)``, starting
    from the trained model; a gate is drawn per head and step and shared by the batch. ``score =
    P(open)``: higher means more important. The training loss is noisy and the gates depend on one
    another, so there is no standard error (NaN). `kept` says which heads stay: ``log_alpha > 0``,
    or the largest ones where a number of heads was asked for.

    That number is reached in one of two ways. `heads` adapts the penalty by an augmented
    Lagrangian with a fixed quadratic term. `target`, the share of heads to close, adds
    ``l1 (s - t) + l2 (s - t)^2`` to the loss, as CoFi does: s is the expected share of closed
    heads, t rises to the target during the first half of training, and both multipliers climb
    along their gradients, from zero and by Adam. In either case exactly so many heads stay.

    A share of the examples is held out of training. The table `evaluation` compares, on those, the
    whole model with the final mask on the adapted weights and on the original ones; the difference
    of the last two is what the weights' adaptation did, not the choice of heads.

    With `sweep`, training is repeated from the same start for each lambda named there. The table
    `sweep` holds the evaluation of each: quality against heads retained (Voita et al., figure 7). A
    column ``kept_at_LAMBDA`` says which heads stay. Scores are those of `lambda`, which is trained
    too. To prune the encoder alone, as the paper does, gate its heads (``--kind enc-self``) and
    train ``encoder.*``: everything else is frozen.

    References
    ----------
    Louizos, Welling & Kingma 2018, "Learning Sparse Neural Networks through L0 Regularization";
    Voita et al. 2019, "Analyzing Multi-Head Self-Attention", sec. 6; Xia,
    Zhong & Chen 2022, "Structured Pruning Learns Compact and Accurate Models" (CoFi), sec. 3.3,
    for `target`; the penalty of `heads` is much like it.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> gates = headtool.get_method("gates")(heads=24, steps=40, gate_lr=0.5, holdout=0.5)
    >>> scores = gates.score(model, examples)
    >>> int(scores.frame["kept"].sum())
    24
    >>> scores.tables["evaluation"][["model", "heads", "accuracy"]]
                              model  heads  accuracy
    0                   whole model     32      1.00
    1  kept heads, original weights     24      0.75
    """

    name: ClassVar[str] = "gates"
    summary: ClassVar[str] = "probability that a trained hard-concrete gate stays open"
    reference: ClassVar[str] = "Louizos et al. 2018; Voita et al. 2019, sec. 6"

    lambda_: float | None = option(
        None, "weight of the L0 penalty; none: 0.02, or what heads adapts it to"
    )
    heads: int | None = option(None, "number of heads to keep; lambda is then adapted to reach it")
    target: float | None = option(
        None, "share of the heads to close, above 0 and below 1, by the Lagrangian of CoFi"
    )
    penalty: str | None = option(
        None,
        "sum over heads (the paper), or the mean over sites of their sums (the released code); "
        "none: sum, or what brings the number to heads",
        choices=("sum", "site-mean"),
    )
    init: str = option(
        "open",
        "log_alpha at the start: 2.5, or uniform +-sqrt(3/heads of the site) as released",
        choices=("open", "released"),
    )
    sweep: str | None = option(
        None,
        "comma-separated lambdas to train with beside gates.lambda, each from the start: quality "
        "against heads retained",
    )

    def check(self) -> None:
        """Raise `HeadtoolError` for numbers that make no sense."""
        super().check()
        self._refuse("lambda", not self._weight >= 0, "at least 0")
        if self.target is not None:
            self._refuse("target", not 0 < self.target < 1, "above 0 and below 1")
            if self.heads is not None:
                raise HeadtoolError(
                    "gates.target and gates.heads both say how many heads stay; give one"
                )
        if self.sweep is not None:
            for name in ("heads", "target"):
                if getattr(self, name) is not None:
                    raise HeadtoolError(
                        f"gates.sweep varies lambda, and gates.{name} adapts it; give one"
                    )
            self._sweep()

    def idle(self, metric: Metric | None = None) -> Mapping[str, str]:
        """The penalty's weight and form have no effect where a number of heads is wanted."""
        found = dict(super().idle(metric))
        for name in ("heads", "target"):
            if getattr(self, name) is not None:
                why = f"where gates.{name} adapts the penalty"
                found |= dict.fromkeys(("lambda", "penalty"), why)
        return found

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Train and evaluate once for each lambda; from scratch, at least once."""
        once = super().cost(size)
        lambdas = len({self._weight, *(self._sweep() if self.sweep is not None else ())})
        return tuple(part.times(lambdas) for part in once)

    def compute(self, job: Job) -> Scored:
        """Train the gates, once for each lambda; evaluate what they keep."""
        wanted = self._wanted(job)
        if wanted is not None:
            name = "heads" if self.target is None else f"target={self.target:g} keeps a number that"
            job.check_heads(f"gates.{name}", wanted)
        scratch = self._scratch(job)
        scored = self._scored(_naming(job, self._weight, self.sweep), scratch)
        if self.sweep is None:
            return scored
        by_lambda = {self._weight: (scored.columns["kept"], scored.tables["evaluation"])}
        for value in self._sweep():
            if value not in by_lambda:
                alone = dataclasses.replace(self, lambda_=value, sweep=None)
                part = partial(alone._part, _naming(job, value, self.sweep), scratch)
                by_lambda[value] = _parted(job.keep(f"lambda-{value!r}", part))
        tables, columns = [], dict(scored.columns)
        for value, (kept, table) in sorted(by_lambda.items()):
            table = table[table["model"].str.startswith("kept heads")]
            tables.append(table.assign(**{"lambda": value}))
            columns[f"kept_at_{value:g}"] = kept
        table = pd.concat(tables, ignore_index=True)
        table.insert(0, "lambda", table.pop("lambda"))
        return dataclasses.replace(
            scored,
            columns=columns,
            tables={**scored.tables, "sweep": table},
            provenance={**scored.provenance, "lambda": float(self._weight)},
        )

    def _part(self, job: Job, scratch: Scratch | None) -> dict[str, NDArray[Any]]:
        """Train with one lambda of a sweep; the result as arrays, which can be kept."""
        scored = self._scored(job, scratch)
        table = scored.tables["evaluation"]
        arrays = {f"{_COLUMN}{name}": np.array(table[name].tolist()) for name in table.columns}
        return {"kept": scored.columns["kept"], **arrays}

    def scores_only(self) -> Self:
        """Without further lambdas, and without training from scratch."""
        return dataclasses.replace(super().scores_only(), sweep=None)

    @property
    def _weight(self) -> float:
        """The weight of the penalty."""
        return 0.02 if self.lambda_ is None else self.lambda_

    def _wanted(self, job: Job) -> int | None:
        """How many heads are to stay; None where the penalty decides."""
        if self.target is None:
            return self.heads
        return job.sites.n_heads - round(self.target * job.sites.n_heads)

    def _sweep(self) -> list[float]:
        """Read the lambdas of `sweep`."""
        values = []
        for word in (self.sweep or "").split(","):
            try:
                values.append(float(word))
            except ValueError:
                values.append(math.nan)
            if not 0 <= values[-1] < math.inf:
                raise HeadtoolError(
                    f"gates.sweep must be numbers from 0 on such as 0.01,0.02,0.05, got '{word}'"
                )
        return values

    def start(self, job: Job, generator: torch.Generator) -> Tensor:
        """Start with open gates, or around half open as released."""
        if self.init == "open":
            return torch.full((job.sites.n_heads,), 2.5)
        widths = torch.tensor([site.n_heads for site in job.sites for _ in range(site.n_heads)])
        return (2 * torch.rand(len(widths), generator=generator) - 1) * (3 / widths).sqrt()

    def draw(self, numbers: Tensor, step: int, generator: torch.Generator, job: Job) -> Tensor:
        """Draw hard-concrete gates."""
        uniform = torch.rand(len(numbers), generator=generator)
        return sample_gate(numbers, uniform)

    def regulariser(self, job: Job) -> Penalty:
        """Penalise the expected number of open gates, or its distance from the number wanted."""
        if self.target is not None:
            return _Lagrangian(self.target, self.steps)
        if self.heads is not None:
            return _Constraint(self.heads / job.sites.n_heads, self.steps)
        weight = self._weight / (len(job.sites) if self.penalty == "site-mean" else 1)
        return lambda numbers, step: weight * open_probability(numbers).sum()

    def kept(self, numbers: Tensor, job: Job) -> NDArray[np.bool_]:
        """Keep the gates that are more open than closed, or the number of heads wanted."""
        wanted = self._wanted(job)
        if wanted is None:
            return (numbers > 0).numpy()
        return highest(numbers.numpy(), wanted, seed=job.seed)

    def columns(self, numbers: Tensor) -> dict[str, NDArray[Any]]:
        """Score by the probability to be open."""
        return {
            "score": open_probability(numbers).numpy(),
            "log_alpha": numbers.numpy(),
            "gate": eval_gate(numbers).numpy(),
        }


def _parted(arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.bool_], pd.DataFrame]:
    """Which heads one lambda keeps, and its evaluation."""
    columns = {
        name.removeprefix(_COLUMN): values.tolist()
        for name, values in arrays.items()
        if name.startswith(_COLUMN)
    }
    return arrays["kept"], pd.DataFrame(columns)


def _naming(job: Job, weight: float, sweep: str | None) -> Job:
    """Name the lambda in the progress of a sweep."""
    if sweep is None:
        return job
    return dataclasses.replace(job, progress=labelled(job.progress, f"lambda {weight:g}"))


class _Lagrangian:
    """The penalty of CoFi (Xia et al. 2022, sec. 3.3), whose multipliers are trained against it."""

    def __init__(self, target: float, steps: int) -> None:
        self.target = target
        self.steps = steps
        self.multipliers = torch.zeros(2)
        self.ascent = torch.optim.Adam([self.multipliers], lr=_ASCENT, maximize=True)

    def __call__(self, numbers: Tensor, step: int) -> Tensor:
        progress = min(1.0, 2 * (step + 1) / self.steps)
        gap = 1 - open_probability(numbers).mean() - progress * self.target
        gaps = torch.stack([gap, gap**2])
        penalty = (self.multipliers.detach().clone() * gaps).sum()
        self.multipliers.grad = gaps.detach()
        self.ascent.step()
        return penalty


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

    def __call__(self, numbers: Tensor, step: int) -> Tensor:
        progress = min(1.0, 2 * (step + 1) / self.steps)
        gap = open_probability(numbers).mean() - (1 + progress * (self.target - 1))
        penalty = self.multiplier * gap + self.quadratic / 2 * gap**2
        self.multiplier += self.rate * gap.item()
        return penalty
