"""Forward passes whose rows are under different masks, from the first block that these change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from headtool.attention.gating import Gating
from headtool.heads import AttentionSite, Kind
from headtool.models.examples import Batch
from headtool.models.generation import Filling, Gates
from headtool.models.huggingface.network import HuggingFaceNetwork

__all__ = ["blocks_of", "gated", "taken"]


def gated(
    model: HuggingFaceNetwork,
    sites: Sequence[AttentionSite],
    masks: Sequence[Gates],
    owners: Sequence[int],
    filling: Filling,
) -> AbstractContextManager[None]:
    """Gate each row of the passes inside by its own mask.

    Parameters
    ----------
    model
        The model.
    sites
        Those that are gated.
    masks
        Gates of each mask.
    owners
        Number of each row's mask, [R].
    filling
        What closed heads put out; None for zero.
    """
    used = sorted(set(owners))
    sites = [site for site in sites if any(site in masks[number] for number in used)]
    if not sites:
        return nullcontext()
    place = {number: row for row, number in enumerate(used)}
    rows = torch.tensor([place[number] for number in owners], device=model.device)
    gates = {}
    for site in sites:
        is_open = torch.ones(site.n_heads, device=model.device)
        gates[site] = torch.stack([masks[n].get(site, is_open) for n in used])[rows]
    as_many = Batch(np.zeros(len(owners), dtype=np.int64), {}, rows, {})
    return model.intercept(Gating(gates, filling), as_many)


def blocks_of(model: HuggingFaceNetwork, kind: Kind) -> Mapping[AttentionSite, nn.Module]:
    """Return the blocks of the sites of a kind; none if any is shared.

    A block is named up to the first number in the path of a site.

    Parameters
    ----------
    model
        The model.
    kind
        Kind of attention.
    """
    handles = [handle for handle in model.handles if handle.site.kind == kind]
    paths = [re.match(r".*?\.\d+(?=\.)", handle.site.projection) for handle in handles]
    if any(handle.calls > 1 for handle in handles) or None in paths:
        return {}
    return {
        handle.site: model.module.get_submodule(cast("re.Match[str]", path)[0])
        for handle, path in zip(handles, paths, strict=True)
    }


def taken(output: Any, index: Tensor, rows: int) -> Any:
    """Take rows of what a block put out.

    Parameters
    ----------
    output
        Tensors in tuples; those that all rows share are left as they are.
    index
        Which rows, or rows more than once.
    rows
        How many there are.
    """
    if isinstance(output, Tensor):
        return output[index] if len(output) == rows else output
    if isinstance(output, tuple):
        return tuple(taken(part, index, rows) for part in output)
    return output
