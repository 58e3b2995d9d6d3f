"""How many random masks are drawn, and what they are run on: fixed before any of them is run.

Why it is so is said in `headtool.analysis.draws`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.paired import Paired
from headtool.metrics.base import Array

__all__ = ["DrawPlan", "draws_needed", "inner_points"]

_POINTS = 3
_LEAST_EXAMPLES = 12
_NOISE = 0.1  # of the variance between masks
_FIRST_BLOCK = 20


def draws_needed(alpha: float, methods: int) -> int:
    """Return how many draws it takes for a method to be better or worse than random masks.

    Parameters
    ----------
    alpha
        Level after correction.
    methods
        How many methods are compared.

    Examples
    --------
    >>> from headtool.analysis.draw_plan import draws_needed
    >>> draws_needed(0.05, 1), draws_needed(0.05, 4), draws_needed(0.01, 4)
    (39, 159, 799)
    """
    return math.ceil(round(2 * methods / alpha, 6)) - 1


def inner_points(budgets: Sequence[int], heads: int, points: int = _POINTS) -> tuple[int, ...]:
    """Choose points of a curve, spread over the shares, without those that leave no choice.

    Parameters
    ----------
    budgets
        How many heads are closed at each point of the curve.
    heads
        How many there are.
    points
        How many points at most.

    Returns
    -------
    tuple
        Places in `budgets`, ascending; none if every point closes no head or all.

    Examples
    --------
    >>> from headtool.analysis.draw_plan import inner_points
    >>> inner_points((0, 7, 14, 22, 29, 36, 43, 50, 58, 65, 72), 72)
    (2, 5, 7)
    >>> inner_points((0, 16, 32), 32), inner_points((0, 4), 4)
    ((1,), ())
    """
    inner = [place for place, budget in enumerate(budgets) if 0 < budget < heads]
    points = min(points, len(inner))
    aims = [heads * (number + 1) / (points + 1) for number in range(points)]
    return tuple(
        sorted({min(inner, key=lambda i: (abs(budgets[i] - aim), budgets[i])) for aim in aims})
    )


@dataclass(frozen=True, eq=False)
class DrawPlan:
    """How methods are compared with random masks: fixed before any of the masks is run.

    Attributes
    ----------
    most
        How many draws there are at most.
    enough
        Draws on both sides at which a comparison is settled: the number of methods.
    budgets
        Heads removed at the P points.
    weights
        Weights [P] that make an area of what is kept at the points.
    parts
        For each point the examples that it is measured on, as indices; no example twice.
    """

    most: int
    enough: int
    budgets: tuple[int, ...]
    weights: Array
    parts: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(
        cls,
        budgets: Sequence[int],
        heads: int,
        classes: Sequence[object],
        *,
        methods: int,
        alpha: float,
        seed: int,
        pilot: Mapping[int, Paired] | None = None,
    ) -> DrawPlan | None:
        """Plan the comparison; None if no point of the curves leaves a choice of heads.

        Parameters
        ----------
        budgets
            How many heads are closed at each point of the curves.
        heads
            How many there are.
        classes
            Class of each of the N evaluation examples, at least two; all the same where there are
            none.
        methods
            How many methods are compared.
        alpha
            Level of claims.
        seed
            Draws the examples.
        pilot
            By heads removed, outcomes of two random masks or more, which take no part in the
            comparison; these say how many examples are enough.
        """
        points = inner_points(budgets, heads, min(_POINTS, max(1, len(classes) // 2)))
        if not points:
            return None
        most, removed = draws_needed(alpha, methods), tuple(budgets[place] for place in points)
        last = budgets[-1]
        grid = np.array([0, *removed, *([last] if last == heads else [])]) / heads
        weights = _trapezoid(grid)[1 : 1 + len(points)]
        own = methods * sum(0 < budget < heads for budget in budgets)
        cap = max(_LEAST_EXAMPLES, own * len(classes) / most)
        if pilot is not None:
            cap = min(cap, _quiet_enough([pilot[budget] for budget in removed], weights))
        size = min(len(classes), math.ceil(max(cap, _LEAST_EXAMPLES)))
        chosen = _by_class(classes, size, seed)
        parts = tuple(np.sort(chosen[place :: len(points)]) for place in range(len(points)))
        return cls(most, methods, removed, weights, parts)

    @property
    def examples(self) -> int:
        """How many examples a draw is run on."""
        return sum(map(len, self.parts))

    @property
    def blocks(self) -> Iterator[int]:
        """Sizes of the blocks that draws are made in, after each of which it may be enough."""
        size, left = _FIRST_BLOCK, self.most
        while left:
            take = left if left < 2 * size else size
            yield take
            left, size = left - take, 2 * size

    def described(self) -> dict[str, object]:
        """What a reader must know of it; as JSON."""
        return {
            "most": self.most,
            "budgets": list(self.budgets),
            "examples": [len(part) for part in self.parts],
        }


def _trapezoid(grid: Array) -> Array:
    """Weights of the trapezoid rule that give the mean over a grid."""
    weights, gaps = np.zeros(len(grid)), np.diff(grid)
    weights[:-1] += gaps / 2
    weights[1:] += gaps / 2
    return np.asarray(weights / gaps.sum())


def _by_class(classes: Sequence[object], size: int, seed: int) -> NDArray[np.int64]:
    """Some examples, of each class about the share that it has, so that every n-th does as well."""
    order = np.random.default_rng([seed, 31]).permutation(len(classes))
    names = np.array([str(name) for name in classes])
    order = order[np.argsort(names[order], kind="stable")]
    return order[np.floor((np.arange(size) + 0.5) * len(order) / size).astype(np.int64)]


def _quiet_enough(pilot: Sequence[Paired], weights: Array) -> float:
    """On how many examples the noise from these is a tenth of the variance between masks.

    The noise is how differently masks do on the same example, from the jackknife's influences, so
    that it is defined for every metric.
    """
    areas = sum(weight * paired.benefit for weight, paired in zip(weights, pilot, strict=True))
    total = float(np.var(areas, ddof=1))
    apart, noise = 0.0, 0.0
    for weight, paired in zip(weights, pilot, strict=True):
        influence = (paired.n_examples - 1) * (paired.jackknife - paired.jackknife.mean(1)[:, None])
        influence = influence - influence.mean(axis=0)
        degrees = (paired.n_masks - 1) * (paired.n_examples - 1)
        variance = float((influence**2).sum()) / degrees
        noise += weight**2 * variance * len(pilot)
        apart += weight**2 * variance / paired.n_examples
    between = total - apart
    return noise / (_NOISE * between) if between > 0 else math.inf
