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
masks at random? That is ``p_draws``: twice the smaller of the shares of draws that do at least as
well, and at least as badly, the method's own masks counted in. ``p_draws_adjusted`` is Holm's over
all rows of a kind with random masks. A claim that a method is better or worse than random masks
needs the second. Its least p-value is 2 / (draws + 1), so that the number of draws follows from the
level and the number of methods: see `draws_needed`.

References
----------
Davison & Hinkley (1997), Bootstrap Methods and their Application.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headtool.analysis.curve_bootstrap import CurveBootstrap, CurveEnsemble, Line
from headtool.analysis.intervals import percentile_interval
from headtool.analysis.multiplicity import adjust
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "additivity",
    "curve_draws",
    "curve_frame",
    "curve_tests",
    "draws_needed",
    "optimism",
]

_ROUNDING = 1e-12  # areas that differ by less are equal


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
        for draw, masks in enumerate(line.masks if line.is_random else ()):
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


def curve_tests(bootstrap: CurveBootstrap | CurveEnsemble, *, alpha: float = 0.05) -> pd.DataFrame:
    """Compare curves by the area between them, ``curve_tests``.

    Every pair of methods, every method with ``random``, and every method with the random masks that
    match its layers; within a kind. See `headtool.analysis.comparison`.

    Parameters
    ----------
    bootstrap
        The curves, of one model, or averaged over several.
    alpha
        The intervals have level ``1 - alpha``, not corrected for their number.
    """
    import pandas as pd

    frames = []
    for kind in dict.fromkeys(line.kind for line in bootstrap.lines):
        rows = [_test(bootstrap, *pair, alpha=alpha) for pair in _pairs(bootstrap.lines, kind)]
        frame = TABLES["curve_tests"].frame(rows)
        for name in ("p", "p_draws"):
            frame[f"{name}_adjusted"] = adjust(frame[name].to_numpy(np.float64), "holm")
        frames.append(frame)
    if not frames:
        return TABLES["curve_tests"].empty()
    return pd.concat(frames, ignore_index=True)


def draws_needed(alpha: float, methods: int) -> int:
    """Return how many draws it takes for a method to be better or worse than random masks.

    Every method is compared with any random masks and with those that match its layers, in both
    directions; Holm's correction is over all of these.

    Parameters
    ----------
    alpha
        Level after correction.
    methods
        How many methods are compared.

    Examples
    --------
    >>> from headtool.analysis.curves import draws_needed
    >>> draws_needed(0.05, 1), draws_needed(0.05, 4), draws_needed(0.01, 4)
    (79, 319, 1599)
    """
    return math.ceil(round(4 * methods / alpha, 6)) - 1


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
        columns = (joint, added, joint - added, low, high)
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
        first, second = bootstrap.deltas(line), bootstrap.deltas(lines[other])
        drawn = bootstrap.sign * (bootstrap.drawn[number] - bootstrap.drawn[other])
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
    row: dict[str, object] = {
        "kind": x.kind,
        "method_x": x.method,
        "method_y": y.method,
        "area": area,
        "low": float(low[0]),
        "high": float(high[0]),
        "p": p,
        "draws_beaten": np.nan,
        "draws": np.nan,
        "p_draws": np.nan,
    }
    if y.is_random:
        areas = bootstrap.each_draw(y) @ weights
        own = float(bootstrap.deltas(x) @ weights)
        beaten = np.count_nonzero(areas < own - _ROUNDING)
        beating = np.count_nonzero(areas > own + _ROUNDING)
        draws = len(areas)
        row["draws_beaten"], row["draws"] = float(beaten), float(draws)
        row["p_draws"] = min(1.0, 2 * (1 + draws - max(beaten, beating)) / (1 + draws))
    return row
