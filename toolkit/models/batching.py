"""Batches of examples of similar length under a budget of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from headtool.errors import HeadtoolError

__all__ = ["length_buckets", "padded", "tight_buckets"]

_BATCH = 64  # tokens that take as long as what a batch takes besides


def length_buckets(
    lengths: Sequence[int] | npt.NDArray[np.integer],
    *,
    batch_tokens: int,
    max_examples: int | None = None,
) -> list[npt.NDArray[np.int64]]:
    """Group examples into batches that hold little padding.

    Examples are sorted by length, equal ones in their given order, and cut greedily. The shapes of
    the batches therefore depend on the lengths alone, not on the order in which they come.

    Parameters
    ----------
    lengths
        Tokens of each example.
    batch_tokens
        Most tokens of a batch, padding included: examples times the longest of them. An example
        that is longer on its own forms a batch of its own.
    max_examples
        Most examples of a batch.

    Returns
    -------
    list of numpy.ndarray
        Indices (int64) of each batch, the shortest examples first; every index occurs once.

    Raises
    ------
    HeadtoolError
        If `batch_tokens` or `max_examples` is below one.

    Examples
    --------
    >>> from headtool.models.batching import length_buckets
    >>> [batch.tolist() for batch in length_buckets([9, 3, 4, 3], batch_tokens=10)]
    [[1, 3], [2], [0]]
    """
    if batch_tokens < 1:
        raise HeadtoolError(f"`batch_tokens` must be at least 1, got {batch_tokens}")
    if max_examples is not None and max_examples < 1:
        raise HeadtoolError(f"the examples in a batch must be at least 1, got {max_examples}")
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(sizes, kind="stable").astype(np.int64)
    most = len(order) if max_examples is None else max_examples
    batches: list[npt.NDArray[np.int64]] = []
    start = 0
    for end, longest in enumerate(sizes[order].tolist()):
        # Ascending order: the example at `end` is the longest of the batch that it would join.
        joined = end - start + 1
        full = joined * longest > batch_tokens or joined > most
        if joined > 1 and full:
            batches.append(order[start:end])
            start = end
    if len(order):
        batches.append(order[start:])
    return batches


def tight_buckets(
    lengths: Sequence[int] | npt.NDArray[np.integer], *, batch_tokens: int
) -> list[npt.NDArray[np.int64]]:
    """Group examples into the batches that cost least where each costs as much as some tokens.

    They hold less padding than those of `length_buckets`, and there are more of them.

    Parameters
    ----------
    lengths, batch_tokens
        As of `length_buckets`.

    Returns
    -------
    list of numpy.ndarray
        As of `length_buckets`.

    Examples
    --------
    >>> from headtool.models.batching import tight_buckets
    >>> [batch.tolist() for batch in tight_buckets([90, 30, 40, 30], batch_tokens=500)]
    [[1, 3, 2], [0]]
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(sizes, kind="stable").astype(np.int64)
    distinct, starts = np.unique(sizes[order], return_index=True)
    edges = [*starts.tolist(), len(order)]
    cost, cut = [0.0], [0]  # of the shortest examples, up to each edge
    for end, longest in enumerate(distinct.tolist(), start=1):
        least, at = math.inf, end - 1
        for start in range(end - 1, -1, -1):
            tokens = (edges[end] - edges[start]) * longest
            if tokens > batch_tokens and start < end - 1:
                break
            own = cost[start] + tokens + _BATCH * math.ceil(tokens / batch_tokens)
            if own < least:
                least, at = own, start
        cost.append(least)
        cut.append(at)
    batches: list[npt.NDArray[np.int64]] = []
    end = len(distinct)
    while end:
        some = order[edges[cut[end]] : edges[end]]
        equal = length_buckets(sizes[some], batch_tokens=batch_tokens)
        batches += [some[batch] for batch in reversed(equal)]
        end = cut[end]
    return batches[::-1]


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Fill rows of token ids up to the longest one, on the right.

    Parameters
    ----------
    rows
        B rows of any lengths, at least one.
    value
        What to fill up with.

    Returns
    -------
    Tensor
        Shape [B, T], T the longest row.

    Examples
    --------
    >>> from headtool.models.batching import padded
    >>> padded([[5, 6], [7]], 0).tolist()
    [[5, 6], [7, 0]]
    """
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])
