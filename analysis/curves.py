"""Pruning curves: what is left of a metric as heads are removed, and whose curve is better.

Everything comes from one paired bootstrap, see `curve_bootstrap`: every delta, mean, area and sum
below is computed anew on each resample.

Curves are compared by the area between them, their mean distance over the shares removed
(trapezoids). The p-value is that of the bootstrap distribution shifted to zero,
``(1 + #{|A* - A| >= |A|}) / (R + 1)``, two-sided (Davison & Hinkley 1997, ch. 4), corrected by Holm
over the family of comparisons.

Against random masks there are two questions. Would these very masks do better, or worse, than the
mean of random ones on other examples too? That is ``p``. Given enough examples the answer is yes
for nearly any masks, also for random ones. Could one have done as well, or as badly, by drawing
masks at random? That is ``p_draws``, see `headtool.analysis.draws`; a claim that a method is better
or worse than random masks rests on it alone, corrected (``p_draws_adjusted``). Where the
number of draws is left open, there is no ``p`` of rows with random masks.

References
----------
Davison & Hinkley (1997), Bootstrap Methods and their Application.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headtool.analysis.curve_bootstrap import CurveBootstrap, CurveEnsemble, Line
from headtool.analysis.draws import DrawTest, adjust_chains
from headtool.analysis.intervals import percentile_interval
from headtool.analysis.multiplicity import adjust
from headtool.analysis.race import Tally, tally
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "additivity",
    "curve_draws",
    "curve_frame",
    "curve_tests",
    "optimism",
]


def curve_frame(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Tabulate the curves of methods, and the means over random masks.

    Parameters
    ----------
    bootstrap
        The curves.
    alpha
        The bands have level ``1 - alpha`` at each budget by itself.

    Returns
    -------
    pandas.DataFrame
        The table ``curves`` of `headtool.schema`.
    """
    values, rows = _values(bootstrap), []
    for line, drawn in zip(bootstrap.lines, bootstrap.drawn, strict=True):
        if line.again:
            continue
        low, high = percentile_interval(drawn, level=1 - alpha)
        numbers = (line.of(values), bootstrap.deltas(line), low, high)
        rows += _points(bootstrap, line, (line.kind, line.method), numbers)
    return TABLES["curves"].frame(rows)


def curve_draws(bootstrap: CurveBootstrap) -> pd.DataFrame:
    """Tabulate every draw of random masks, the table ``curve_draws`` of `headtool.schema`.

    Parameters
    ----------
    bootstrap
        The curves.
    """
    values, rows = _values(bootstrap), []
    for line in bootstrap.lines:
        for draw, masks in enumerate(line.draws):
            numbers = (values[masks], bootstrap.observed[masks])
            rows += _points(bootstrap, line, (line.kind, line.method, draw), numbers)
    return TABLES["curve_draws"].frame(rows)


def _values(bootstrap: CurveBootstrap) -> Array:
    """Values of all masks by number; the last one, -1, is the whole model's."""
    return np.append(bootstrap.paired.masked_values, bootstrap.paired.whole_value)


def _points(
    bootstrap: CurveBootstrap, line: Line, place: tuple[object, ...], numbers: Sequence[Array]
) -> list[tuple[object, ...]]:
    """Rows of a curve: its place, then budget, share, metric and numbers at every budget."""
    columns = (line.budgets, line.share.tolist(), *(values.tolist() for values in numbers))
    return [
        (*place, budget, share, bootstrap.paired.name, *row)
        for budget, share, *row in zip(*columns, strict=True)
    ]


def curve_tests(
    bootstrap: CurveBootstrap | CurveEnsemble,
    *,
    alpha: float = 0.05,
    against_random: Sequence[DrawTest] | None = None,
) -> pd.DataFrame:
    """Compare curves by the area between them, ``curve_tests``.

    Every pair of methods, every method with ``random``, and every method with the random masks that
    match its layers; within a kind. See `headtool.analysis.comparison`.

    Parameters
    ----------
    bootstrap
        The curves, of one model, or averaged over several.
    alpha
        The intervals have level ``1 - alpha``, not corrected for their number.
    against_random
        The comparisons with random masks, of any kind; None: with all draws among the curves.
    """
    import pandas as pd

    frames, lines = [], bootstrap.lines
    for kind in dict.fromkeys(line.kind for line in lines):
        rows = []
        for first, second in _pairs(lines, kind):
            if against_random is None or not lines[second].is_random:
                rows.append(_test(bootstrap, first, second, alpha=alpha))
        for test in against_random or ():
            if test.kind == kind:
                rows.append(_drawn_test(bootstrap, test, alpha=alpha))
        frame = TABLES["curve_tests"].frame(rows)
        frame["p_adjusted"] = adjust(frame["p"].to_numpy(np.float64), "holm")
        frame["p_draws_adjusted"] = _adjusted_draws(frame)
        frames.append(frame)
    if not frames:
        return TABLES["curve_tests"].empty()
    return pd.concat(frames, ignore_index=True)


def _adjusted_draws(frame: pd.DataFrame) -> Array:
    """P among draws, corrected over the chains of the methods: any draws first, then matched."""
    random = frame.index[frame["draws"].notna()]
    chains: dict[str, list[int]] = {}
    for row in sorted(random, key=lambda row: frame["method_y"][row] != "random"):
        chains.setdefault(frame["method_x"][row], []).append(row)
    adjusted = np.full(len(frame), np.nan)
    found = adjust_chains([frame["p_draws"][rows].tolist() for rows in chains.values()])
    for rows, values in zip(chains.values(), found, strict=True):
        adjusted[rows] = values
    return adjusted


