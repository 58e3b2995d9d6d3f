"""Stopping early, and intervals of accuracy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.stats

from headtool.analysis.assessment import assess
from headtool.analysis.paired import Paired
from headtool.analysis.sequential import SequentialTest
from simulations.printing import ALPHA, Array, named, rate, table


def sequential() -> None:
    """Verdicts of --sequential that are false at any time, and the examples that it takes."""
    trials, n = 2_000, 872

    def outcomes(rng: np.random.Generator, lose: float, win: float) -> Array:
        lost, won = round(lose * n), round(win * n)
        one = np.repeat([-1.0, 1.0, 0.0], [lost, won, n - lost - won])
        return rng.permuted(np.tile(one, (trials, 1)), axis=1)

    def rows() -> Iterator[list[str]]:
        for name, lose, win, false in (
            ("no effect, 2% change", 0.01, 0.01, ("needed", "harmful")),
            ("no effect, 20% change", 0.1, 0.1, ("needed", "harmful")),
            ("costs the margin, few change", 0.02, 0.0, ("removable",)),
            ("costs the margin, 12% change", 0.07, 0.05, ("removable",)),
            ("costs 5 points", 0.07, 0.02, ("removable", "harmful")),
            ("costs nothing, nothing changes", 0.0, 0.0, ("needed", "harmful")),
        ):
            values = outcomes(np.random.default_rng(len(name)), lose, win)
            margin = (round(lose * n) - round(win * n)) / n if "margin" in name else 0.02
            test = SequentialTest(
                named(trials), margin=margin, total=n, alpha=ALPHA, correction="none"
            )
            test.update(values)
            said = test.verdicts
            decided = float((said != "undecided").mean())
            yield [
                name,
                rate(sum(int((said == verdict).sum()) for verdict in false), trials),
                f"{decided:.2f}",
                f"{np.mean(test.n_examples) / n:.2f}",
            ]

    table(["head", "false verdicts", "decided", "share of the examples run"], rows())


def newcombe() -> None:
    """Exact coverage of the default interval of accuracy where few predictions change."""

    def rows() -> Iterator[list[str]]:
        for n in (60, 200, 872):
            for lost in (0.001, 0.004, 0.01, 0.03):
                counts = np.arange(min(n, 80) + 1)
                whole = np.ones(n)
                masked = np.stack([np.where(np.arange(n) < count, 0.0, 1.0) for count in counts])
                frame = assess(
                    Paired.from_values(whole, masked, higher_is_better=True), correction="none"
                ).frame
                weights = scipy.stats.binom.pmf(counts, n, lost)
                covers = (frame["ci_low"] <= -lost) & (-lost <= frame["ci_high"])
                changed = covers & (counts > 0)
                yield [
                    str(n),
                    f"{lost:g}",
                    f"{weights @ covers:.3f}",
                    f"{weights @ changed:.3f}",
                ]

    table(
        ["examples", "share lost", "Newcombe", "[0, 0] where nothing changed"],
        rows(),
    )
