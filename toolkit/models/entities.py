"""Entities in sequences of tags, counted as seqeval counts them by default.

A tag is ``O``, or ``B``, ``I``, ``E`` or ``S`` with a type behind it (``B-PER``). Where an entity
starts and ends follows from two neighbouring tags, whichever of IOB1, IOB2 or IOBES they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Tags", "entity_counts", "read_tags"]


@dataclass(frozen=True)
class Tags:
    """What follows from two neighbouring tags; number L, behind all tags, stands for none.

    Attributes
    ----------
    starts, ends
        Whether an entity starts, and whether one ends, between a tag and the next, boolean
        [L + 1, L + 1].
    types
        Number of each tag's type, [L + 1].
    """

    starts: Tensor
    ends: Tensor
    types: Tensor


def read_tags(labels: Sequence[str]) -> Tags:
    """Say what follows from each pair of tags.

    Parameters
    ----------
    labels
        L tags for which `headtool.metrics.tagging.mark_entities` holds.

    References
    ----------
    Nakayama (2018), seqeval: a Python framework for sequence labeling evaluation.
    """
    parts = [(label[0], label[1:].removeprefix("-") or "_") for label in labels]
    parts.append(("O", "_"))
    starts = [[_starts(*before, *after) for after in parts] for before in parts]
    ends = [[_ends(*before, *after) for after in parts] for before in parts]
    known = sorted({kind for _, kind in parts})
    types = [known.index(kind) for _, kind in parts]
    return Tags(torch.tensor(starts), torch.tensor(ends), torch.tensor(types))


def _starts(before: str, old: str, after: str, new: str) -> bool:
    if after == "O":
        return False
    return after in "BS" or before in "OES" or old != new


def _ends(before: str, old: str, after: str, new: str) -> bool:
    if before == "O":
        return False
    return before in "ES" or after in "BSO" or old != new


def entity_counts(predicted: Tensor, gold: Tensor, scored: Tensor, tags: Tags) -> dict[str, Tensor]:
    """Count entities of each row.

    Parameters
    ----------
    predicted, gold
        Numbers of tags, [B, T]; anything where nothing is scored.
    scored
        Which positions have a tag, boolean [B, T]; the others are left out, and their neighbours
        are neighbours.
    tags
        What follows from two tags.

    Returns
    -------
    dict
        ``entities_right`` (of the same type, from the same to the same position),
        ``entities_predicted`` and ``entities_gold``, [B] each.
    """
    order = (~scored).int().argsort(dim=1, stable=True)
    present = scored.gather(1, order)
    none = len(tags.types) - 1
    found = []
    for numbers in (predicted, gold):
        row = numbers.gather(1, order).masked_fill(~present, none)
        edge = torch.full_like(row[:, :1], none)
        row = torch.cat([edge, row, edge], dim=1)
        before, after = row[:, :-1], row[:, 1:]
        starts = tags.starts.to(row.device)[before, after]
        ends = tags.ends.to(row.device)[before, after]
        # Where the entity ends that is open behind each place: the next end, from the right.
        places = torch.arange(ends.shape[1], device=row.device).expand_as(ends)
        later = places.masked_fill(~ends, ends.shape[1]).flip(1).cummin(dim=1).values.flip(1)
        until = torch.cat([later[:, 1:], torch.full_like(later[:, :1], ends.shape[1])], dim=1)
        found.append((starts, until, tags.types.to(row.device)[after]))
    (starts, until, types), (gold_starts, gold_until, gold_types) = found
    right = starts & gold_starts & (until == gold_until) & (types == gold_types)
    return {
        "entities_right": right.sum(dim=1),
        "entities_predicted": starts.sum(dim=1),
        "entities_gold": gold_starts.sum(dim=1),
    }
