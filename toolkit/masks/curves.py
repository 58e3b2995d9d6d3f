"""From scores to head masks: which heads are closed at each point of a pruning curve.

Heads leave in ascending order of their scores, one order over all sites. Beside a method's masks
stand random ones: any heads, and heads at random within layers, as many in each layer as the method
closes there. The second are the fairer rivals: a method that does not beat them has found which
layers matter, not which heads.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headtool.errors import HeadtoolError
from headtool.heads import HeadMask, Sites
from headtool.heads.masks import DealtMask

__all__ = [
    "SHOWN",
    "CurveMasks",
    "budgets_of",
    "closed_in_order",
    "layers_of",
    "matched_closed",
    "random_closed",
    "spare_last",
]

Closed = NDArray[np.bool_]

_MOST_STEPS = 100_000
SHOWN = 5
"""Draws of random masks whose curves are shown where comparisons have draws of their own, and masks
cannot be dealt to examples."""


def budgets_of(steps: str, heads: int, *, most: int | None = None) -> tuple[int, ...]:
    """Read how many heads are closed at the points of a curve, 0 included.

    Parameters
    ----------
    steps
        One value is the width of a step, ``10%`` of the heads or ``4`` heads; several, such as
        ``20%,50%``, are the points themselves.
    heads
        How many heads there are.
    most
        How many of them can be closed; all by default.

    Raises
    ------
    HeadtoolError
        For what is no share or number of heads, or out of range.

    Examples
    --------
    >>> from headtool.masks.curves import budgets_of
    >>> budgets_of("25%", 10), budgets_of("4", 10), budgets_of("10%,50%", 10)
    ((0, 2, 5, 8, 10), (0, 4, 8, 10), (0, 1, 5))
    """
    limit = heads if most is None else most
    words = [word.strip() for word in steps.split(",")]
    values = [_heads(word, heads, steps) for word in words]
    if len(values) > 1:
        points = [round(value) for value in values]
        for word, point in zip(words, points, strict=True):
            if point > limit:
                raise HeadtoolError(
                    f"`steps` {steps}: {word} is {point} heads, and at most {limit} of {heads} can "
                    "be removed; give smaller budgets"
                )
        if points != sorted(set(points)) or points[0] == 0:
            raise HeadtoolError(
                f"`steps` {steps}: budgets must rise by at least a head of {heads}; they are "
                f"{', '.join(map(str, points))} heads"
            )
        return (0, *points)
    count = int(np.ceil(heads / values[0] - 1e-9))
    if count > _MOST_STEPS:
        raise HeadtoolError(
            f"`steps` {steps} makes {count:,} points of {heads} heads; give at least "
            f"{100 / heads:.2g}%, which is a head"
        )
    points = [min(limit, round(step * values[0])) for step in range(count)]
    return tuple(sorted({*points, limit}))


def _heads(word: str, heads: int, steps: str) -> float:
    """A share or a number of heads as a number of heads, not rounded."""
    number, percent = (word[:-1], True) if word.endswith("%") else (word, False)
    try:
        value = float(number) if percent else int(number)
    except ValueError:
        raise HeadtoolError(
            f"`steps` takes shares such as 10% or numbers of heads such as 4, got '{steps}'"
        ) from None
    most = 100 if percent else heads
    if not 0 < value <= most:
        shown = "100%" if percent else f"the model's {heads} heads"
        raise HeadtoolError(f"`steps` {steps}: {word} must be above 0 and at most {shown}")
    return value * heads / 100 if percent else value


@dataclass(frozen=True, eq=False)
class CurveMasks:
    """What is closed at each point of the curves over the same heads.

    Attributes
    ----------
    kind
        Which heads are up for removal: ``all``, or an attention kind.
    sites
        The sites that they are of; n heads.
    budgets
        How many heads are closed at each of the B points.
    closed
        By method, which heads are closed, [B, n].
    random
        The same for random masks, [draws, B, n].
    matched
        By method, for random masks with the method's number of closed heads in every layer; none
        where such masks are drawn later.
    keys
        What orders the heads in every draw, the lowest first, [draws, n].
    dealt
        Random masks of which each of N examples has its own, [N, B, n], in place of `random`.
    tied
        By method that gives heads on both sides of a cut the same score: which heads are closed
        where these heads leave in the order of each draw, [draws, B, n].
    """

    kind: str
    sites: Sites
    budgets: tuple[int, ...]
    closed: dict[str, Closed]
    random: Closed
    matched: dict[str, Closed]
    keys: NDArray[np.float64]
    tied: dict[str, Closed] = field(default_factory=dict)
    dealt: Closed | None = None

    @classmethod
    def draw(
        cls,
        kind: str,
        sites: Sites,
        budgets: tuple[int, ...],
        closed: dict[str, Closed],
        *,
        draws: int | None,
        keep_one: bool,
        seed: int,
        deal: int = 0,
    ) -> CurveMasks:
        """Add random masks to those of the methods.

        Each draw gives every head a random key, which decides its place among all heads and within
        its layer. Methods share the draws, so that they meet the same rivals.

        Parameters
        ----------
        kind
            ``all``, or an attention kind.
        sites
            The sites that the heads are of; n heads.
        budgets
            How many heads are closed at each of the B points.
        closed
            By method, which heads are closed, [B, n].
        draws
            Number of random masks, and of matched ones for each method. None: five, none of them
            matched, which only show what random masks do. Their keys are shifted against each
            other by a fifth (systematic sampling), so that heads close equally often and the mean
            of few is close to that of many.
        keep_one
            Whether random masks leave the last head of a layer open.
        seed
            Seed of the draws.
        deal
            Where `draws` is None: of how many examples each gets a random order of its own, instead
            of five orders for all. The mean over examples is then one over as many orders, for the
            price of one. Latin hypercube sampling: over all examples, each head has every place
            among the keys once, so that heads close about equally often.
        """
        layers = layers_of(sites)
        rows = 1 if draws is None else draws
        keys = np.random.default_rng([seed, 7]).random((rows, sites.n_heads))
        if draws is None:
            keys = (keys + np.arange(SHOWN)[:, None] / SHOWN) % 1
        dealt = None
        if draws is None and deal:
            rng = np.random.default_rng([seed, 37])
            places = rng.permuted(np.tile(np.arange(deal), (sites.n_heads, 1)), axis=1).T
            own = (places + rng.random((deal, sites.n_heads))) / deal
            dealt = np.array(
                [random_closed(row, budgets, layers, keep_one=keep_one) for row in own]
            )
        shown = keys if dealt is None else keys[:0]
        free = [random_closed(row, budgets, layers, keep_one=keep_one) for row in shown]
        matched = {
            name: np.array([matched_closed(shut, key, layers) for key in keys]).reshape(
                len(keys), len(budgets), sites.n_heads
            )
            for name, shut in ({} if draws is None else closed).items()
        }
        random = np.array(free, dtype=np.bool_).reshape(len(shown), len(budgets), sites.n_heads)
        return cls(kind, sites, budgets, closed, random, matched, keys, dealt=dealt)

    def only(self, methods: Container[str]) -> CurveMasks:
        """Return the same without the methods that are not named."""
        closed = {name: rows for name, rows in self.closed.items() if name in methods}
        matched = {name: rows for name, rows in self.matched.items() if name in methods}
        tied = {name: rows for name, rows in self.tied.items() if name in methods}
        return replace(self, closed=closed, matched=matched, tied=tied)

    def mask(self, closed: Closed, model: Sites) -> HeadMask:
        """Make a mask over all of the model's heads.

        Parameters
        ----------
        closed
            Which of the n heads are closed: a row of `closed`, `random` or `matched`, shape [n]; or
            for each example, [N, n].
        model
            All sites of the model.
        """
        if closed.ndim == 2 and (closed == closed[0]).all():
            closed = closed[0]
        is_open = np.ones((*closed.shape[:-1], model.n_heads), dtype=np.bool_)
        is_open[..., [model.position(head) for head in self.sites.heads]] = ~closed
        return (HeadMask if closed.ndim == 1 else DealtMask)(model, is_open)


def layers_of(sites: Sites) -> NDArray[np.int64]:
    """Return a number per head that is the same for the heads of one site, shape [n]."""
    return np.repeat(np.arange(len(sites)), [site.n_heads for site in sites])


def spare_last(order: NDArray[np.int64], layers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave the last head of every layer out of a removal order, so that it stays.

    Parameters
    ----------
    order
        Numbers of heads, the first to leave first.
    layers
        A number per head, equal for heads of one site, shape [n].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.masks.curves import spare_last
    >>> spare_last(np.array([3, 0, 2, 1]), np.array([0, 0, 1, 1])).tolist()
    [3, 0]
    """
    last = {int(layers[head]): int(head) for head in order}
    return np.array([head for head in order if last[int(layers[head])] != head], dtype=np.int64)


