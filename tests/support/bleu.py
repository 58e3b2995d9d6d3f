"""Synthetic statistics of sentences, for BLEU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.paired import Paired
from headtool.metrics.translation import BLEU

Array = NDArray[np.float64]


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
    return Paired(whole, masked, BLEU().from_sums, higher_is_better=True, name="bleu", scale=100.0)
