"""How far one model's predictions are from another's."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.errors import HeadtoolError
from headtool.models.answers import gathered, spread
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples, Forward
from headtool.models.token_loss import at_least_float32

__all__ = ["compared", "divergences"]

_NUMBERS = 2**24  # logits that are compared at once


def divergences(whole: Forward, other: Forward) -> Tensor:
    """Return KL(whole || other) of each example, summed over its scored tokens, in nats.

    Parameters
    ----------
    whole, other
        What two models say of the same batch.

    Returns
    -------
    Tensor
        Shape [B]; exactly 0 where the predictions are the same, and never below.

    Raises
    ------
    HeadtoolError
        If the model predicts a number.
    """
    if whole.logits is None or other.logits is None:
        raise HeadtoolError(
            "`metric` kl compares distributions, and this model has none to compare; choose "
            "another one"
        )
    shape = whole.logits.shape
    rows = max(1, _NUMBERS // max(1, shape[1:].numel()))
    found = []
    for start in range(0, shape[0], rows):
        part = slice(start, start + rows)
        p, q = (at_least_float32(one[part]).log_softmax(-1) for one in (whole.logits, other.logits))
        each = (p.exp() * (p - q)).sum(dim=-1).clamp(min=0)
        if whole.scored is not None:
            each = (each * whole.scored[part]).sum(dim=-1)
        found.append(each)
    return torch.cat(found)


def compared(
    whole: ModelAdapter, other: ModelAdapter, examples: Examples
) -> dict[str, NDArray[np.float64]]:
    """Run two models on the same examples, and say how far the second is from the first.

    Parameters
    ----------
    whole, other
        The models, which take the same input.
    examples
        N examples, as either of them encoded them.

    Returns
    -------
    dict
        Columns of the second model, with ``kl``, [N] each.
    """
    found: dict[str, NDArray[np.float64]] = {}
    rows = spread(examples)
    with torch.inference_mode():
        for index in rows.batches():
            first, second = (model.forward(model.collate(rows, index)) for model in (whole, other))
            for name, values in {**second.columns, "kl": divergences(first, second)}.items():
                column = found.setdefault(name, np.full(len(rows), np.nan))
                column[index] = values.double().cpu().numpy()
    return gathered(examples, found)
