"""Which of many rows a limit takes: drawn by a seed, so that a sorted file misleads nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError, unknown

__all__ = ["LIMIT_ORDERS", "Drawn", "LimitOrder", "check_limit", "drawn_rows"]

LimitOrder = Literal["seeded", "first"]

LIMIT_ORDERS: tuple[LimitOrder, ...] = ("seeded", "first")
"""Which rows a limit takes: some drawn by the seed, or the first."""


@dataclass(frozen=True)
class Drawn:
    """How a limit chose the rows of a data set.

    Attributes
    ----------
    limit
        How many were wanted: rows, or blocks of a running text.
    order
        One of `LIMIT_ORDERS`.
    seed
        Seed of the draw.
    of
        How many rows there were; of a running text, blocks.
    labels
        How many of them had each label; empty without labels.
    """

    limit: int
    order: LimitOrder
    seed: int
    of: int
    labels: Mapping[str, int] = field(default_factory=Counter, compare=False)

    def described(self) -> dict[str, Any]:
        """Return what the record of a run says of it; as JSON."""
        seed = self.seed if self.order == "seeded" else None
        return {"limit": self.limit, "limit_order": self.order, "seed": seed, "of": self.of}


def check_limit(limit: int | None, order: str) -> None:
    """Refuse a number of rows below one, an unknown order, and an order without a number.

    Parameters
    ----------
    limit
        How many rows; None for all.
    order
        Which ones.

    Raises
    ------
    HeadtoolError
        If either is out of its range, or they do not fit together.
    """
    if limit is not None and limit < 1:
        raise HeadtoolError(f"`limit` must be at least 1, got {limit}")
    if order not in LIMIT_ORDERS:
        raise unknown("`limit_order`", order, LIMIT_ORDERS)
    if limit is None and order != LIMIT_ORDERS[0]:
        raise HeadtoolError(
            f"`limit_order` {order} says which rows `limit` takes, which is missing; give it, or "
            "leave `limit_order` out"
        )


def drawn_rows(
    count: int, limit: int, *, order: LimitOrder, seed: int, labels: Sequence[str] | None = None
) -> NDArray[np.int64]:
    """Choose rows, in ascending order; every row is as likely to be taken as any other.

    With labels, each label has its share of the rows, rounded up or down. Without, one row comes
    from each of `limit` stretches of equal length, so that the rows are spread over the whole.

    Parameters
    ----------
    count
        How many rows there are.
    limit
        How many to take, at most `count`.
    order
        ``seeded`` draws; ``first`` takes the first ones.
    seed
        Seed of the draw.
    labels
        A label per row.

    Examples
    --------
    >>> from headtool.data.drawing import drawn_rows
    >>> labels = ["no"] * 6 + ["yes"] * 3
    >>> rows = drawn_rows(9, 3, order="seeded", seed=0, labels=labels)
    >>> [labels[row] for row in rows]
    ['no', 'no', 'yes']
    """
    if order == "first":
        return np.arange(limit)
    rng = np.random.default_rng([seed, 19])
    # Stretches of count / limit rows, from a random start: whole numbers keep this exact.
    bounds = (rng.integers(count) + np.arange(limit + 1) * count) // limit
    if labels is None:
        bounds[-1] = bounds[0] + count
        return np.sort(rng.integers(bounds[:-1], bounds[1:]) % count)
    codes = {label: code for code, label in enumerate(sorted(set(labels)))}
    shuffled = rng.permutation(count)
    by_label = np.array([codes[label] for label in labels])[shuffled]
    return np.sort(shuffled[np.argsort(by_label, kind="stable")][bounds[:-1]])
