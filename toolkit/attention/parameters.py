"""How many parameters a head owns: what physical removal of it would save."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from headtool.attention.discovery import is_linear
from headtool.attention.gating import SiteHandle

__all__ = ["HeadParameters", "head_parameters"]


@dataclass(frozen=True)
class HeadParameters:
    """Parameters that go with heads of one site.

    Attributes
    ----------
    per_head
        Those that only one query head uses: its rows of W_Q (and W_K, W_V where it does not share
        them) with their biases, and its columns of W_O.
    per_group
        Those of one key/value group, which go when its last head does; 0 where nothing is shared.
    """

    per_head: int
    per_group: int


def head_parameters(model: nn.Module, handle: SiteHandle) -> HeadParameters:
    """Count the parameters of a head of this site and of one of its key/value groups.

    The projections of queries, keys and values are the other linear layers of the smallest module
    around the output projection that has any; they may be fused.

    Parameters
    ----------
    model
        The model that the site belongs to.
    handle
        The site.
    """
    site = handle.site
    per_head = _size(handle.module, bias=False) // site.n_heads
    inputs = _input_projections(model, handle)
    if site.n_kv_heads == site.n_heads:
        return HeadParameters(per_head + sum(map(_size, inputs)) // site.n_heads, 0)
    # Rows split between queries and keys and values as their widths do, fused or not.
    query_share = site.n_heads / (site.n_heads + 2 * site.n_kv_heads)
    total = sum(map(_size, inputs))
    queries = round(total * query_share)
    return HeadParameters(per_head + queries // site.n_heads, (total - queries) // site.n_kv_heads)


def _input_projections(model: nn.Module, handle: SiteHandle) -> list[nn.Module]:
    path = handle.site.projection.split(".")
    for depth in range(len(path) - 1, 0, -1):
        around = model.get_submodule(".".join(path[:depth]))
        others = [
            part for part in around.modules() if is_linear(part) and part is not handle.module
        ]
        if others:
            return others
    return []


def _size(linear: nn.Module, *, bias: bool = True) -> int:
    weights = dict(linear.named_parameters(recurse=False))
    return sum(weight.numel() for name, weight in weights.items() if bias or name != "bias")
