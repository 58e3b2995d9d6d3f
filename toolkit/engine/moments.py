"""The mean outputs of heads over a data set, and how much they vary."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.engine.stepping import Stepping, added, batches_of
from headtool.engine.units import Unit, UnitResult, cut
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import Progress, counted

_LABEL = "mean outputs"

__all__ = ["moments"]


def moments(
    model: ModelAdapter, examples: Examples, progress: Progress
) -> dict[AttentionSite, tuple[Tensor, Tensor]]:
    """Measure the mean output of each head over real query tokens, and how much it varies.

    Parameters
    ----------
    model, examples
        The model, and the data set.
    progress
        Reports progress.

    Returns
    -------
    dict
        By site, the means [H, D] and standard deviations [H, 1], which are one for all channels.
    """
    batches = batches_of(model, examples)
    shown = counted(
        progress,
        cut(batches),
        total=len(batches),
        label=_LABEL,
        work=lambda unit: float(examples.lengths[unit.examples].sum()),
    )
    run = Stepping(partial(_sums, model, examples), added, model, examples, _LABEL)
    sums: UnitResult = {}
    for unit in shown:
        sums = added([sums, run(unit)]) if sums else run(unit)
    found = {}
    for site in model.sites:
        parts = (np.asarray(sums[f"{site} {name}"]) for name in ("sum", "square", "count"))
        total, square, count = (torch.from_numpy(part).to(model.device) for part in parts)
        mean = total / count
        variance = (square / count - mean.square()).clamp(min=0)
        found[site] = mean, variance.mean(dim=1, keepdim=True).sqrt()
    return found


def _sums(model: ModelAdapter, examples: Examples, unit: Unit) -> UnitResult:
    """Sums over the real tokens of a batch: by site, of outputs and their squares [H, D]."""
    batch = model.collate(examples, unit.examples)
    found: dict[str, NDArray[np.float64]] = {}

    def note(site: AttentionSite, contexts: Tensor) -> None:
        real = batch.queries[site.kind].real
        outputs = contexts[real].double()
        found[f"{site} sum"] = outputs.sum(dim=0).cpu().numpy()
        found[f"{site} square"] = outputs.square().sum(dim=0).cpu().numpy()
        found[f"{site} count"] = np.asarray(float(real.sum()))

    with torch.inference_mode(), model.intercept(note, batch):
        model.forward(batch)
    return found
