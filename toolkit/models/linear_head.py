"""Losses of the scored positions alone, without ever holding the logits of a batch.

The layer that makes logits of hidden states is most of the work above the last attention: with a
vocabulary of 50,000 it costs as much as five layers of GPT-2. So it is given the scored positions
only, some at a time, in memory that is used again. It is found, not listed: the last linear layer
of a pass, if what it returns is the logits to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headtool.models.examples import token_columns, token_sums
from headtool.models.token_loss import at_least_float32, row_losses, row_pieces

__all__ = ["TokenScorer"]

_ROOM = {"cpu": 1 << 24}  # logits held at once: 64 MB in float32; fewer rows multiply more slowly
_ROOM_ELSEWHERE = 1 << 27


class _Reached(Exception):  # noqa: N818 - a jump out of a forward pass, not an error
    """Carries the hidden states out of a forward pass that is cut short before the logits."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


class TokenScorer:
    """Computes the losses of tokens where no gradient is taken.

    Parameters
    ----------
    module
        The model; it is hooked only inside a call.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.tried = False
        self.head: nn.Linear | None = None  # None: the logits are not a linear layer's

    def __call__(
        self, run: Callable[[], Tensor], targets: Tensor, scored: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Run the model, and return what `token_columns` does.

        Parameters
        ----------
        run
            A forward pass that returns logits, [B, T, V].
        targets
            Token ids, [B, T]; anything where `scored` is False.
        scored
            Which positions count, boolean [B, T].
        """
        if self.tried and self.head is None:
            return token_columns(run(), targets, scored)
        if self.head is None:
            logits, found = _last_linear(self.module, run)
            self.tried = True
            if found is None:
                return token_columns(logits, targets, scored)
            self.head, hidden = found
        else:
            hidden = _before(self.head, run)
        hidden = hidden[scored]
        number = at_least_float32(hidden[:0]).dtype
        losses = torch.zeros(scored.shape, dtype=number, device=hidden.device)
        correct = torch.zeros_like(scored)
        parts = [
            row_losses(at_least_float32(some), wanted)[:2]
            for logits, right in _logits(self.head, hidden, targets[scored])
            for some, wanted in _pieces(logits, right)
        ]
        if parts:
            nll, right = (torch.cat(part) for part in zip(*parts, strict=True))
            losses[scored], correct[scored] = nll, right
        return losses.sum(dim=1), token_sums(losses, correct, scored)


def _before(head: nn.Linear, run: Callable[[], Tensor]) -> Tensor:
    """What a pass gives to its last layer; it is cut short there."""

    def stop(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        raise _Reached(inputs[0])

    hook = head.register_forward_pre_hook(stop, prepend=True)
    try:
        run()
    except _Reached as reached:
        return reached.hidden
    finally:
        hook.remove()
    raise AssertionError("the pass did not call the layer that made its logits before")


def _logits(head: nn.Linear, hidden: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits of some rows [N, D] at a time, with their targets; the next ones take their place."""
    rows = max(1, _ROOM.get(hidden.device.type, _ROOM_ELSEWHERE) // head.out_features)
    held = hidden.new_empty(0)
    # Of other classes, or placed by accelerate: its weights may be elsewhere, or packed.
    biased = "bias" in dict(head.named_parameters())
    plain = type(head).__name__ == "Linear" and "forward" not in vars(head)
    for some, wanted in zip(torch.split(hidden, rows), torch.split(targets, rows), strict=True):
        if not plain:
            yield head(some), wanted
            continue
        if len(held) < len(some):
            held = hidden.new_empty(len(some), head.out_features)
        out, weight = held[: len(some)], head.weight.t()
        if biased:
            torch.addmm(head.bias, some, weight, out=out)
        else:
            torch.mm(some, weight, out=out)
        yield out, wanted


def _pieces(logits: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Pieces of logits that caches hold, with their targets."""
    width = logits.shape[1]
    yield from zip(row_pieces(logits, width), row_pieces(targets, width), strict=True)


def _last_linear(
    module: nn.Module, run: Callable[[], Tensor]
) -> tuple[Tensor, tuple[nn.Linear, Tensor] | None]:
    """The logits of a pass, and the linear layer that made them with what it was given."""
    last: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def keep(part: nn.Linear, args: tuple[Tensor, ...], output: Tensor) -> None:
        last[:] = [(part, args[0], output)]

    hooks = [
        part.register_forward_hook(keep) for part in module.modules() if isinstance(part, nn.Linear)
    ]
    try:
        logits = run()
    finally:
        for hook in hooks:
            hook.remove()
    for part, hidden, output in last:
        if _same(output, logits):
            return logits, (part, hidden)
    return logits, None


def _same(one: Tensor, other: Tensor) -> bool:
    sorts = [(tensor.shape, tensor.dtype, tensor.device) for tensor in (one, other)]
    return sorts[0] == sorts[1] and torch.equal(one, other)
