"""Correlations of importance, and permutations of heads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from headtool.analysis.correlation import correlate, fisher_interval
from headtool.analysis.head_permutation import permutation_p
from headtool.analysis.importance import Importance
from simulations.printing import ALPHA, named, rate, table


def correlation() -> None:
    """Coverage of the intervals of `correlate`: over examples, and Fisher's over heads."""
    trials, heads, n = 200, 48, 200

    def rows() -> Iterator[list[str]]:
        for rho, noise in itertools.product((0.0, 0.5, 0.9), (2.0, 8.0)):
            rng = np.random.default_rng([round(10 * rho), round(noise)])
            covered = dict.fromkeys(("pearson", "spearman", "kendall"), 0)
            fisher = 0
            # The coefficient that scores from as many examples have on average, for fixed heads.
            common = rng.normal(size=heads)
            second = rho * common + math.sqrt(1 - rho**2) * rng.normal(size=heads)
            found = []
            for _ in range(trials):
                x, y = (
                    Importance.from_contributions(
                        name, named(heads), truth + noise * rng.normal(size=(n, heads))
                    )
                    for name, truth in (("x", common), ("y", second))
                )
                found.append(
                    correlate([x, y], permutations=19, resamples=400, splits=50, rng=rng).iloc[0]
                )
            for name in covered:
                target = np.mean([row[name] for row in found])
                covered[name] = sum(
                    row[f"{name}_low"] <= target <= row[f"{name}_high"] for row in found
                )
            for _ in range(4 * trials):  # other heads every time, without noise
                a = rng.normal(size=heads)
                b = rho * a + math.sqrt(1 - rho**2) * rng.normal(size=heads)
                low, high = fisher_interval(float(np.corrcoef(a, b)[0, 1]), heads)
                fisher += low <= rho <= high
            shown = [rate(count, trials) for count in covered.values()]
            yield [f"{rho:g}", f"{noise:g}", *shown, rate(fisher, 4 * trials)]

    table(
        [
            *("true correlation", "noise of an example", "Pearson", "Spearman", "Kendall"),
            "Fisher's, over heads",
        ],
        rows(),
    )


def kendall() -> None:
    """Level of the permutation p-values of Kendall's tau-b, heads freely and within layers."""
    trials, heads = 1_000, 24
    layers = np.repeat(np.arange(4), 6)

    def rows() -> Iterator[list[str]]:
        for name, levels, layered in (
            ("no ties", None, False),
            ("ties: five values", 5, False),
            ("no ties, layers matter", None, True),
            ("ties: five values, layers matter", 5, True),
        ):
            rng = np.random.default_rng(len(name))
            small = {"free": 0, "within": 0}
            for _ in range(trials):
                offset = 2.0 * rng.normal(size=4)[layers] if layered else np.zeros(heads)
                x, y = rng.normal(size=(2, heads)) + offset
                if levels is not None:
                    x, y = (np.round(values * levels / 5) for values in (x, y))
                for key, groups in (("free", None), ("within", layers)):
                    p = permutation_p(x, y, layers=groups, permutations=199, rng=rng)
                    small[key] += p["kendall"] <= ALPHA
            yield [name, rate(small["free"], trials), rate(small["within"], trials)]

    table(["importance", "heads permuted freely", "within layers"], rows())
