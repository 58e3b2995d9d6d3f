"""Areas between curves on resampled examples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headtool.analysis.curve_bootstrap import CurveBootstrap, Line
from headtool.analysis.curves import curve_tests
from headtool.analysis.paired import Paired
from simulations.printing import ALPHA, rate, table


def curve_areas() -> None:
    """Areas between curves and those of draws: level over examples, coverage of the interval."""
    trials, n = 500, 200

    def rows() -> Iterator[list[str]]:
        for draws in (20, 79, 319, None):
            rng = np.random.default_rng(draws or 1)
            wrong = covered = pair_wrong = 0
            for _ in range(trials):
                common = rng.normal(size=n)
                masks = draws or 1
                # What a draw is worth; a dealt one is another for each example.
                spread = 0.05 * rng.normal(size=(masks, 1 if draws else n))
                values = 0.5 * common + 0.5 * rng.normal(size=(masks + 2, n))
                values[2:] += spread  # the methods do as draws do on average
                paired = Paired.from_values(np.zeros(n), values, higher_is_better=True)
                drawn = np.stack([np.full(masks, -1), np.arange(2, masks + 2)], axis=1)
                lines = (
                    Line("all", "a", (0, 2), 4, np.array([-1, 0])),
                    Line("all", "b", (0, 2), 4, np.array([-1, 1])),
                    Line("all", "random", (0, 2), 4, drawn, is_dealt=draws is None),
                )
                tests = curve_tests(CurveBootstrap(paired, lines, resamples=399))
                pair, against, _ = tests.to_dict("records")
                wrong += against["p"] <= ALPHA
                covered += against["low"] <= 0 <= against["high"]
                pair_wrong += pair["p"] <= ALPHA
            yield [
                str(draws or "one for each example"),
                *(rate(x, trials) for x in (wrong, covered, pair_wrong)),
            ]

    table(
        [
            *("draws", "p ≤ .05 against draws", "its 95% interval covers"),
            "p ≤ .05 of two methods that are equal",
        ],
        rows(),
    )
