"""Resamples of examples that all masks share: paired bootstrap, and swaps of the two systems.

A resample is a row of weights over examples. The sums of all masks' statistics under a block of
resamples are one matrix product, ``weights [rows, N] @ statistics [N, M * k]``; the metric's value
function does the rest. Sharing the rows between masks makes the tests of all heads jointly valid,
which step-down corrections need, and is what makes them cheap.

Memory: one copy of those statistics that differ between masks, one block of at most about
`BLOCK_BYTES`, and what is returned (8 bytes per resample and mask). Results do not depend on the
block size beyond rounding: random numbers are drawn row by row from one stream.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.paired import Paired
from headtool.metrics.base import Array

__all__ = [
    "BLOCK_BYTES",
    "Sums",
    "Swaps",
    "block_rows",
    "blocks",
    "bootstrap_deltas",
    "bootstrap_weights",
    "counts_of",
    "swap_deltas",
    "swap_patterns",
]

BLOCK_BYTES = 16 * 2**20
# Integers up to here are exact in float32, so that sums of counts may use the faster product.
_FLOAT32_EXACT = 2**24


def block_rows(paired: Paired) -> int:
    """Return how many resamples fit into a block."""
    numbers = 3 * (paired.n_examples + paired.masked.shape[0] * paired.masked.shape[2])
    return max(1, int(BLOCK_BYTES // (8 * numbers)))


def blocks(resamples: int, rows: int) -> Iterator[int]:
    """Yield the sizes of consecutive blocks.

    Parameters
    ----------
    resamples
        How many resamples there are.
    rows
        How many fit into a block.

    Examples
    --------
    >>> from headtool.analysis.resampling import blocks
    >>> list(blocks(10, 4))
    [4, 4, 2]
    """
    yield from (min(rows, resamples - start) for start in range(0, resamples, rows))


def bootstrap_weights(
    n: int, *, resamples: int, rows: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield full-size bootstrap resamples of n examples, as weights, block by block.

    Draws are ``rng.integers(0, n, (resamples, n))``, the stream that `scipy.stats.bootstrap` and
    sacreBLEU use, so that equal generators give equal resamples.

    Parameters
    ----------
    n
        Number of examples.
    resamples
        Number of resamples.
    rows
        Resamples in a block.
    rng
        The source of randomness.

    Yields
    ------
    ndarray
        How often each example is drawn, shape [rows, n]; every row adds up to n.
    """
    for size in blocks(resamples, rows):
        yield counts_of(rng.integers(0, n, (size, n)), n)


