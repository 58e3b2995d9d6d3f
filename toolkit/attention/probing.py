"""The small forward pass that discovery watches, and what attention looks like in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from torch import Tensor

from headtool.errors import HeadtoolError

__all__ = ["Probe", "as_attention", "refusal"]


@dataclass(frozen=True)
class Probe:
    """A forward pass to watch.

    Attributes
    ----------
    run
        Runs it and returns what the model returns; the first tensor in there is its prediction.
    batch
        Rows in the probe batch, none of them padded.
    source, target
        Query lengths of the encoder (or of the whole model) and of the decoder; the target length
        is 0 for a model without cross-attention. All three numbers must differ.
    """

    run: Callable[[], object]
    batch: int
    source: int
    target: int = 0

    def predict(self) -> Tensor:
        """Run it for its prediction."""
        output = self.run()
        while not isinstance(output, Tensor):
            parts = output.values() if isinstance(output, Mapping) else output
            output = next(iter(cast(Iterable[object], parts)))
        return output

    @property
    def lengths(self) -> tuple[int, ...]:
        """The sequence lengths that an attention matrix of this probe can have."""
        return tuple(length for length in (self.source, self.target) if length)


def as_attention(probabilities: Tensor, probe: Probe) -> Tensor | None:
    """View a softmax's result as attention, if it has the shape of this probe's.

    Parameters
    ----------
    probabilities
        The result of a softmax, of any shape.
    probe
        The probe that ran; its sequence lengths tell attention from other softmaxes.

    Returns
    -------
    Tensor or None
        A view of shape [B, H, T, S]; None for what is not attention.
    """
    if probabilities.ndim == 3 and probabilities.shape[0] % probe.batch == 0:
        probabilities = probabilities.view(probe.batch, -1, *probabilities.shape[1:])
    if probabilities.ndim != 4 or probabilities.shape[0] != probe.batch:
        return None
    queries, keys = probabilities.shape[2:]
    return probabilities if queries in probe.lengths and keys in probe.lengths else None


def refusal(reason: str) -> HeadtoolError:
    """Build the error for a model that is not supported."""
    return HeadtoolError(f"this model's heads cannot be reached one by one: {reason}")
