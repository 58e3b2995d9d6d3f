"""Areas between curves on resampled examples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headtool.analysis.curve_bootstrap import CurveBootstrap, Line
from headtool.analysis.curves import curve_tests
from headtool.analysis.paired import Paired
from simulations.printing import ALPHA, rate, table


def curve_areas() -> None:
    """Areas between curves beside matched draws: level over examples, coverage of the interval."""
    trials, n = 500, 200

    def rows() -> Iterator[list[str]]:
        for draws in (20, 79, 319):
            rng = np.random.default_rng(draws)
            wrong = covered = pair_wrong = 0
            for _ in range(trials):
                common = rng.normal(size=n)
                spread = 0.05 * rng.normal(size=draws)
                noise = 0.5 * common + 0.5 * rng.normal(size=(draws + 2, n))
                means = np.concatenate(
                    [[0.0, 0.0], spread]
                )  # the methods do as draws do on average
                paired = Paired.from_values(
                    np.zeros(n), means[:, None] + noise, higher_is_better=True
                )
                drawn = np.stack([np.full(draws, -1), np.arange(2, draws + 2)], axis=1)
                lines = (
                    Line("all", "a", (0, 2), 4, np.array([-1, 0])),
                    Line("all", "b", (0, 2), 4, np.array([-1, 1])),
                    Line("all", "random-matched:a", (0, 2), 4, drawn, "a"),
                )
                tests = curve_tests(CurveBootstrap(paired, lines, resamples=399))
                pair, against = tests.to_dict("records")
                wrong += against["p"] <= ALPHA
                covered += against["low"] <= 0 <= against["high"]
                pair_wrong += pair["p"] <= ALPHA
            yield [str(draws), *(rate(x, trials) for x in (wrong, covered, pair_wrong))]

    table(
        [
            *("draws", "p ≤ .05 against matched draws", "its 95% interval covers"),
            "p ≤ .05 of two methods that are equal",
        ],
        rows(),
    )
