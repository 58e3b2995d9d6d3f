"""What every primitive does before and after a forward pass: gates of a mask, losses checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Forward

__all__ = ["finite_forward", "finite_outcome", "gates_differ", "mask_gates"]


def mask_gates(
    mask: HeadMask, model: ModelAdapter, *, rescale: bool = False
) -> dict[AttentionSite, Tensor]:
    """Turn a mask into gates of the sites where it closes any head.

    They have the shape [H]; those of a `DealtMask` [N, H], a row for each example.

    Parameters
    ----------
    mask
        The mask.
    model
        The model, whose device and sites count.
    rescale
        Whether open heads are multiplied by heads / open heads of their site.
    """
    gates, device = {}, model.device
    for site in mask.sites:
        is_open = mask.at(site)
        if not is_open.all():
            count = is_open.sum(axis=-1, keepdims=True)
            scale = site.n_heads / np.maximum(1, count) if rescale else 1.0
            gates[site] = torch.from_numpy(scale * is_open).float().to(device)
    return gates


def finite_forward(
    model: ModelAdapter, batch: Batch, examples: Examples, *, label_smoothing: float = 0.0
) -> Forward:
    """Run a batch, and refuse losses that are not finite.

    Parameters
    ----------
    model
        The model.
    batch
        A batch of the examples.
    examples
        The data set, for the message.
    label_smoothing
        As for `ModelAdapter.forward`.

    Raises
    ------
    HeadtoolError
        If a loss is NaN or infinite; it names the examples.
    """
    return _checked(model, model.forward(batch, label_smoothing=label_smoothing), batch, examples)


def finite_outcome(model: ModelAdapter, batch: Batch, examples: Examples) -> Forward:
    """Run a batch without gradients, by `ModelAdapter.outcome`; see `finite_forward`.

    Parameters
    ----------
    model, batch, examples
        As for `finite_forward`.
    """
    return _checked(model, model.outcome(batch), batch, examples)


def _checked(model: ModelAdapter, result: Forward, batch: Batch, examples: Examples) -> Forward:
    finite = torch.isfinite(result.losses.detach()).cpu().numpy()
    if not finite.all():
        bad = sorted({examples.place(row) for row in batch.index[~finite].tolist()})
        shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise HeadtoolError(
            f"the loss of {model.spec} is not finite on {examples.data.spec} in the batch with "
            f"examples {shown} (counted from 1); check the weights, or try `dtype=float32`"
        )
    return result


def gates_differ(
    site: AttentionSite,
    before: Mapping[AttentionSite, Tensor],
    after: Mapping[AttentionSite, Tensor],
) -> bool:
    """Whether a site's gates changed; a site without gates is open.

    Parameters
    ----------
    site
        The site.
    before, after
        Gates by site, as `mask_gates` returns them.
    """
    old, new = before.get(site), after.get(site)
    if old is None or new is None:
        return old is not new
    return not torch.equal(old, new)
