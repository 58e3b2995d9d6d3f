"""How many random masks are drawn, and what they are run on: fixed before any of them is run.

Why it is so is said in `headtool.analysis.draws` and `headtool.analysis.race`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.paired import Paired
from headtool.metrics.base import Array

__all__ = ["FEW", "DrawPlan", "draws_needed", "inner_points"]

FEW = 10
"""Draws that tell how far a method is above those of its layers."""

_POINTS = 3
_LEAST_EXAMPLES = 12
_NOISE = 0.1  # of the variance between masks
_FIRST = 4  # in the first round this part of the examples, and then this part of the masks goes on
_LAST_FIELD = 5
_SHOWN_ROUND = 2  # the third, in which there are about as many as the plan's size


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
        How many draws there are.
    budgets
        Heads removed at the P points.
    weights
        Weights [P] that make an area of what is kept at the points.
    parts
        For each point the examples that it is measured on, as indices in the order in which the
        rounds take them; no example twice.
    fields
        How many masks, the method's own counted in, are in each round of a race.
    sizes
        On how many examples of all points together they have been run after each round.
    """

    most: int
    budgets: tuple[int, ...]
    weights: Array
    parts: tuple[NDArray[np.int64], ...]
    fields: tuple[int, ...]
    sizes: tuple[int, ...]

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
        fields, sizes = _rounds(1 + most, size, len(classes), methods, len(points))
        parts = tuple(
            part[: len(range(place, sizes[-1], len(points)))]
            for place, part in enumerate(_parts(classes, len(points), seed))
        )
        return cls(most, removed, weights, parts, fields, sizes)

    @property
    def shown(self) -> int:
        """On how many examples a few draws are run that tell how far a method is above them."""
        return self.sizes[min(_SHOWN_ROUND, len(self.sizes) - 1)]

    def taken(self, point: int, size: int) -> NDArray[np.int64]:
        """Return the examples that a point is measured on in a round.

        Parameters
        ----------
        point
            Which of the P points.
        size
            How many examples the round takes, over all points; the points take turns.
        """
        return self.parts[point][: len(range(point, size, len(self.parts)))]

    def passes(self, sides: int = 2) -> int:
        """Passes of a race at most, where methods are near so many ends of the field."""
        before, count = 0, 0
        for place, (field, size) in enumerate(zip(self.fields, self.sizes, strict=True)):
            count += (field if place == 0 else min(sides * field, self.fields[0])) * (size - before)
            before = size
        return count

    def described(self) -> dict[str, object]:
        """What a reader must know of it; as JSON."""
        return {
            "most": self.most,
            "budgets": list(self.budgets),
            "examples": [len(part) for part in self.parts],
            "rounds": [
                {"masks": field, "examples": size}
                for field, size in zip(self.fields, self.sizes, strict=True)
            ],
        }


def _rounds(
    masks: int, size: int, examples: int, methods: int, points: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many masks are in each round, and on how many examples they have been run after it.

    A quarter goes on after the first round, then half of the rest; the examples double. The last
    field has more draws than may do as well as a method of which anything is claimed.
    """
    last = max(_LAST_FIELD, methods + 1)
    if masks <= last:
        return (masks,), (size,)
    fields, sizes = [masks], [max(points, math.ceil(size / _FIRST))]
    while fields[-1] > last and sizes[-1] < examples:
        part = _FIRST if len(fields) == 1 else 2
        fields.append(max(last, math.ceil(fields[-1] / part)))
        sizes.append(min(2 * sizes[-1], examples))
    return tuple(fields), tuple(sizes)


def _trapezoid(grid: Array) -> Array:
    """Weights of the trapezoid rule that give the mean over a grid."""
    weights, gaps = np.zeros(len(grid)), np.diff(grid)
    weights[:-1] += gaps / 2
    weights[1:] += gaps / 2
    return np.asarray(weights / gaps.sum())


def _parts(classes: Sequence[object], count: int, seed: int) -> list[NDArray[np.int64]]:
    """Deal all examples out to some parts, so that the first of any part mix the classes.

    Sorted by class, in random order within each, they are dealt out in turn; a part is visited in
    steps of the golden section.
    """
    rng = np.random.default_rng([seed, 31])
    order = rng.permutation(len(classes))
    names = np.array([str(name) for name in classes])
    order = order[np.argsort(names[order], kind="stable")]
    parts = []
    for part in (order[place::count] for place in range(count)):
        step = max(1, round(len(part) * (math.sqrt(5) - 1) / 2))
        while math.gcd(step, len(part)) > 1:
            step += 1
        steps = rng.integers(len(part)) + step * np.arange(len(part))
        parts.append(part[steps % len(part)])
    return parts


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
