"""Random labels as methods, and areas between curves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from headtool.analysis.curve_bootstrap import CurveBootstrap, Line
from headtool.analysis.curves import curve_tests
from headtool.analysis.draw_plan import draws_needed
from headtool.analysis.paired import Paired
from headtool.masks.curves import matched_closed
from simulations.printing import ALPHA, rate, table


def label_tests(rng: np.random.Generator, draws: int, *, matched: bool) -> pd.DataFrame:
    """Curve tests of four methods that are random labels."""
    heads, methods = 24, 4
    layers = np.repeat(np.arange(4), 6)
    effect = rng.exponential(size=heads) * np.repeat(rng.exponential(size=4), 6)
    counts = np.zeros((1, heads), dtype=np.bool_)
    counts[0, [0, 1, 2, 6, 7, 12, 18, 19]] = True
    keys = rng.random((draws + methods, heads))
    rows = [
        matched_closed(counts, key, layers)[0] if matched else np.argsort(np.argsort(key)) < 8
        for key in keys
    ]
    means = np.array(rows) @ effect / -50
    masked = means[:, None] + 0.05 * rng.normal(size=(len(rows), 60))
    paired = Paired.from_values(np.zeros(60), masked, higher_is_better=True)
    drawn = np.stack([np.full(draws, -1), np.arange(methods, len(rows))], axis=1)
    lines = [Line("all", f"m{i}", (0, 8), heads, np.array([-1, i])) for i in range(methods)]
    rivals = [f"m{i}" for i in range(methods)] if matched else [""]
    lines += [
        Line("all", f"random-matched:{rival}" if rival else "random", (0, 8), heads, drawn, rival)
        for rival in rivals
    ]
    tests = curve_tests(CurveBootstrap(paired, tuple(lines), resamples=199))
    return tests[tests["method_y"].str.startswith("random")]


def random_masks() -> None:
    """Families of four random labels of which one is called better or worse than random masks."""
    families = 400

    def rows() -> Iterator[list[str]]:
        for matched in (False, True):
            for draws in (20, draws_needed(ALPHA, 4)):
                rng = np.random.default_rng([draws, matched])
                one_sided = examples_only = claims = better = worse = 0
                for _ in range(families):
                    random = label_tests(rng, draws, matched=matched)
                    share = (1 + draws - random["draws_beaten"]) / (1 + draws)
                    one_sided += bool((share <= ALPHA).any())
                    examples_only += bool((random["p_adjusted"] <= ALPHA).any())
                    sure = random[random["p_draws_adjusted"] <= ALPHA]
                    better += bool((2 * sure["draws_beaten"] > draws).any())
                    worse += bool((2 * sure["draws_beaten"] < draws).any())
                    claims += bool(len(sure))
                yield [
                    "same layers" if matched else "any heads",
                    str(draws),
                    *(rate(n, families) for n in (examples_only, one_sided, better, worse, claims)),
                ]

    table(
        [
            *("masks", "draws", "by the examples alone", "by the draws, one-sided, uncorrected"),
            *("headtool: better", "headtool: worse", "headtool: either"),
        ],
        rows(),
    )


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