def closed_in_order(order: NDArray[np.int64], budgets: tuple[int, ...], heads: int) -> Closed:
    """Close the first heads of an order, as many as each budget says.

    Parameters
    ----------
    order
        Numbers of heads, the first to leave first.
    budgets
        How many are closed at each of the B points.
    heads
        How many heads there are, n.

    Returns
    -------
    ndarray
        Which heads are closed, shape [B, n].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.masks.curves import closed_in_order
    >>> closed_in_order(np.array([2, 0, 1]), (1, 2), 3).astype(int).tolist()
    [[0, 0, 1], [1, 0, 1]]
    """
    closed = np.zeros((len(budgets), heads), dtype=np.bool_)
    for row, budget in zip(closed, budgets, strict=True):
        row[order[:budget]] = True
    return closed


def random_closed(
    keys: NDArray[np.float64],
    budgets: tuple[int, ...],
    layers: NDArray[np.int64],
    *,
    keep_one: bool,
) -> Closed:
    """Close heads in random order.

    Parameters
    ----------
    keys
        Random numbers, shape [n]; the head with the lowest leaves first.
    budgets
        How many are closed at each of the B points.
    layers
        A number per head, equal for heads of one site, shape [n].
    keep_one
        Whether the last head of a layer stays.

    Returns
    -------
    ndarray
        Which heads are closed, shape [B, n].
    """
    order = np.argsort(keys)
    if keep_one:
        order = spare_last(order, layers)
    return closed_in_order(order, budgets, len(keys))


def matched_closed(closed: Closed, keys: NDArray[np.float64], layers: NDArray[np.int64]) -> Closed:
    """Close as many random heads in every layer as a method closes there.

    Parameters
    ----------
    closed
        Which heads a method closes, shape [B, n].
    keys
        Random numbers, shape [n]; of a layer, the heads with the lowest leave first.
    layers
        A number per head, equal for heads of one site, shape [n].

    Returns
    -------
    ndarray
        Which heads are closed, shape [B, n].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.masks.curves import matched_closed
    >>> closed = np.array([[True, True, False, False]])
    >>> matched_closed(closed, np.array([0.5, 0.1, 0.2, 0.9]), np.array([0, 1, 0, 1])).astype(int)
    array([[0, 1, 1, 0]])
    """
    result = np.zeros_like(closed)
    for layer in np.unique(layers):
        members = np.flatnonzero(layers == layer)
        members = members[np.argsort(keys[members])]
        for row, count in zip(result, closed[:, members].sum(axis=1), strict=True):
            row[members[:count]] = True
    return result
