"""Refit the scales of the heads that stay to what the whole model computes; no labels needed.

Site by site in the order of the forward pass, the scales s of the open heads minimise

    sum over tokens of || x + sum_h s_h W_O^h ctx_h - (x* + W_O ctx*) ||^2,

x what the attention's output is added to (the residual stream) and ctx the heads' outputs, both in
the masked model with the scales found so far; x* and ctx* are those of the whole model. So a site
also makes up for what the sites before it left wrong. Where the output is not added to anything as
it is (a norm may come first), x and x* are zero. The normal equations are solved with a small ridge
towards scales of one, so that heads that are never used, or that do the same, keep theirs. A site
whose scales leave [-10, 10] stays at one.

References
----------
Kwon et al. 2022, "A Fast Post-Training Pruning Framework for Transformers", sec. 4.3. Their damping
is absolute, relative to nothing, and theirs ends at the first layer whose scales leave [-10, 10].
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headtool.attention.gating import SiteHandle
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.progress import Progress, counted, silent
from headtool.surgery.constants import per_head

__all__ = ["least_squares_scales"]

_LOG = logging.getLogger("headtool")
_RIDGE = 1e-4  # relative to the mean diagonal element of the normal equations
_LARGEST = 10.0
_SUMS = {
    torch.add,
    Tensor.add,
    Tensor.add_,
    Tensor.__add__,
    Tensor.__radd__,
    Tensor.__iadd__,
}


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
            "leave `rescale` out"
        )
    scales = {
        site: torch.from_numpy(mask.at(site).copy()).to(model.device, torch.float64)
        for site in mask.sites
    }
    changed = _in_order(model, examples, scales)
    each = 2.0 * float(examples.lengths.sum())
    for handle in counted(
        progress, changed, total=len(changed), label="rescale", work=lambda handle: each
    ):
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
    columns = per_head(handle).to(model.device)  # as the heads' outputs are seen
    for index in examples.batches():
        batch = model.collate(examples, index)
        real = batch.queries[handle.site.kind].real
        whole = _look(model, batch, handle, {})
        masked = _look(model, batch, handle, scales)
        target = torch.einsum("thd,hdo->to", whole.contexts[real], columns)
        if whole.stream is not None and masked.stream is not None:
            target = target + (whole.stream - masked.stream).to(target.device)[real]
        given = masked.contexts[real][:, is_open]
        parts = torch.einsum("thd,hdo->tho", given, columns[is_open])
        gram += torch.einsum("tho,tgo->hg", parts, parts).double()
        moment += torch.einsum("tho,to->h", parts, target).double()
    ridge = _RIDGE * gram.diagonal().mean().clamp_min(1e-30)
    damped = gram + ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    fitted = 1 + torch.linalg.solve(damped, moment - gram.sum(dim=1))
    result = scales[handle.site].clone()
    if fitted.isfinite().all() and fitted.abs().max() <= _LARGEST:
        result[is_open] = fitted
    else:
        _LOG.warning(
            "the scales of %s would leave -%g to %g, and stay at one", handle.site, *[_LARGEST] * 2
        )
    return result


@dataclass(frozen=True)
class _Seen:
    """What a forward pass showed at one site.

    `contexts` are the heads' outputs [B, T, H, D]; `stream` is what their projection was added to
    [B, T, width], None where it was not added to anything as it was.
    """

    contexts: Tensor
    stream: Tensor | None


def _look(
    model: ModelAdapter, batch: Batch, handle: SiteHandle, scales: Mapping[AttentionSite, Tensor]
) -> _Seen:
    """Run a batch, the sites before one scaled, and look at that one."""
    seen: list[Tensor] = []
    sums = _FirstSum()

    def handler(site: AttentionSite, contexts: Tensor) -> Tensor | None:
        if site == handle.site:
            seen.append(contexts)
            return None
        if site not in scales:
            return None
        return contexts * scales[site].to(contexts)[:, None]

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(model.intercept(handler, batch))
        stack.callback(handle.module.register_forward_hook(sums.begin).remove)
        stack.enter_context(sums)
        model.forward(batch)
    return _Seen(seen[0], None if sums.other is None else _rows(handle, sums.other, len(batch)))


def _rows(handle: SiteHandle, output: Tensor, batch: int) -> Tensor:
    """View what is laid out as a projection's output as [B, T, width]."""
    if handle.layout == "flat":
        return output.view(batch, -1, output.shape[-1])
    return output.transpose(0, 1) if handle.layout == "time-first" else output


class _FirstSum(TorchFunctionMode):
    """Finds the first sum that a projection's output enters as it is, and what it is added to."""

    def __init__(self) -> None:
        super().__init__()
        self.output: Tensor | None = None
        self.other: Tensor | None = None

    def begin(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        """Note the output of the projection; a forward hook."""
        self.output = output

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _SUMS and self.output is not None and self.other is None and not kwargs:
            pair = [part for part in args[:2] if isinstance(part, Tensor)]
            others = [part for part in pair if not self._is_output(part)]
            if len(pair) == 2 and len(others) == 1 and others[0].shape == self.output.shape:
                self.other = others[0].clone()
        return func(*args, **(kwargs or {}))

    def _is_output(self, part: Tensor) -> bool:
        """Whether a tensor is the output itself; dropout hands on what it was given."""
        output = self.output
        assert output is not None
        return part.data_ptr() == output.data_ptr() and part.shape == output.shape
