"""What a comparison is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.methods.base import Method
from headtool.searching import Search

__all__ = ["Request"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to compare, and how.

    Attributes
    ----------
    methods
        The scoring methods.
    kinds
        Attention kinds whose heads are up for removal; None for all.
    metric
        Name of the metric; None for the task's own.
    search
        How to decode, for metrics that do.
    steps
        Points of the curves; see `headtool.masks.curves.budgets_of`.
    iterative
        Score again after every step.
    keep_one_per_layer
        Never remove the last head of a layer.
    per_kind
        Curves of every attention kind by itself as well.
    draws
        Random masks at every point, of either sort.
    alpha
        Level of tests and intervals.
    margin
        What a removable head may cost, in the metric's unit; None: 1% of the metric's scale.
    resamples
        Bootstrap resamples of the curves; None: as many as the correction needs, at least 10,000.
    stability
        On how many random halves of the selection examples every method scores again; 0: none.
    limit
        Examples of each data set; None: all.
    batch_tokens
        Tokens in a batch, padding included.
    seed
        Seed of everything random.

    Raises
    ------
    HeadtoolError
        If a number is out of its range, or a method is given twice.
    """

    methods: tuple[Method, ...]
    kinds: tuple[Kind, ...] | None = None
    metric: str | None = None
    search: Search = Search()  # noqa: RUF009 - frozen
    steps: str = "10%"
    iterative: bool = False
    keep_one_per_layer: bool = False
    per_kind: bool = False
    draws: int = 20
    alpha: float = 0.05
    margin: float | None = None
    resamples: int | None = None
    stability: int = 0
    limit: int | None = None
    batch_tokens: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        if not names:
            raise HeadtoolError("no method to compare; name one or more")
        for name in names:
            if names.count(name) > 1:
                raise HeadtoolError(f"method '{name}' is given twice; leave one out")
        if "random" in names:
            raise HeadtoolError("random masks are in every comparison; leave 'random' out")
        if not 0 < self.alpha < 1:
            raise HeadtoolError(f"`alpha` must be between 0 and 1, got {self.alpha:g}")
        if self.margin is not None and not 0 < self.margin < math.inf:
            raise HeadtoolError(f"`margin` must be above 0, got {self.margin:g}")
        if self.stability and self.stability < 2:
            raise HeadtoolError(
                f"`stability` must be at least 2, or 0 for none, got {self.stability}"
            )
        for name, least in (("draws", 0), ("resamples", 1), ("limit", 1), ("batch_tokens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise HeadtoolError(f"`{name}` must be at least {least}, got {value}")
