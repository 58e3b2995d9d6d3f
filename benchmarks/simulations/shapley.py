"""The standard error of Shapley values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from headtool.methods.shapley import _stderr
from simulations.printing import Array, rate, table


def shapley() -> None:
    """The standard error of Shapley values against their spread over runs, and 95% coverage."""
    runs, heads = 400, 12

    def rows() -> Iterator[list[str]]:
        rng = np.random.default_rng(4)
        weight = rng.exponential(size=heads)
        pairs_of = np.triu(rng.normal(size=(heads, heads)), 1)
        games: dict[str, Callable[[Array], Array]] = {
            "additive": lambda kept: kept @ weight,
            "pairs interact": lambda kept: (
                kept @ weight + np.einsum("...i,ij,...j->...", kept, pairs_of, kept)
            ),
            "saturating": lambda kept: 1 - np.exp(-(kept @ weight)),
            "one of three is enough": lambda kept: kept @ weight + 5.0 * kept[..., :3].max(axis=-1),
        }
        sets = np.array(np.meshgrid(*[[0.0, 1.0]] * heads)).reshape(heads, -1).T
        for name, value in games.items():
            truth = exact_shapley(value(sets), sets)
            for orders in (20, 100):
                estimates, errors = [], []
                for _ in range(runs):
                    pairs = []
                    for _ in range(orders // 2):
                        order = rng.permutation(heads)
                        gains = [order_gains(value, one) for one in (order, order[::-1])]
                        pairs.append((gains[0] + gains[1]) / 2)
                    estimates.append(np.mean(pairs, axis=0))
                    errors.append(_stderr(pairs))
                spread, stated = np.std(estimates, axis=0), np.sqrt(np.mean(np.square(errors), 0))
                varies = spread > 1e-9
                ratio = (
                    float(np.mean(stated[varies] / spread[varies])) if varies.any() else math.nan
                )
                t = scipy.stats.t.isf(0.025, orders // 2 - 1)
                off = np.abs(np.array(estimates) - truth)
                within = off <= t * np.array(errors) + 1e-9
                shown = "no spread" if math.isnan(ratio) else f"{ratio:.3f}"
                yield [name, str(orders), shown, rate(float(within.sum()) / heads, runs)]

    table(["game", "orders", "stated / true standard error", "95% interval covers"], rows())


def exact_shapley(values: Array, sets: Array) -> Array:
    """Shapley values from the values of all subsets."""
    heads = sets.shape[1]
    number = (sets @ (2 ** np.arange(heads))).astype(np.int64)
    by_number = np.empty(len(sets))
    by_number[number] = values
    sizes = sets.sum(axis=1)
    result = np.empty(heads)
    for head in range(heads):
        without = sets[:, head] == 0
        weight = [
            math.factorial(int(s)) * math.factorial(heads - int(s) - 1) / math.factorial(heads)
            for s in sizes[without]
        ]
        gain = by_number[number[without] + 2**head] - values[without]
        result[head] = np.dot(weight, gain)
    return result


def order_gains(value: Callable[[Array], Array], order: NDArray[np.int64]) -> Array:
    """What closing each head of an order costs."""
    heads = len(order)
    kept = np.ones((heads + 1, heads))
    for step, head in enumerate(order, start=1):
        kept[step:, head] = 0.0
    gains = np.empty(heads)
    gains[order] = -np.diff(value(kept))
    return gains
