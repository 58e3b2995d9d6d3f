"""Cross-entropy of tokens in pieces of the vocabulary's size, so that no logits are held twice.

A language model's logits take more memory than anything else: 2,560 tokens over 49,152 words are
half a gigabyte in float32, and the ordinary loss keeps five such tensors to be differentiated.
Here rows are widened, normalised and differentiated a few at a time, and their gradient takes the
place of the logits where nothing else can need them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["at_least_float32", "row_losses", "row_pieces", "token_losses"]

_ROOM = {"cpu": 1 << 21}  # entries of a piece: 8 MB in float32, which caches hold
_ROOM_ELSEWHERE = 1 << 25
# What makes logits from a product of matrices and needs the product no more to be differentiated.
_NEEDS_NO_OUTPUT = ("UnsafeViewBackward0", "ViewBackward0", "MmBackward0", "AddmmBackward0")


def at_least_float32(logits: Tensor) -> Tensor:
    """Widen half-precision logits: a loss over many tokens or classes needs the digits."""
    return logits if logits.dtype == torch.float64 else logits.float()


def token_losses(
    logits: Tensor, targets: Tensor, scored: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of every scored token.

    Parameters
    ----------
    logits
        Shape [B, T, V]. Where gradients are taken they may be overwritten by theirs: do not use
        them afterwards, and take gradients once.
    targets
        Token ids, shape [B, T]; anything where `scored` is False.
    scored
        Which positions count, boolean [B, T].
    label_smoothing
        Smoothing of the losses that are differentiated.

    Returns
    -------
    losses
        In nats, shape [B, T], differentiable; 0 where nothing is scored.
    plain
        The same without smoothing, detached.
    correct
        Whether the most probable token is right, boolean [B, T].
    """
    return _TokenLosses.apply(logits, targets, scored, label_smoothing)  # type: ignore[no-any-return,no-untyped-call]


class _TokenLosses(torch.autograd.Function):
    """Works row by row: a row is what the model says at one position."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, scored: Tensor, label_smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        flat, wanted = logits.flatten(0, 1), targets.flatten()
        rows = scored.flatten().nonzero()[:, 0]
        number = at_least_float32(logits[:0]).dtype
        losses = torch.zeros(len(flat), dtype=number, device=logits.device)
        plain, correct = losses.clone(), torch.zeros_like(losses, dtype=torch.bool)
        for some in row_pieces(rows, flat.shape[1]):
            taken = at_least_float32(flat[some])
            nll, correct[some], norm = row_losses(taken, wanted[some])
            plain[some] = nll
            if label_smoothing:
                uniform = norm - taken.mean(dim=1)
                nll = (1 - label_smoothing) * nll + label_smoothing * uniform
            losses[some] = nll
        ctx.save_for_backward(logits, wanted, rows)
        ctx.label_smoothing = label_smoothing
        made_by = logits.grad_fn
        ctx.overwrite = made_by is not None and made_by.name() in _NEEDS_NO_OUTPUT
        losses, plain, correct = (part.view(scored.shape) for part in (losses, plain, correct))
        ctx.mark_non_differentiable(plain, correct)
        return losses, plain, correct

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        logits, wanted, rows = ctx.saved_tensors
        flat = logits.flatten(0, 1)
        found = flat if ctx.overwrite else torch.empty_like(flat)
        smoothing, share = ctx.label_smoothing, ctx.label_smoothing / flat.shape[1]
        factors = upstream.flatten()
        for some in row_pieces(rows, flat.shape[1]):
            gradient = torch.log_softmax(at_least_float32(flat[some]), dim=1).exp_()
            if smoothing:
                gradient -= share
            gradient[torch.arange(len(some), device=some.device), wanted[some]] -= 1 - smoothing
            found[some] = (gradient * factors[some, None]).to(found.dtype)
        others = torch.ones(len(flat), dtype=torch.bool, device=flat.device)
        others[rows] = False
        found[others] = 0
        return found.view(logits.shape), None, None, None


def row_losses(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of each row.

    Parameters
    ----------
    logits
        Shape [N, V], float32 or wider; they stay as they are.
    targets
        Token ids, [N].

    Returns
    -------
    losses
        In nats, [N].
    correct
        Whether the target is the most probable, the first of several; boolean [N].
    normalisers
        Logarithm of the sum of the exponentials, [N].
    """
    top = logits.amax(dim=1)
    own = logits.gather(1, targets[:, None])[:, 0]
    total = (logits - top[:, None]).exp_().sum(dim=1)
    spread = total.log()
    correct = own == top
    # Two highest ones add one each to the sum. Looking for the first takes longer than all else.
    unsure = (correct & (total >= 2)).nonzero()[:, 0]
    if len(unsure):
        correct[unsure] = logits[unsure].argmax(dim=1) == targets[unsure]
    return spread + (top - own), correct, spread + top


def row_pieces(rows: Tensor, width: int) -> tuple[Tensor, ...]:
    """Split rows into pieces that are small enough to be worked on at once.

    Parameters
    ----------
    rows
        Shape [N, ...].
    width
        Numbers that each row stands for.
    """
    room = _ROOM.get(rows.device.type, _ROOM_ELSEWHERE)
    return torch.split(rows, max(1, room // width))
