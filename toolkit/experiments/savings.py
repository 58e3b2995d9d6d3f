"""What a smaller model saves, by the unit that was asked for and by the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask
from headtool.masks.selection import UNITS
from headtool.models.base import ModelAdapter
from headtool.pruning.smaller import Pruned
from headtool.pruning.smaller import prune as prune_model

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["note_of_scales", "other_savings", "savings"]


def note_of_scales(scales: Mapping[AttentionSite, Tensor], examples: int) -> list[str]:
    """Say by how much the heads that stay were rescaled; in a line, if any stay.

    Parameters
    ----------
    scales
        By site, what the outputs of its heads are multiplied by.
    examples
        On how many examples they were found.
    """
    import torch

    of_open = torch.cat([scale[scale != 0] for scale in scales.values()])
    if not len(of_open):
        return []
    return [
        f"heads that stay were rescaled on {examples} examples, by "
        f"{of_open.min():.3g} to {of_open.max():.3g}"
    ]


def savings(unit: str, mask: HeadMask, pruned: Pruned) -> dict[str, Any]:
    """Make a row of the table ``savings`` of `headtool.schema`.

    Parameters
    ----------
    unit
        ``head`` or ``group``.
    mask
        Closes the heads that are gone.
    pruned
        The smaller model.
    """
    before, after = dataclasses.asdict(pruned.before), dataclasses.asdict(pruned.after)
    row: dict[str, Any] = {"unit": unit, "heads_removed": len(mask.closed)}
    for name, value in before.items():
        row |= {name: value, f"{name}_after": after[name]}
    return row | {"sequence_length": pruned.length, "difference": pruned.difference}


def other_savings(
    model: ModelAdapter, choose: Callable[[str], HeadMask], unit: str
) -> list[dict[str, Any]]:
    """Say what the other unit would save; nothing where it cannot remove so many heads.

    Parameters
    ----------
    model
        The whole model.
    choose
        Takes a unit; returns the mask that closes as many heads by it.
    unit
        The unit that was asked for.
    """
    other = next(name for name in UNITS if name != unit)
    try:
        mask = choose(other)
        return [savings(other, mask, prune_model(model, mask, share=True))]
    except HeadtoolError:
        return []