def additivity(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Compare what heads cost together with the sum of what each costs, ``additivity``.

    Only for curves whose single-head masks are in `CurveBootstrap.singles`. Ablations of single
    heads do not add up: heads stand in for one another, so that together they often cost more.

    Parameters
    ----------
    bootstrap
        The curves.
    alpha
        The intervals have level ``1 - alpha`` at each budget by itself.
    """
    rows = []
    for number in bootstrap.singles:
        line = bootstrap.lines[number]
        joint = bootstrap.deltas(line)
        added = bootstrap.observed @ bootstrap.single_weights[number]
        gaps = bootstrap.drawn[number] - bootstrap.drawn_sums[number]
        low, high = percentile_interval(gaps, level=1 - alpha)
        columns = (joint, added, np.round(joint - added, 12), low, high)  # 0 is 0
        for budget, share, *numbers in zip(
            line.budgets, line.share.tolist(), *map(np.ndarray.tolist, columns), strict=True
        ):
            rows.append((line.method, budget, share, *numbers))
    return TABLES["additivity"].frame(rows)


def optimism(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Say how much better curves look on the examples that selected them, ``optimism``.

    Both selections are evaluated on the same examples: one was made on these, one on others.

    Parameters
    ----------
    bootstrap
        Curves, some of them twice: see `Line.again`.
    alpha
        The intervals have level ``1 - alpha`` at each budget by itself.
    """
    lines, rows = bootstrap.lines, []
    for number, line in enumerate(lines):
        if not line.again:
            continue
        other = next(
            n
            for n, one in enumerate(lines)
            if not one.again and (one.kind, one.method) == (line.kind, line.method)
        )
        at = [lines[other].budgets.index(budget) for budget in line.budgets]
        first, second = bootstrap.deltas(line), bootstrap.deltas(lines[other])[at]
        drawn = bootstrap.sign * (bootstrap.drawn[number] - bootstrap.drawn[other][:, at])
        low, high = percentile_interval(drawn, level=1 - alpha)
        columns = (first, second, bootstrap.sign * (first - second), low, high)
        for budget, share, *numbers in zip(
            line.budgets, line.share.tolist(), *map(np.ndarray.tolist, columns), strict=True
        ):
            rows.append((line.method, budget, share, *numbers))
    return TABLES["optimism"].frame(rows)


def _pairs(lines: Sequence[Line], kind: str) -> list[tuple[int, int]]:
    """Numbers of the curves to be compared."""
    here = [n for n, line in enumerate(lines) if line.kind == kind and not line.again]
    methods = [number for number in here if not lines[number].is_random]
    baselines = [number for number in here if lines[number].is_random]
    pairs = list(itertools.combinations(methods, 2))
    for method in methods:
        rivals = ("", lines[method].method)
        pairs += [(method, other) for other in baselines if lines[other].rival in rivals]
    return pairs


def _test(
    bootstrap: CurveBootstrap | CurveEnsemble, first: int, second: int, *, alpha: float
) -> dict[str, object]:
    x, y = bootstrap.lines[first], bootstrap.lines[second]
    weights = bootstrap.sign * x.area_weights
    area = float((bootstrap.deltas(x) - bootstrap.deltas(y)) @ weights)
    drawn = (bootstrap.drawn[first] - bootstrap.drawn[second]) @ weights
    low, high = percentile_interval(drawn[:, None], level=1 - alpha)
    # A resample on which the metric is undefined counts as extreme; rounding makes no difference.
    near = np.abs(drawn - area) < abs(area) * (1 - 1e-9)
    p = (1 + np.count_nonzero(~near)) / (len(drawn) + 1) if np.isfinite(area) else np.nan
    standing: dict[str, object] = dict.fromkeys(_STANDING, np.nan)
    if len(y.draws):
        own = float(bootstrap.deltas(x) @ weights)
        passes = _first(bootstrap).paired.n_examples * sum(budget > 0 for budget in y.budgets)
        standing = _standing(tally(own, bootstrap.each_draw(y) @ weights), passes)
    return {
        "kind": x.kind,
        "method_x": x.method,
        "method_y": y.method,
        "area": area,
        "low": float(low[0]),
        "high": float(high[0]),
        "p": p,
        **standing,
    }


def _drawn_test(
    bootstrap: CurveBootstrap | CurveEnsemble, test: DrawTest, *, alpha: float
) -> dict[str, object]:
    """A method among the draws of a plan; how far above them, by whole curves where these exist."""
    first = _first(bootstrap)
    standing = _standing(test.tally, test.passes / test.tally.draws)
    places = {
        line.method: number
        for number, line in enumerate(bootstrap.lines)
        if line.kind == test.kind and not line.again
    }
    if test.baseline in places:
        seen = _test(bootstrap, places[test.method], places[test.baseline], alpha=alpha)
        return {**seen, "p": np.nan, **standing}
    drawn = test.resampled(first.resamples, first.seed)
    low, high = percentile_interval(drawn[:, None], level=1 - alpha)
    return {
        "kind": test.kind,
        "method_x": test.method,
        "method_y": test.baseline,
        "area": test.area,
        "low": float(low[0]),
        "high": float(high[0]),
        "p": np.nan,
        **standing,
    }


_STANDING = ("draws_beaten", "draws", "draw_passes", "p_draws")


def _standing(found: Tally, passes: float) -> dict[str, object]:
    """Where a method stands among random draws, as columns."""
    numbers = (float(found.beaten), float(found.draws), passes, found.p)
    return dict(zip(_STANDING, numbers, strict=True))


def _first(bootstrap: CurveBootstrap | CurveEnsemble) -> CurveBootstrap:
    """The curves of the only model, or of the first."""
    return bootstrap.members[0] if isinstance(bootstrap, CurveEnsemble) else bootstrap
