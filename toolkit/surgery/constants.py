"""Constants that heads put out once they are gone, as part of the output projection's bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headtool.attention.gating import SiteHandle
from headtool.attention.weights import replace_weight, stored, weight_of
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite

__all__ = ["per_head", "shift_biases", "shifts_of", "without_bias"]


def per_head(handle: SiteHandle) -> Tensor:
    """View the output projection of a site by head, [H, D, out].

    Parameters
    ----------
    handle
        The site.
    """
    weight = weight_of(handle.module, "weight")
    columns = weight.T if isinstance(handle.module, nn.Linear) else weight
    return columns.reshape(handle.site.n_heads, handle.site.head_dim, -1)


def shifts_of(
    handles: Sequence[SiteHandle],
    gates: Mapping[AttentionSite, Tensor],
    constants: Mapping[AttentionSite, Tensor],
) -> dict[str, Tensor]:
    """Find what constants of closed heads add to the outputs of their projections.

    Parameters
    ----------
    handles
        The sites of the model.
    gates
        Gates of zero and one by site, [H].
    constants
        By site, what its closed heads put out [H, D]; sites left out add nothing.

    Returns
    -------
    dict
        By name of the projection, [out] in double precision.

    Raises
    ------
    HeadtoolError
        If layers share their weights, so that each would need a bias of its own.
    """
    found = {}
    for handle in handles:
        site = handle.site
        if site not in gates or site not in constants or gates[site].bool().all():
            continue
        if handle.calls > 1:
            raise HeadtoolError(
                f"{site.projection} serves several layers, which would each need a bias of their "
                "own; leave `replace` out"
            )
        is_closed = ~gates[site].bool()
        weight, constant = per_head(handle)[is_closed], constants[site].to(gates[site].device)
        shift = torch.einsum("hdo,hd->o", weight.double(), constant[is_closed].double())
        found[site.projection] = shift
    return found


def without_bias(module: nn.Module, shifts: Mapping[str, Tensor]) -> list[str]:
    """Name the projections that have no bias to be shifted.

    Parameters
    ----------
    module
        The model.
    shifts
        What `shifts_of` returned.
    """
    return [name for name in shifts if getattr(module.get_submodule(name), "bias", None) is None]


def shift_biases(
    module: nn.Module, shifts: Mapping[str, Tensor], *, added: Sequence[str] = ()
) -> None:
    """Add to the biases of output projections.

    Parameters
    ----------
    module
        The model; it is changed in place. All projections named have a bias.
    shifts
        What `shifts_of` returned.
    added
        Projections whose bias is new, and zero.
    """
    for name, shift in shifts.items():
        part: Any = module.get_submodule(name)
        if name in added:
            replace_weight(part, "bias", shift.to(part.bias.dtype))
        else:
            bias = stored(part, "bias")  # a new tensor takes its place: others may share it
            replace_weight(part, "bias", (bias.double() + shift.to(bias.device)).to(bias.dtype))
