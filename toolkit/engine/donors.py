"""Outputs of heads on other examples, which stand in for their own."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch

__all__ = ["donor_outputs", "draw_donors"]


def draw_donors(lengths: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Pick for each example another one that is at least as long, where there is one; shape [N].

    Parameters
    ----------
    lengths, rng
        Tokens of each example, [N], and what draws.
    """
    count = len(lengths)
    if count == 1:
        return np.zeros(1, dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    position = np.empty(count, dtype=np.int64)
    position[order] = np.arange(count)
    # Sorted by length, everything from the first example of equal length on is long enough.
    first = np.searchsorted(lengths[order], lengths, side="left")
    draws = rng.random(count)
    room = count - first - 1  # long enough, itself excluded
    chosen = first + np.floor(draws * room).astype(np.int64)
    chosen += (chosen >= position) & (room > 0)
    chosen = np.where(room > 0, chosen, count - 2)
    return order[chosen]


def donor_outputs(model: ModelAdapter, donors: Batch, batch: Batch) -> dict[AttentionSite, Tensor]:
    """The heads' outputs on a batch of donors, as wide as those of the batch they are for.

    Parameters
    ----------
    model, donors, batch
        The model, the batch whose outputs are taken, and the one that they are for.
    """
    outputs: dict[AttentionSite, Tensor] = {}

    def keep(site: AttentionSite, contexts: Tensor) -> None:
        real = donors.queries[site.kind].real
        wanted = batch.queries[site.kind].real.shape[1]
        outputs[site] = _align(contexts, real, wanted)

    with model.intercept(keep, donors):
        model.forward(donors)
    return outputs


def _align(contexts: Tensor, real: Tensor, wanted: int) -> Tensor:
    """Give each donor row `wanted` positions; past its end, its last real position repeats."""
    last = real.sum(dim=1) - 1
    positions = torch.arange(wanted, device=contexts.device)[None, :].minimum(last[:, None])
    rows = torch.arange(len(contexts), device=contexts.device)[:, None]
    return contexts[rows, positions].clone()
