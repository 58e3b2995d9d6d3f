"""Pruning curves: what is left of a metric as heads are removed, and whose curve is better.

Everything comes from one paired bootstrap, see `curve_bootstrap`: every delta, mean, area and sum
below is computed anew on each resample.

Curves are compared by the area between them, their mean distance over the shares removed
(trapezoids). The p-value is that of the bootstrap distribution shifted to zero,
``(1 + #{|A* - A| >= |A|}) / (R + 1)``, two-sided (Davison & Hinkley 1997, ch. 4), corrected by Holm
over the family of comparisons.

Against random masks there are two questions. Would the method beat their mean on other examples
too? That is ``p``. Could one have been as lucky by drawing masks at random? That is ``p_draws``,
the share of draws that do at least as well, the method's own masks counted in: with 20 draws it
cannot be below 1/21. A lucky draw passes the first test, given enough examples, and not the second.

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
from headtool.analysis.intervals import percentile_interval
from headtool.analysis.multiplicity import adjust

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ADDITIVITY_COLUMNS",
    "CURVE_COLUMNS",
    "CURVE_TEST_COLUMNS",
    "OPTIMISM_COLUMNS",
    "additivity",
    "curve_frame",
    "curve_tests",
    "optimism",
]

CURVE_COLUMNS = (
    "kind",
    "method",
    "draw",
    "budget",
    "share",
    "metric",
    "value",
    "delta",
    "low",
    "high",
)
CURVE_TEST_COLUMNS = (
    "kind",
    "method_x",
    "method_y",
    "area",
    "low",
    "high",
    "p",
    "p_adjusted",
    "draws_beaten",
    "draws",
    "p_draws",
)
OPTIMISM_COLUMNS = (
    "method",
    "budget",
    "share",
    "selection",
    "evaluation",
    "optimism",
    "low",
    "high",
)
ADDITIVITY_COLUMNS = (
    "method",
    "budget",
    "share",
    "joint",
    "sum_of_singles",
    "gap",
    "low",
    "high",
)


def curve_frame(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Tabulate the curves, `CURVE_COLUMNS`; see `headtool.analysis.comparison`.

    Parameters
    ----------
    bootstrap
        The curves.
    alpha
        The bands have level ``1 - alpha`` at each budget by itself.
    """
    import pandas as pd

    paired, rows = bootstrap.paired, []
    values = np.append(paired.masked_values, paired.whole_value)
    for line, drawn in zip(bootstrap.lines, bootstrap.drawn, strict=True):
        if line.again:
            continue
        low, high = percentile_interval(drawn, level=1 - alpha)
        deltas = bootstrap.deltas(line)
        mean = values[line.masks].mean(axis=0) if line.is_random else values[line.masks]
        table = [(-1, mean, deltas, low, high)]
        if line.is_random:
            none = np.full(len(line.budgets), np.nan)
            table += [
                (draw, values[masks], bootstrap.observed[masks], none, none)
                for draw, masks in enumerate(line.masks)
            ]
        for draw, *columns in table:
            for budget, share, *numbers in zip(
                line.budgets, line.share.tolist(), *map(np.ndarray.tolist, columns), strict=True
            ):
                rows.append((line.kind, line.method, draw, budget, share, paired.name, *numbers))
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def curve_tests(bootstrap: CurveBootstrap | CurveEnsemble, *, alpha: float = 0.05) -> pd.DataFrame:
    """Compare curves by the area between them, `CURVE_TEST_COLUMNS`.

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
        frame = pd.DataFrame(rows, columns=list(CURVE_TEST_COLUMNS))
        frame["p_adjusted"] = adjust(frame["p"].to_numpy(np.float64), "holm")
        frames.append(frame)
    if not frames:
        return pd.DataFrame(columns=list(CURVE_TEST_COLUMNS))
    return pd.concat(frames, ignore_index=True)


def additivity(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Compare what heads cost together with the sum of what each costs, `ADDITIVITY_COLUMNS`.

    Only for curves whose single-head masks are in `CurveBootstrap.singles`. Ablations of single
    heads do not add up: heads stand in for one another, so that together they often cost more.

    Parameters
    ----------
    bootstrap
        The curves.
    alpha
        The intervals have level ``1 - alpha`` at each budget by itself.
    """
    import pandas as pd

    rows = []
    for number, members in bootstrap.singles.items():
        line = bootstrap.lines[number]
        joint = bootstrap.deltas(line)
        added = np.array([bootstrap.observed[masks].sum() for masks in members])
        gaps = bootstrap.drawn[number] - bootstrap.drawn_sums[number]
        low, high = percentile_interval(gaps, level=1 - alpha)
        columns = (joint, added, joint - added, low, high)
        for budget, share, *numbers in zip(
            line.budgets, line.share.tolist(), *map(np.ndarray.tolist, columns), strict=True
        ):
            rows.append((line.method, budget, share, *numbers))
    return pd.DataFrame(rows, columns=list(ADDITIVITY_COLUMNS))


def optimism(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Say how much better curves look on the examples that selected them, `OPTIMISM_COLUMNS`.

    Both selections are evaluated on the same examples: one was made on these, one on others.

    Parameters
    ----------
    bootstrap
        Curves, some of them twice: see `Line.again`.
    alpha
        The intervals have level ``1 - alpha`` at each budget by itself.
    """
    import pandas as pd

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
    return pd.DataFrame(rows, columns=list(OPTIMISM_COLUMNS))


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
        beaten = np.count_nonzero(areas < own - 1e-12)
        row["draws_beaten"], row["draws"] = float(beaten), float(len(areas))
        row["p_draws"] = (1 + len(areas) - beaten) / (1 + len(areas))
    return row
