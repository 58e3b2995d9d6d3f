"""Running text as blocks of tokens, and which of them a masked language model is to guess."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["BLOCK_TOKENS", "mask_block"]

BLOCK_TOKENS = 256
"""Most tokens of a block, special ones included."""

_MASKED_SHARE = 0.15


def mask_block(
    block: Sequence[int], mask: int, *, seed: int, index: int
) -> tuple[list[int], list[int]]:
    """Mask 15% of a block's tokens, at least one.

    Seeded by the block, so that no batching or order changes what is masked.

    Parameters
    ----------
    block
        Token ids.
    mask
        Id of the token that stands for a masked one.
    seed
        Seed of all blocks.
    index
        Number of this one.

    Returns
    -------
    tokens, labels
        The block with masks, and what they stand for; -100 at all other positions.

    Examples
    --------
    >>> from headtool.models.blocks import mask_block
    >>> mask_block([5, 6, 7, 8], 1, seed=0, index=0)
    ([5, 6, 7, 1], [-100, -100, -100, 8])
    """
    rng = np.random.default_rng([seed, index])
    count = max(1, round(_MASKED_SHARE * len(block)))
    tokens, labels = list(block), [-100] * len(block)
    for position in rng.choice(len(block), size=count, replace=False).tolist():
        labels[position] = tokens[position]
        tokens[position] = mask
    return tokens, labels
