"""Refit the scales of the heads that stay to what the whole model computes; no labels needed.

Site by site in the order of the forward pass, the scales s of the open heads minimise

    sum over tokens of || sum_h s_h W_O^h ctx_h - W_O ctx* ||^2,

ctx the heads' outputs in the masked model, with the scales found so far, and ctx* those in the
whole model. The normal equations are solved with a small ridge towards scales of one, so that heads
that are never used, or that do the same, keep theirs.

References
----------
Kwon et al. 2022, "A Fast Post-Training Pruning Framework for Transformers", sec. 3.3. They fit the
output of the layer with its residual stream; here it is that of the attention, which no assumption
about the layers around it is needed for.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask
from headtool.models.base import Batch, Examples, ModelAdapter
from headtool.models.gating import SiteHandle
from headtool.progress import Progress, silent

__all__ = ["least_squares_scales"]

_RIDGE = 1e-4  # relative to the mean diagonal element of the normal equations


def least_squares_scales(
    model: ModelAdapter, examples: Examples, mask: HeadMask, *, progress: Progress = silent
) -> dict[AttentionSite, Tensor]:
    """Find scales of the heads that a mask leaves open.

    Parameters
    ----------
    model
        The whole model; left as it is.
    examples
        Some hundred are enough; their labels are not used.
    mask
        The heads that stay. Sites that it does not speak of stay whole, with scales of one.
    progress
        Reports progress.

    Returns
    -------
    dict
        Scales by site, [H]; zero for closed heads.
    """
    if any(handle.calls > 1 for handle in model.handles):
        raise HeadtoolError(
            "layers of this model share their weights, so their heads cannot be scaled one by one; "
            "leave --rescale out"
        )
    scales = {
        site: torch.from_numpy(mask.at(site).copy()).to(model.device, torch.float64)
        for site in mask.sites
    }
    changed = _in_order(model, examples, scales)
    for handle in progress(changed, total=len(changed), label="rescale"):
        if scales[handle.site].any():
            scales[handle.site] = _fit(model, examples, handle, scales)
    return scales


def _in_order(
    model: ModelAdapter, examples: Examples, scales: Mapping[AttentionSite, Tensor]
) -> list[SiteHandle]:
    """Sites from the first on that a mask changes, in the order of the forward pass."""
    batch = model.collate(examples, examples.batches()[0][:1])
    order: list[AttentionSite] = []
    with torch.no_grad(), model.intercept(lambda site, contexts: order.append(site), batch):
        model.forward(batch)
    handles = {handle.site: handle for handle in model.handles}
    first = next(i for i, site in enumerate(order) if site in scales and not scales[site].all())
    return [handles[site] for site in order[first:] if site in scales]


def _fit(
    model: ModelAdapter,
    examples: Examples,
    handle: SiteHandle,
    scales: Mapping[AttentionSite, Tensor],
) -> Tensor:
    """Solve the normal equations of one site."""
    is_open = scales[handle.site].nonzero()[:, 0]
    gram = torch.zeros(len(is_open), len(is_open), dtype=torch.float64, device=model.device)
    moment = torch.zeros(len(is_open), dtype=torch.float64, device=model.device)
    for index in examples.batches():
        batch = model.collate(examples, index)
        real = batch.queries[handle.site.kind].real
        wanted = _contexts(model, batch, handle.site, {})[real]
        given = _contexts(model, batch, handle.site, scales)[real][:, is_open]
        target = torch.einsum("thd,hdo->to", wanted, _per_head(handle))
        parts = torch.einsum("thd,hdo->tho", given, _per_head(handle)[is_open])
        gram += torch.einsum("tho,tgo->hg", parts, parts).double()
        moment += torch.einsum("tho,to->h", parts, target).double()
    ridge = _RIDGE * gram.diagonal().mean().clamp_min(1e-30)
    damped = gram + ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    fitted = 1 + torch.linalg.solve(damped, moment - gram.sum(dim=1))
    result = scales[handle.site].clone()
    result[is_open] = fitted
    return result


def _contexts(
    model: ModelAdapter,
    batch: Batch,
    wanted: AttentionSite,
    scales: Mapping[AttentionSite, Tensor],
) -> Tensor:
    """The heads' outputs at a site [B, T, H, D], the sites before it scaled."""
    seen: list[Tensor] = []

    def handler(site: AttentionSite, contexts: Tensor) -> Tensor | None:
        if site == wanted:
            seen.append(contexts)
            return None
        if site not in scales:
            return None
        return contexts * scales[site].to(contexts)[:, None]

    with torch.no_grad(), model.intercept(handler, batch):
        model.forward(batch)
    return seen[0]


def _per_head(handle: SiteHandle) -> Tensor:
    """The output projection by head, [H, D, out]."""
    weight = handle.module.get_parameter("weight").detach()
    columns = weight.T if isinstance(handle.module, nn.Linear) else weight
    return columns.reshape(handle.site.n_heads, handle.site.head_dim, -1)
