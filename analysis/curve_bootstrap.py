"""Curves in resamples of the examples: what every number about pruning curves is computed from.

Each resample draws examples with replacement, the same for all masks, so that all curves are
paired. The mean over random masks has a second source of chance, the draw of the masks: each
resample also draws the random masks with replacement, the same draws for every baseline.

References
----------
Koehn (2004), Statistical significance tests for machine translation evaluation.
Owen (2007), The pigeonhole bootstrap, for resampling two factors at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.paired import Paired
from headtool.analysis.resampling import Sums, block_rows, bootstrap_weights
from headtool.errors import HeadtoolError
from headtool.metrics.base import Array

__all__ = ["CurveBootstrap", "CurveEnsemble", "Line"]


@dataclass(frozen=True, eq=False)
class Line:
    """One curve: a method's, or the mean of several: random ones, or those of tied heads.

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
        `headtool.analysis.curves.optimism` looks at.
    orders
        For a method that gives heads on both sides of a cut the same score: the masks where these
        heads leave in several random orders, [K, B]. The curve is the mean over them, not that of
        `masks`. None where scores decide every point.
    is_dealt
        Whether every example has random masks of its own. Then `masks` is [1, B], and the curve
        varies as the examples do.
    """

    kind: str
    method: str
    budgets: tuple[int, ...]
    total: int
    masks: NDArray[np.int64]
    rival: str = ""
    again: bool = False
    orders: NDArray[np.int64] | None = None
    is_dealt: bool = False

    def __post_init__(self) -> None:
        if self.masks.shape[-1] != len(self.budgets):
            raise ValueError(f"{len(self.budgets)} budgets, masks of shape {self.masks.shape}")

    @property
    def is_random(self) -> bool:
        """Whether it is the mean of random draws."""
        return self.masks.ndim == 2

    @property
    def draws(self) -> NDArray[np.int64]:
        """The masks of single draws, [draws, B]; none where a line is a method's, or dealt."""
        several = self.is_random and not self.is_dealt
        return self.masks if several else np.empty((0, len(self.budgets)), dtype=np.int64)

    def of(self, values: Array) -> Array:
        """Take the curve out of values of all masks, the mean over draws or orders.

        Parameters
        ----------
        values
            Of each mask by number, and of the whole model at the end, shape [..., M + 1].

        Returns
        -------
        ndarray
            Shape [..., B].
        """
        several = self.masks if self.orders is None else self.orders
        found = values[..., several]
        return found if several.ndim == 1 else np.asarray(found.mean(axis=-2))

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
            raise HeadtoolError("a curve needs two points; give more `steps`")
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
        For every curve and budget, the masks that close the removed heads one at a time, for each
        of its orders; only for the curves given.
    resamples
        Bootstrap resamples R.
    seed
        Seed of the resamples.
    keeping
        Keep-only curves, which no pruning curve is compared with.
    """

    paired: Paired
    lines: tuple[Line, ...]
    singles: Mapping[int, Sequence[NDArray[np.int64]]] = field(default_factory=dict)
    resamples: int = 10_000
    seed: int = 0
    keeping: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        if self.resamples < 1:
            raise HeadtoolError(f"`resamples` must be at least 1, got {self.resamples}")

    @cached_property
    def sign(self) -> float:
        """1 where higher is better, else -1."""
        return 1.0 if self.paired.higher_is_better else -1.0

    @cached_property
    def observed(self) -> Array:
        """Deltas of all masks, and 0 for the whole model at the end, shape [M + 1]."""
        return np.append(self.paired.delta, 0.0)

    def deltas(self, line: Line) -> Array:
        """Deltas of a curve, the mean over draws or orders where it has several, shape [B]."""
        return line.of(self.observed)

    def each_draw(self, line: Line) -> Array:
        """Deltas of the single draws of a random curve, shape [draws, B]; none of a dealt one."""
        return self.observed[line.draws]

    @cached_property
    def drawn(self) -> list[Array]:
        """Deltas of every curve in the resamples, each [R, B]."""
        return self._resampled[0][: len(self.lines)]

    @cached_property
    def drawn_keeping(self) -> list[Array]:
        """Deltas of the keep-only curves in the same resamples of examples, each [R, B]."""
        return self._resampled[0][len(self.lines) :]

    @cached_property
    def drawn_sums(self) -> dict[int, Array]:
        """Sums of single deltas in the resamples by number of the curve, each [R, B]."""
        return self._resampled[1]

    @cached_property
    def _resampled(self) -> tuple[list[Array], dict[int, Array]]:
        paired = self.paired
        for_examples, for_draws = np.random.default_rng(self.seed).spawn(2)
        sums = Sums(paired)
        lines = (*self.lines, *self.keeping)
        drawn = [np.empty((self.resamples, len(line.budgets))) for line in lines]
        added = {number: np.empty_like(drawn[number]) for number in self.singles}
        chosen = self.single_weights
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
            for place, (line, into) in enumerate(zip(lines, drawn, strict=True)):
                if not line.is_random or place >= len(self.lines):
                    into[rows] = line.of(deltas)
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

    @cached_property
    def single_weights(self) -> dict[int, Array]:
        """Weights [M + 1, B] that add up the deltas of `singles`, by number of the curve."""
        found = {}
        for number, masks in self.singles.items():
            orders = self.lines[number].orders
            matrix = np.zeros((self.paired.n_masks + 1, len(masks)))
            for column, members in enumerate(masks):
                np.add.at(matrix[:, column], members, 1.0 if orders is None else 1 / len(orders))
            found[number] = matrix
        return found


@dataclass(frozen=True, eq=False)
class CurveEnsemble:
    """The same curves of several models, averaged: observed, and in resamples of both factors.

    Each resample draws the models with replacement, and examples as `CurveBootstrap` does: the same
    ones for all models, because all are evaluated on the same (Owen 2007).

    Attributes
    ----------
    members
        The curves of every model, with the same lines in the same order, the same number of
        examples and of resamples, and the same seed.
    """

    members: tuple[CurveBootstrap, ...]

    def __post_init__(self) -> None:
        names = [[(line.kind, line.method) for line in one.lines] for one in self.members]
        sizes = {(one.paired.n_examples, one.resamples, one.seed) for one in self.members}
        if any(other != names[0] for other in names) or len(sizes) != 1:
            raise ValueError("the models' curves, examples, resamples or seeds differ")

    @property
    def lines(self) -> tuple[Line, ...]:
        """The curves, with the masks of the first model."""
        return self.members[0].lines

    @property
    def sign(self) -> float:
        """1 where higher is better, else -1."""
        return self.members[0].sign

    def deltas(self, line: Line) -> Array:
        """Deltas of a curve, the mean over models (and over draws of random ones), shape [B]."""
        place = self._place(line)
        return np.asarray(np.mean([one.deltas(one.lines[place]) for one in self.members], axis=0))

    def each_draw(self, line: Line) -> Array:
        """Deltas of the single draws of a random curve, the mean over models, shape [draws, B]."""
        place = self._place(line)
        return np.asarray(
            np.mean([one.each_draw(one.lines[place]) for one in self.members], axis=0)
        )

    @cached_property
    def drawn(self) -> list[Array]:
        """Mean deltas over the models drawn, of every curve in the resamples, each [R, B]."""
        count, first = len(self.members), self.members[0]
        rng = np.random.default_rng([first.seed, 17])
        weights = rng.multinomial(count, np.full(count, 1 / count), first.resamples) / count
        means = [np.zeros_like(values) for values in first.drawn]
        for share, member in zip(weights.T, self.members, strict=True):
            taken = share > 0  # undefined values of a model that is not drawn do not count
            for mean, values in zip(means, member.drawn, strict=True):
                mean[taken] += share[taken, None] * values[taken]
        return means

    def _place(self, line: Line) -> int:
        return next(i for i, one in enumerate(self.lines) if one is line)
