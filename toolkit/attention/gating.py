"""The one place where headtool reaches into a forward pass.

Every head's output meets the output projection's input, so a forward pre-hook there sees all heads
of a site, whatever attention implementation (eager, SDPA, flash) produced them. What happens to
them is a *handler*'s business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headtool.heads import AttentionSite

__all__ = ["Gating", "Handler", "Layout", "SiteHandle", "intercept"]

Layout = Literal["batch-first", "time-first", "flat"]

Handler = Callable[[AttentionSite, Tensor], Tensor | None]
"""Takes a site and its heads' outputs [B, T, H, D]; returns new ones, or None to leave them."""


@dataclass(frozen=True)
class SiteHandle:
    """Where a site lives in the module tree.

    Attributes
    ----------
    site
        The site.
    module
        Its output projection.
    layout
        How that projection's input is laid out: [B, T, H*D], [T, B, H*D] or [B*T, H*D].
    call, calls
        The site is the `call`-th of `calls` uses of the projection in one forward pass (shared
        layers use theirs more than once).
    owner
        The module that computes the attention; None where it is not known.
    """

    site: AttentionSite
    module: nn.Module
    layout: Layout
    call: int = 0
    calls: int = 1
    owner: nn.Module | None = None

    def split(self, projected: Tensor, batch: int) -> Tensor:
        """View the projection's input head by head.

        Parameters
        ----------
        projected
            The input of the output projection, laid out as `layout` says.
        batch
            Rows in the batch, B.

        Returns
        -------
        Tensor
            A view of it, shape [B, T, H, D].
        """
        heads = (self.site.n_heads, self.site.head_dim)
        if self.layout == "flat":
            return projected.view(batch, -1, *heads)
        per_head = projected.view(*projected.shape[:2], *heads)
        return per_head.transpose(0, 1) if self.layout == "time-first" else per_head

    def join(self, contexts: Tensor, like: Tensor) -> Tensor:
        """Undo `split`.

        Parameters
        ----------
        contexts
            The heads' outputs, shape [B, T, H, D].
        like
            The projection's original input, whose shape the result takes.
        """
        if self.layout == "time-first":
            contexts = contexts.transpose(0, 1)
        return contexts.reshape(like.shape)


@contextlib.contextmanager
def intercept(
    handles: Sequence[SiteHandle],
    handler: Handler,
    *,
    batch: int,
    device: torch.device | None = None,
) -> Iterator[None]:
    """Let `handler` see, and change, the heads' outputs of every forward pass inside.

    Parameters
    ----------
    handles
        The sites to watch.
    handler
        Called for each site in the order of the forward pass.
    batch
        Rows in a batch (only the flat layout needs it).
    device
        Where the handler sees the outputs, wherever their layer is; None: where they are.

    Nothing stays attached afterwards, even when a forward pass raises. Enter again after that: the
    uses of a shared projection are counted, so forward passes inside must be complete.
    """
    by_module: dict[nn.Module, list[SiteHandle]] = {}
    for handle in handles:
        by_module.setdefault(handle.module, []).append(handle)
    with contextlib.ExitStack() as stack:
        for module, uses in by_module.items():
            hook = module.register_forward_pre_hook(_ProjectionHook(uses, handler, batch, device))
            stack.callback(hook.remove)
        yield


class _ProjectionHook:
    """Counts the calls of one projection and passes each to the handler under its site."""

    def __init__(
        self,
        uses: Sequence[SiteHandle],
        handler: Handler,
        batch: int,
        device: torch.device | None,
    ) -> None:
        self.uses = {use.call: use for use in uses}
        self.calls = uses[0].calls
        self.handler = handler
        self.batch = batch
        self.device = device
        self.seen = 0

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        use = self.uses.get(self.seen % self.calls)
        self.seen += 1
        if use is None:
            return None
        projected = args[0] if self.device is None else args[0].to(self.device)
        changed = self.handler(use.site, use.split(projected, self.batch))
        if changed is None:
            return None
        return (use.join(changed, args[0]).to(args[0].device), *args[1:])


@dataclass(frozen=True)
class Gating:
    """Handler that multiplies heads by gates, and fills what a closed gate leaves.

    The output of head h becomes ``gate * ctx + (1 - gate) * replacement``; without a replacement
    it is ``gate * ctx``. Gates of one change nothing.

    Attributes
    ----------
    gates
        Per site, gates of shape [H] or [B, H]; sites not named stay as they are.
    replacements
        Per site, what a closed head puts out instead of zero, broadcastable to [B, T, H, D].
    """

    gates: Mapping[AttentionSite, Tensor]
    replacements: Mapping[AttentionSite, Tensor] | None = None

    def __call__(self, site: AttentionSite, contexts: Tensor) -> Tensor | None:
        """Gate the heads of one site; see `Handler`."""
        gates = self.gates.get(site)
        if gates is None:
            return None
        gates = gates.to(contexts)
        gates = gates[:, None, :, None] if gates.ndim == 2 else gates[:, None]
        if self.replacements is None:
            return contexts * gates
        return contexts * gates + self.replacements[site].to(contexts) * (1 - gates)
