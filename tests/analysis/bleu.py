"""BLEU as a vectorised function of summed statistics, and synthetic statistics of sentences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.paired import Paired

Array = NDArray[np.float64]


def bleu(sums: Array) -> Array:
    """sacreBLEU's corpus BLEU of [..., 10] = lengths (2), matches (4), totals (4)."""
    system, reference = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2:6], sums[..., 6:10]
    missing = np.cumsum(matches == 0, axis=-1)
    smoothed = np.where(matches == 0, 0.5**missing, matches)
    logs = np.log(np.maximum(100 * smoothed / np.maximum(totals, 1), 1e-300))
    penalty = np.exp(np.minimum(0, 1 - reference / np.maximum(system, 1)))
    score = penalty * np.exp(logs.mean(axis=-1))
    return np.where((totals[..., 3] == 0) | (matches[..., 0] == 0), 0.0, score)


def sentences(rng: np.random.Generator, masks: int, n: int, changed: float) -> Paired:
    """Statistics of translations, of which each mask changes a share, for better or worse."""

    def draw(lengths: NDArray[np.int64], quality: Array) -> Array:
        system = np.maximum(4, lengths + rng.integers(-2, 3, lengths.shape))
        totals = np.stack([system - order for order in range(4)], axis=-1)
        matches, chance = [], quality
        previous = totals[..., 0]
        for order in range(4):
            previous = rng.binomial(np.minimum(previous, totals[..., order]), chance)
            matches.append(previous)
        columns = [system, lengths, *matches, *np.moveaxis(totals, -1, 0)]
        return np.stack(columns, axis=-1).astype(np.float64)

    lengths = rng.integers(6, 40, n)
    whole = draw(lengths, np.full(n, 0.7))
    masked = np.repeat(whole[None], masks, axis=0)
    for row in masked:
        rows = rng.random(n) < changed
        row[rows] = draw(lengths[rows], np.full(rows.sum(), 0.69))
    return Paired(whole, masked, bleu, higher_is_better=True, name="bleu", scale=100.0)
