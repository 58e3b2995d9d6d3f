"""Remove heads from a model: carry out a plan on a copy, and compare the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headtool.attention.gating import Gating, SiteHandle, intercept
from headtool.attention.probing import Probe
from headtool.attention.weights import copied, replace_weight, stored
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask
from headtool.surgery.constants import shift_biases, shifts_of, without_bias
from headtool.surgery.modules import BiasOnly
from headtool.surgery.plan import Plan, carry_out
from headtool.surgery.planning import make_plan
from headtool.surgery.tracing import trace

__all__ = [
    "Removed",
    "open_gates",
    "relative_difference",
    "remove_heads",
    "scale_projection",
]

_TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.bfloat16: 0.05,  # what rounding at every step adds up to
    torch.float16: 0.01,
}

# Raised by attention code that was written for another number of heads.
_FAILURES = (
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class Removed:
    """A model without some of its heads.

    Attributes
    ----------
    module
        The smaller model, in evaluation mode.
    plan
        What was changed.
    difference
        Largest difference of its outputs from the masked model's, relative to the largest output.
    """

    module: nn.Module
    plan: Plan
    difference: float


def remove_heads(
    module: nn.Module,
    handles: Sequence[SiteHandle],
    probe: Callable[[nn.Module], Probe],
    mask: HeadMask,
    scales: Mapping[AttentionSite, Tensor] | None = None,
    *,
    share: bool = False,
    constants: Mapping[AttentionSite, Tensor] | None = None,
) -> Removed:
    """Remove the heads that a mask closes, from a copy of the model.

    Parameters
    ----------
    module
        The model, in evaluation mode; it stays as it is.
    handles
        Its sites.
    probe
        Makes a forward pass of a model, on which the outputs of the smaller model are compared with
        those of the masked one.
    mask
        Which heads to keep. Sites that it does not speak of stay whole.
    scales
        By site, what the outputs of its heads are multiplied by [H]; one by default.
    share
        Let the copy have the very weights that stay as they are; see `copied`.
    constants
        By site, what its heads put out once they are gone [H, D], which becomes part of the output
        projection's bias; zero by default. Not together with `scales`.

    Raises
    ------
    HeadtoolError
        If no head would be left, if layers that share their weights would have to differ, or if the
        smaller model does not compute what the masked one does.
    """
    closed = open_gates(handles, mask)
    whole = probe(module)
    shifts = shifts_of(handles, closed, constants or {})
    gating = Gating({**closed, **(scales or {})}, constants)
    with torch.inference_mode(), intercept(handles, gating, batch=whole.batch):
        masked = whole.predict()
    plan = make_plan(trace(module, handles, whole), closed, whole.batch)
    plan = replace(plan, biases_added=without_bias(module, shifts))
    smaller = copied(module, share=share)
    try:
        carry_out(plan, smaller)
        for site, factors in (scales or {}).items():
            scale_projection(smaller, site, factors[closed[site].bool()])
        shift_biases(smaller, shifts, added=plan.biases_added)
        with torch.inference_mode():
            output = probe(smaller).predict()
    except _FAILURES as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise _refusal(module, f"its code does not take fewer heads ({reason[:120]})") from error
    difference = relative_difference(output, masked)
    if not difference <= _TOLERANCE[masked.dtype]:
        raise _refusal(module, f"outputs would differ from the masked model's by {difference:.1e}")
    return Removed(smaller, plan, difference)


def relative_difference(actual: Tensor, wanted: Tensor) -> float:
    """Largest absolute difference, relative to the largest absolute value wanted.

    Parameters
    ----------
    actual, wanted
        Tensors of one shape.
    """
    if actual.shape != wanted.shape:
        return float("inf")
    difference = (actual.double() - wanted.double()).abs().max()
    return float(difference / wanted.double().abs().max().clamp_min(1e-30))


def scale_projection(module: nn.Module, site: AttentionSite, factors: Tensor) -> None:
    """Multiply the columns of a site's output projection by its heads' factors.

    Parameters
    ----------
    module
        The model; it is changed in place.
    site
        The site.
    factors
        One per head, shape [H].
    """
    projection: Any = module.get_submodule(site.projection)
    if isinstance(projection, BiasOnly):
        return
    weight = stored(projection, "weight")
    columns = factors.repeat_interleave(site.head_dim).to(weight)
    # GPT-2's is transposed. A new tensor: the model that this one is a copy of may share the old.
    linear = isinstance(projection, nn.Linear)
    replace_weight(projection, "weight", weight * (columns if linear else columns[:, None]))


def open_gates(handles: Sequence[SiteHandle], mask: HeadMask) -> dict[AttentionSite, Tensor]:
    """Return a mask as gates of zero and one by site, each of shape [H].

    Parameters
    ----------
    handles
        The sites of the model.
    mask
        Which heads are open.

    Raises
    ------
    HeadtoolError
        If the mask closes every head.
    """
    gates = {
        handle.site: torch.from_numpy(mask.at(handle.site).copy()).to(
            stored(handle.module, "weight")
        )
        for handle in handles
        if handle.site in mask.sites.items
    }
    if len(gates) == len(handles) and not mask.open.any():
        raise HeadtoolError(
            f"that would remove all {mask.sites.n_heads} heads of the model; keep at least one"
        )
    return gates


def _refusal(module: nn.Module, reason: str) -> HeadtoolError:
    return HeadtoolError(
        f"heads of {type(module).__name__} cannot be removed: {reason}; `bake` writes a model of "
        "full size in which they put out nothing"
    )
