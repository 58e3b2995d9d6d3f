"""First primitive: what a model does to every example when some of its heads are closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask
from headtool.models.base import Batch, Examples, Forward, ModelAdapter
from headtool.models.gating import Gating
from headtool.progress import Progress, silent
from headtool.replacement import Replacement, Zero
from headtool.results import Outcomes

__all__ = ["evaluate", "finite_forward", "mask_gates"]


def evaluate(
    model: ModelAdapter,
    examples: Examples,
    masks: Sequence[HeadMask],
    *,
    replacement: Replacement | None = None,
    progress: Progress = silent,
) -> Outcomes:
    """Run the whole model and every masked model over a data set.

    Parameters
    ----------
    model
        The model; its weights stay as they are.
    examples
        The data set, as ``model.encode`` returned it.
    masks
        Which heads are open, one run each. None of them: the whole model alone.
    replacement
        What a closed head puts out; zero by default.
    progress
        Reports progress.

    Returns
    -------
    Outcomes
        Per-example statistics [masks, examples], with the whole model's.

    Raises
    ------
    HeadtoolError
        If a loss is not a finite number.
    """
    fill = (replacement or Zero()).fit(model, examples, progress)
    gates = [mask_gates(mask, model) for mask in masks]
    whole: dict[str, NDArray[np.float64]] = {}
    masked: dict[str, NDArray[np.float64]] = {}
    batches = examples.batches()
    steps = ((index, row) for index in batches for row in range(-1, len(masks)))
    batch: Batch
    with torch.inference_mode():
        for index, row in progress(steps, total=len(batches) * (len(masks) + 1), label="evaluate"):
            if row < 0:
                batch = model.collate(examples, index)
                fillers = fill(batch)
                result = finite_forward(model, batch, examples)
                _store(whole, result.columns, (len(examples),), index)
                continue
            with model.intercept(Gating(gates[row], fillers), batch):
                result = finite_forward(model, batch, examples)
            _store(masked, result.columns, (len(masks), len(examples)), (row, index))
    if not masks:
        masked = {name: np.empty((0, len(examples))) for name in whole}
    return Outcomes(tuple(masks), whole, masked)


def mask_gates(mask: HeadMask, model: ModelAdapter) -> dict[AttentionSite, torch.Tensor]:
    """Gates [H] of the sites where a mask closes any head."""
    return {
        site: torch.from_numpy(mask.at(site).astype(np.float32)).to(model.device)
        for site in mask.sites
        if not mask.at(site).all()
    }


def finite_forward(
    model: ModelAdapter, batch: Batch, examples: Examples, *, label_smoothing: float = 0.0
) -> Forward:
    """Run a batch; a loss that is NaN or infinite is an error that names the examples."""
    result = model.forward(batch, label_smoothing=label_smoothing)
    finite = torch.isfinite(result.losses.detach()).cpu().numpy()
    if not finite.all():
        bad = sorted((batch.index[~finite] + 1).tolist())
        shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise HeadtoolError(
            f"the loss of {model.spec} is not finite on {examples.data.spec} in the batch with "
            f"examples {shown} (counted from 1); check the weights, or try --dtype float32"
        )
    return result


def _store(
    columns: dict[str, NDArray[np.float64]],
    values: Mapping[str, torch.Tensor],
    shape: tuple[int, ...],
    where: NDArray[np.int64] | tuple[int, NDArray[np.int64]],
) -> None:
    for name, value in values.items():
        if name not in columns:
            columns[name] = np.full(shape, np.nan)
        columns[name][where] = value.double().cpu().numpy()
