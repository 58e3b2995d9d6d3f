"""Pruning curves: what is left of a metric as heads are removed, and whose curve is better.

Everything comes from one paired bootstrap. Each resample draws examples with replacement, the same
for all masks, and every delta, mean, area and sum below is computed anew on it, so that all of them
are paired. The mean over random masks has a second source of chance, the draw of the masks:
each resample also draws the random masks with replacement, the same draws for every baseline.

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
Koehn (2004), Statistical significance tests for machine translation evaluation.
Davison & Hinkley (1997), Bootstrap Methods and their Application.
Owen (2007), The pigeonhole bootstrap, for resampling two factors at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.intervals import percentile_interval
from headtool.analysis.multiplicity import adjust
from headtool.analysis.paired import Paired
from headtool.analysis.resampling import Sums, block_rows, bootstrap_weights
from headtool.errors import HeadtoolError
from headtool.metric_base import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ADDITIVITY_COLUMNS",
    "CURVE_COLUMNS",
    "CURVE_TEST_COLUMNS",
    "OPTIMISM_COLUMNS",
    "CurveBootstrap",
    "Line",
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


@dataclass(frozen=True, eq=False)
class Line:
    """One curve: a method's, or the mean of several random ones.

    Attributes
    ----------
    kind
        Which heads are up for removal: ``all``, or an attention kind.
    method
        The method, or the baseline.
    budgets
        Heads removed at each point, ascending, shape [B].
    total
        How many heads are up for removal.
    masks
        Which mask of the outcomes each point is, -1 for the whole model; [B] for a method and
        [draws, B] for random masks.
    rival
        The method whose layers a baseline matches; empty for others.
    again
        Whether the heads were selected on the very examples that evaluate them, which only
        :func:`optimism` looks at.
    """

    kind: str
    method: str
    budgets: tuple[int, ...]
    total: int
    masks: NDArray[np.int64]
    rival: str = ""
    again: bool = False

    def __post_init__(self) -> None:
        if self.masks.shape[-1] != len(self.budgets):
            raise ValueError(f"{len(self.budgets)} budgets, masks of shape {self.masks.shape}")

    @property
    def is_random(self) -> bool:
        """Whether it is the mean of draws."""
        return self.masks.ndim == 2

    @property
    def share(self) -> Array:
        """Heads removed as a share of all, shape [B]."""
        return np.array(self.budgets) / self.total

    @property
    def area_weights(self) -> Array:
        """Weights [B] of the trapezoid rule that gives the mean over the shares.

        Raises
        ------
        HeadtoolError
            If there is one point only.
        """
        if len(self.budgets) < 2:
            raise HeadtoolError("a curve needs two points; give more --steps")
        gaps = np.diff(self.share)
        weights = np.zeros(len(self.budgets))
        weights[:-1] += gaps / 2
        weights[1:] += gaps / 2
        return np.asarray(weights / gaps.sum())


@dataclass(frozen=True, eq=False)
class CurveBootstrap:
    """Deltas of curves, observed and in resamples of the examples (and of the random draws).

    Attributes
    ----------
    paired
        The outcomes.
    lines
        The curves.
    singles
        For every curve and budget, the masks that close the removed heads one at a time; only for
        the curves given.
    resamples
        Bootstrap resamples R.
    seed
        Seed of the resamples.
    """

    paired: Paired
    lines: tuple[Line, ...]
    singles: Mapping[int, Sequence[NDArray[np.int64]]] = field(default_factory=dict)
    resamples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resamples < 1:
            raise HeadtoolError(f"resamples must be at least 1, got {self.resamples}")

    @cached_property
    def sign(self) -> float:
        """1 where higher is better, else -1."""
        return 1.0 if self.paired.higher_is_better else -1.0

    @cached_property
    def observed(self) -> Array:
        """Deltas of all masks, and 0 for the whole model at the end, shape [M + 1]."""
        return np.append(self.paired.delta, 0.0)

    def deltas(self, line: Line) -> Array:
        """Deltas of a curve, the mean over draws of random ones, shape [B]."""
        values = self.observed[line.masks]
        return values.mean(axis=0) if line.is_random else values

    @cached_property
    def drawn(self) -> list[Array]:
        """Deltas of every curve in the resamples, each [R, B]."""
        return self._resampled[0]

    @cached_property
    def drawn_sums(self) -> dict[int, Array]:
        """Sums of single deltas in the resamples by number of the curve, each [R, B]."""
        return self._resampled[1]

    @cached_property
    def _resampled(self) -> tuple[list[Array], dict[int, Array]]:
        paired = self.paired
        for_examples, for_draws = np.random.default_rng(self.seed).spawn(2)
        sums = Sums(paired)
        drawn = [np.empty((self.resamples, len(line.budgets))) for line in self.lines]
        added = {number: np.empty_like(drawn[number]) for number in self.singles}
        chosen = {number: self._choice(masks) for number, masks in self.singles.items()}
        start = 0
        for weights in bootstrap_weights(
            paired.n_examples,
            resamples=self.resamples,
            rows=block_rows(paired),
            rng=for_examples,
        ):
            whole, masked = sums(weights)
            with np.errstate(invalid="ignore"):  # between two infinite perplexities: NaN
                deltas = paired.value(masked) - paired.value(whole)[:, None]
            deltas = np.concatenate([deltas, np.zeros((len(deltas), 1))], axis=1)
            rows = slice(start, start + len(deltas))
            shares: dict[int, Array] = {}
            for line, into in zip(self.lines, drawn, strict=True):
                if not line.is_random:
                    into[rows] = deltas[:, line.masks]
                    continue
                draws = len(line.masks)
                if draws not in shares:
                    fair = np.full(draws, 1 / draws)
                    shares[draws] = for_draws.multinomial(draws, fair, len(deltas)) / draws
                into[rows] = np.einsum("rd,rdb->rb", shares[draws], deltas[:, line.masks])
            for number, into in added.items():
                into[rows] = deltas @ chosen[number]
            start += len(deltas)
        return drawn, added

    def _choice(self, masks: Sequence[NDArray[np.int64]]) -> Array:
        """Matrix [M + 1, B] that adds up the deltas of some masks for each budget."""
        matrix = np.zeros((self.paired.n_masks + 1, len(masks)))
        for column, members in enumerate(masks):
            matrix[members, column] = 1.0
        return matrix


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


def curve_tests(bootstrap: CurveBootstrap, *, alpha: float = 0.05) -> pd.DataFrame:
    """Compare curves by the area between them, `CURVE_TEST_COLUMNS`.

    Every pair of methods, every method with ``random``, and every method with the random masks that
    match its layers; within a kind. See `headtool.analysis.comparison`.

    Parameters
    ----------
    bootstrap
        The curves.
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

    For the curves of which `CurveBootstrap.singles` has the masks. Ablations of single heads do not
    add up: heads stand in for one another, so that together they often cost more.
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


def _test(bootstrap: CurveBootstrap, first: int, second: int, *, alpha: float) -> dict[str, object]:
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
        areas = bootstrap.observed[y.masks] @ weights
        own = float(bootstrap.deltas(x) @ weights)
        beaten = np.count_nonzero(areas < own - 1e-12)
        row["draws_beaten"], row["draws"] = float(beaten), float(len(areas))
        row["p_draws"] = (1 + len(areas) - beaten) / (1 + len(areas))
    return row
