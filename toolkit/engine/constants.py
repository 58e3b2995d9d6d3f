"""Constants for heads that are closed together: their means, or those with the least loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headtool.attention.gating import Gating
from headtool.engine.freezing import frozen
from headtool.engine.moments import moments
from headtool.engine.replacement import Fill, Replacement
from headtool.errors import unknown
from headtool.heads import AttentionSite, HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, counted, silent
from headtool.work import Passes, Size

__all__ = ["CONSTANTS", "Constants", "constants_of", "passes_of"]

CONSTANTS = ("mean", "optimal")
_STEPS = 100
_TRAINED_ON = 32  # examples in a step
_LEARNING_RATE = 0.1  # in standard deviations of a head's output


@dataclass(frozen=True, eq=False)
class Constants(Replacement):
    """Constants that are known already.

    Attributes
    ----------
    values
        By site, what its closed heads put out, [H, D].
    """

    values: Mapping[AttentionSite, Tensor]

    name = "constant"

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Need nothing."""
        return lambda batch: self.values

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take no pass."""
        return ()


def constants_of(
    name: str,
    model: ModelAdapter,
    examples: Examples,
    mask: HeadMask,
    *,
    steps: int = _STEPS,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[AttentionSite, Tensor]:
    """Find what the closed heads of a mask should put out instead of their outputs.

    Parameters
    ----------
    name
        ``mean``: each head's mean output over the real query tokens of the data set. ``optimal``:
        the constants with the least loss while all of these heads are closed, trained by Adam from
        the means. Unlike those of `headtool.engine.replacement.Optimal`, each of which is
        for its head closed alone, they are optimal together.
    model
        The whole model; left as it is.
    examples
        The data set; its labels are used for ``optimal`` alone.
    mask
        Which heads are closed.
    steps
        Steps of training, each on 32 examples; the rate falls to zero.
    seed
        Seed of the examples drawn.
    progress
        Reports progress.

    Returns
    -------
    dict
        By site, constants [H, D]; those of open heads mean nothing.

    Raises
    ------
    HeadtoolError
        If there is no such name.

    References
    ----------
    Li & Janson 2024, "Optimal Ablation for Interpretability", for sets of heads.
    """
    if name not in CONSTANTS:
        raise unknown("replacement", name, CONSTANTS)
    found = moments(model, examples, progress)
    if name == "mean":
        return {site: mean.to(torch.float32) for site, (mean, _) in found.items()}
    gates = {
        site: torch.from_numpy(mask.at(site).copy()).to(model.device, torch.float32)
        for site in mask.sites
        if not mask.at(site).all()
    }
    start = {site: found[site] for site in gates}
    shifts = {site: torch.zeros_like(mean, requires_grad=True) for site, (mean, _) in start.items()}

    def constants() -> dict[AttentionSite, Tensor]:
        return {site: mean + spread * shifts[site] for site, (mean, spread) in start.items()}

    adam = torch.optim.Adam(shifts.values(), lr=_LEARNING_RATE)
    rate = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, total_iters=steps)
    rng = np.random.default_rng([seed, 31])
    count = min(_TRAINED_ON, len(examples))
    with frozen(model.module), torch.enable_grad():
        shown = counted(
            progress,
            range(steps),
            total=steps,
            label="optimal outputs",
            work=lambda step: 2 * count * float(examples.lengths.mean()),
        )
        for _ in shown:
            index = np.sort(rng.choice(len(examples), count, replace=False))
            batch = model.collate(examples, index)
            adam.zero_grad()
            with model.intercept(Gating(gates, constants()), batch):
                result = model.forward(batch)
            loss = result.losses.sum() / result.columns["tokens"].sum()
            torch.autograd.backward(loss)
            adam.step()
            rate.step()
    trained = {site: value.detach().to(torch.float32) for site, value in constants().items()}
    return {site: trained.get(site, mean.to(torch.float32)) for site, (mean, _) in found.items()}


def passes_of(name: str, examples: int) -> Passes:
    """Declare the passes over a data set that `constants_of` takes.

    Parameters
    ----------
    name
        As for `constants_of`.
    examples
        How many examples there are.
    """
    if name == "mean":
        return Passes(forward=1)
    run = _STEPS * min(_TRAINED_ON, examples) / examples
    return Passes(forward=1 + run, backward=run, steps=_STEPS)