def counts_of(drawn: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Count how often each of n examples occurs in each row of drawn indices, shape [rows, n].

    Parameters
    ----------
    drawn
        Indices of examples, shape [rows, draws].
    n
        Number of examples.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.resampling import counts_of
    >>> counts_of(np.array([[0, 2, 2], [1, 1, 1]]), 3).tolist()
    [[1, 0, 2], [0, 3, 0]]
    """
    drawn = drawn + n * np.arange(len(drawn))[:, None]
    return np.bincount(drawn.ravel(), minlength=len(drawn) * n).reshape(len(drawn), n)


class Sums:
    """Weighted sums of the whole model's and all masks' statistics, as one matrix product.

    Statistics that no mask changes (token counts, gold classes) are multiplied once.
    """

    def __init__(self, paired: Paired) -> None:
        self._varies = _varying(paired)
        self._shape = paired.masked.shape
        varying = _columns(paired.masked[..., self._varies])
        matrix = np.concatenate([paired.whole, varying], axis=1)
        self._matrix = _exact(matrix, bound=np.abs(matrix).max(initial=0) * len(matrix))

    def __call__(self, weights: NDArray[np.generic]) -> tuple[Array, Array]:
        """Return sums [rows, k] of the whole model and [rows, M, k] of the masks."""
        product = (weights.astype(self._matrix.dtype) @ self._matrix).astype(np.float64)
        masks, _, k = self._shape
        whole = product[:, :k]
        masked = np.repeat(whole[:, None, :], masks, axis=1)
        masked[..., self._varies] = product[:, k:].reshape(len(product), masks, self._varies.sum())
        return whole, masked


class Swaps:
    """Deltas after swapping the two systems' statistics on some examples.

    The pseudo-system A takes the masked model's statistics where a pattern is 1 and the whole
    model's where it is 0; B takes the rest. For a metric of the form ``mean`` this is the same as
    flipping the signs of the differences of the numerators, because the denominator is the same
    on both sides. For other metrics it is not, and only swapping is valid.

    Attributes
    ----------
    active
        Indices of the examples on which some mask differs; swapping the others changes nothing.
    tolerance
        Shape [M]: values that differ by less are ties; far above rounding, far below meaning.
    """

    def __init__(self, paired: Paired) -> None:
        self._paired = paired
        self._varies = _varying(paired)
        whole, masked = (part[..., self._varies] for part in (paired.whole, paired.masked))
        changed = np.zeros(paired.n_examples, dtype=np.bool_)
        for rows in masked:
            changed |= (rows != whole).any(axis=-1)
        self.active = np.flatnonzero(changed)
        difference = _columns(masked[:, self.active] - whole[self.active])
        self._matrix = _exact(difference, bound=np.abs(difference).sum(axis=0).max(initial=0))
        self._whole, self._masked = paired.whole.sum(axis=0), paired.masked.sum(axis=1)
        size = np.abs(paired.masked_values) + abs(paired.whole_value)
        if paired.form != "function":  # values may cancel to nearly nothing; their parts do not
            parts = np.abs(paired.masked[..., 0]).sum(1) + np.abs(paired.whole[:, 0]).sum()
            size = (paired.unit or 1.0) * parts / abs(self._whole[1])
        self.tolerance = 1e-11 * size

    def __call__(self, patterns: NDArray[np.generic]) -> Array:
        """Return the deltas [rows, M] for patterns [rows, active examples] of zeros and ones."""
        moved = (patterns.astype(self._matrix.dtype) @ self._matrix).astype(np.float64)
        moved = moved.reshape(len(moved), self._paired.n_masks, self._varies.sum())
        first = np.broadcast_to(self._whole, (len(moved), *self._masked.shape)).copy()
        second = np.broadcast_to(self._masked, first.shape).copy()
        first[..., self._varies] += moved
        second[..., self._varies] -= moved
        with np.errstate(invalid="ignore"):  # between two infinite perplexities: NaN
            return np.asarray(self._paired.value(first) - self._paired.value(second))


def swap_patterns(
    n: int, *, resamples: int, rows: int, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    """Yield blocks of fair coin flips, shape [rows, n]; all 2^n patterns where resamples allow.

    In that exact case the patterns include the one that leaves everything as it was observed.

    Parameters
    ----------
    n
        Number of examples that may be swapped.
    resamples
        Number of random patterns.
    rows
        Patterns in a block.
    rng
        The source of randomness.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.resampling import swap_patterns
    >>> (block,) = swap_patterns(2, resamples=4, rows=4, rng=np.random.default_rng(0))
    >>> block.tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    if 2**n <= resamples:
        for start in range(0, 2**n, rows):
            numbers = np.arange(start, min(start + rows, 2**n))[:, None]
            yield (numbers >> np.arange(n) & 1).astype(np.uint8)
        return
    words = -(-n // 64)  # whole words a row, so that the stream does not depend on the blocks
    for size in blocks(resamples, rows):
        bits = rng.integers(0, 2**64, (size, words), dtype=np.uint64)
        yield np.unpackbits(bits.view(np.uint8), axis=1)[:, :n]


def bootstrap_deltas(paired: Paired, *, resamples: int, rng: np.random.Generator) -> Array:
    """Return the deltas in full-size paired bootstrap resamples, shape [resamples, M].

    Every resample draws N examples with replacement and evaluates the whole model and all masks
    on them. NaN where a metric is undefined on a resample.

    Parameters
    ----------
    paired
        The outcomes; unchanged.
    resamples
        How many.
    rng
        The source of randomness.

    References
    ----------
    Koehn (2004), Statistical significance tests for machine translation evaluation.
    Berg-Kirkpatrick, Burkett & Klein (2012), An empirical investigation of statistical significance
    in NLP.
    """
    sums = Sums(paired)
    deltas = np.empty((resamples, paired.n_masks))
    start = 0
    weights = bootstrap_weights(
        paired.n_examples, resamples=resamples, rows=block_rows(paired), rng=rng
    )
    for block in weights:
        whole, masked = sums(block)
        with np.errstate(invalid="ignore"):  # between two infinite perplexities: NaN
            deltas[start : start + len(block)] = paired.value(masked) - paired.value(whole)[:, None]
        start += len(block)
    return deltas


def swap_deltas(
    paired: Paired, swaps: Swaps, *, resamples: int, rng: np.random.Generator
) -> Iterator[Array]:
    """Yield the deltas after random swaps, in blocks [rows, M]; after all swaps where they are few.

    See :class:`Swaps` and :func:`swap_patterns`.

    Parameters
    ----------
    paired
        The outcomes of M masks.
    swaps
        ``Swaps(paired)``.
    resamples
        Number of random patterns of swaps.
    rng
        The source of randomness.
    """
    patterns = swap_patterns(
        len(swaps.active), resamples=resamples, rows=block_rows(paired), rng=rng
    )
    yield from map(swaps, patterns)


def _varying(paired: Paired) -> NDArray[np.bool_]:
    """Which of the k statistics any mask changes."""
    varies = np.zeros(paired.whole.shape[1], dtype=np.bool_)
    for rows in paired.masked:
        varies |= (rows != paired.whole).any(axis=0)
    return varies


def _columns(masked: Array) -> Array:
    """[M, N, k] as [N, M * k]."""
    masks, n, k = masked.shape
    return np.ascontiguousarray(masked.transpose(1, 0, 2)).reshape(n, masks * k)


def _exact(matrix: Array, *, bound: float) -> NDArray[np.floating]:
    """Take float32 for whole numbers whose sums stay below `bound`: half the time, same result."""
    if bound < _FLOAT32_EXACT and (matrix == np.rint(matrix)).all():
        return matrix.astype(np.float32)
    return matrix
