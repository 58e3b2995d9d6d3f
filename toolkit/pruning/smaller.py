"""Prune and bake models with all that belongs to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headtool.attention.weights import copied
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask
from headtool.models.base import ModelAdapter
from headtool.surgery.constants import shift_biases, shifts_of, without_bias
from headtool.surgery.costs import Costs, count_costs
from headtool.surgery.history import History, record_history
from headtool.surgery.removal import open_gates, remove_heads, scale_projection
from headtool.surgery.tracing import unit_name

__all__ = ["Pruned", "bake", "prune"]

_LENGTH = 128


@dataclass(frozen=True)
class Pruned:
    """A smaller model, and what became of it.

    Attributes
    ----------
    model
        The model, ready for all that headtool does.
    history
        What is gone.
    difference
        Largest difference of its outputs from the masked model's, relative to the largest output.
    before, after
        Costs of the model that it was made from, and its own; operations for a sequence of
        `length` tokens.
    length
        That length.
    """

    model: ModelAdapter
    history: History
    difference: float
    before: Costs
    after: Costs
    length: int


def prune(
    model: ModelAdapter,
    mask: HeadMask,
    scales: Mapping[AttentionSite, Tensor] | None = None,
    *,
    share: bool = False,
    constants: Mapping[AttentionSite, Tensor] | None = None,
) -> Pruned:
    """Remove the heads that a mask closes; the given model stays as it is.

    Parameters
    ----------
    model
        The model; pruned ones can be pruned further.
    mask
        The heads to keep. Sites that it does not speak of stay whole.
    scales
        By site, what the outputs of its heads are multiplied by [H]; one by default. See
        `headtool.pruning.rescaling`.
    share
        Let the smaller model have the very weights that stay as they are, which saves their memory.
        Then neither may be trained.
    constants
        By site, what its heads put out once they are gone [H, D]; zero by default. They become part
        of the output projection's bias, so that the model computes what the masked one does under
        that replacement. A projection without a bias gets one.

    Raises
    ------
    HeadtoolError
        If no head would be left, or if heads cannot be removed from this model.
    """
    removed = remove_heads(
        model.module, model.handles, model.probe, mask, scales, constants=constants, share=share
    )
    history = History.of(model.module, model.sites).after(mask, removed.plan.to_json())
    record_history(removed.module, history)
    smaller = model.with_module(removed.module)
    names = list(dict.fromkeys(unit_name(model.module, handle) for handle in model.handles))
    length = min(_LENGTH, model.max_length or _LENGTH)
    before, after = (
        count_costs(
            part.module, names, part.probe(part.module, batch=1, source=length, target=length)
        )
        for part in (model, smaller)
    )
    return Pruned(smaller, history, removed.difference, before, after, length)


def bake(
    model: ModelAdapter,
    mask: HeadMask,
    scales: Mapping[AttentionSite, Tensor] | None = None,
    *,
    share: bool = False,
    constants: Mapping[AttentionSite, Tensor] | None = None,
) -> ModelAdapter:
    """Zero the columns of the output projections that read closed heads, in a copy of the model.

    Nothing becomes smaller or faster, and any software loads it; the closed heads put out nothing,
    or constants.

    Parameters
    ----------
    model, mask, scales, share, constants
        As for `prune`.

    Raises
    ------
    HeadtoolError
        If no head would be left, if layers that share their weights would have to differ, or if the
        architecture has no biases that hold the constants.
    """
    shifts = shifts_of(model.handles, open_gates(model.handles, mask), constants or {})
    if without_bias(model.module, shifts):
        model = model.with_biases()
    gates = {**open_gates(model.handles, mask), **(scales or {})}
    wanted: dict[str, Tensor] = {}
    for site, factors in gates.items():
        if not torch.equal(wanted.setdefault(site.projection, factors), factors):
            raise HeadtoolError(
                f"{site.projection} serves several layers, so the same heads must go from all of "
                "them; close them in each"
            )
    baked = copied(model.module, share=share)
    for site in {site.projection: site for site in gates}.values():
        scale_projection(baked, site, gates[site])
    shift_biases(baked, shifts)
    return model.with_module(baked)
