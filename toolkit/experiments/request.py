"""What a comparison is asked for; the command line takes its defaults from here.

Nothing heavy is imported, so that ``--help`` stays quick.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headtool.analysis.levels import check_level
from headtool.errors import HeadtoolError, unknown
from headtool.experiments.replacements import check_replacements
from headtool.searching import Search

if TYPE_CHECKING:
    from headtool.data.drawing import LimitOrder
    from headtool.heads import Kind
    from headtool.methods.base import Method

__all__ = ["CURVE_METHODS", "Request", "requested"]

# What would never end.
_COSTS = (
    ("draws", 100_000, "each runs the model at every point of the curves"),
    ("resamples", 100_000_000, "each takes a millisecond or more"),
    ("stability", 100_000, "each scores the heads again by every method"),
)

CURVE_METHODS = ("gradient",)
"""The methods of ``curve`` where none are named."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to compare, and how: the options of `headtool.compare` and `headtool.curve`.

    Attributes
    ----------
    methods
        The scoring methods, or their names for their default options.
    kinds
        Attention kinds whose heads are up for removal; None for all.
    metric
        Name of the metric; None for the task's own.
    search
        How to decode, for metrics that do.
    steps
        Points of the curves: heads removed from point to point (``"10%"`` or ``"4"``), or the
        points themselves (``"20%,50%"``).
    iterative
        Score the heads that are left again after every step.
    keep_one_per_layer
        Never remove the last head of a layer.
    per_kind
        Also curves of each attention kind, with the others whole.
    replacement
        What closed heads put out when the model is measured, one of
        `headtool.engine.replacement.REPLACEMENTS`. A method that closes heads to score them has an
        option of its own.
    beside
        Further replacements, under which curves and single heads are shown beside the first.
    faithfulness
        Also keep-only curves and the areas CPR and CMD; see `headtool.analysis.faithfulness`.
    absolute
        In keep-only curves, heads stay longest whose scores are largest in absolute value, however
        signed. By default those with the largest scores do, as in all other curves.
    draws
        Random masks at every point, of any heads and matched to each method's layers. None: as many
        as it takes to settle whether each method is better or worse than these, on some points and
        examples; see `headtool.analysis.draws`.
    alpha
        Level of tests and intervals.
    margin
        What a removable head may cost, in the metric's unit; None: 1% of the metric's scale.
    resamples
        Bootstrap resamples of the curves; None: as many as the correction needs, at least 10,000.
    stability
        On how many random halves of the selection examples every method scores again; 0: none.
    limit
        Examples of each data set; None for all.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Seed of everything random.

    Raises
    ------
    HeadtoolError
        If a number is out of its range, or a method is unknown, given twice or ``random``, which
        every comparison has.

    Examples
    --------
    >>> import headtool
    >>> asked = headtool.Request(methods=["gradient", "confidence"], steps="50%", draws=2)
    >>> asked.steps, asked.alpha
    ('50%', 0.05)
    >>> headtool.Request(methods=["gradeint"])
    Traceback (most recent call last):
        ...
    headtool.errors.HeadtoolError: unknown method 'gradeint'; did you mean 'gradient'? (known: ...)
    """

    methods: Sequence[Method | str] = ("gradient", "ablation", "gates", "confidence")
    kinds: Sequence[Kind] | None = None
    metric: str | None = None
    search: Search = Search()  # noqa: RUF009 - frozen
    steps: str = "10%"
    iterative: bool = False
    keep_one_per_layer: bool = False
    per_kind: bool = False
    replacement: str = "zero"
    beside: Sequence[str] = ()
    faithfulness: bool = True
    absolute: bool = False
    draws: int | None = None
    alpha: float = 0.05
    margin: float | None = None
    resamples: int | None = None
    stability: int = 0
    limit: int | None = None
    limit_order: LimitOrder = "seeded"
    batch_tokens: int | None = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("methods", "kinds", "beside"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise HeadtoolError(f"`{name}` is a list, got '{given}'; give ['{given}']")
            if given is not None:
                object.__setattr__(self, name, tuple(given))
        names = [method.name for method in self.scorers()]
        if not names:
            raise HeadtoolError("no method to compare; name one or more")
        for name in names:
            if names.count(name) > 1:
                raise HeadtoolError(f"method '{name}' is given twice; leave one out")
        if "random" in names:
            raise HeadtoolError("random masks are in every comparison; leave 'random' out")
        if self.absolute and not (self.faithfulness and not self.iterative):
            other, remedy = ("iterative", "out") if self.iterative else ("faithfulness", "on")
            raise HeadtoolError(
                f"`absolute` orders the heads of keep-only curves by one scoring; leave "
                f"`{other}` {remedy}, or `absolute` out"
            )
        if self.iterative and self.replacement != "zero":
            raise HeadtoolError(
                "`iterative` scores what is left with removed heads at zero, and "
                f"`replacement` is {self.replacement}; leave one of them out"
            )
        check_replacements(self.replacement, self.beside)
        check_level(self.alpha)
        if self.margin is not None and not 0 < self.margin < math.inf:
            raise HeadtoolError(f"`margin` must be above 0, got {self.margin:g}")
        if self.stability and self.stability < 2:
            raise HeadtoolError(
                f"`stability` must be at least 2, or 0 for none, got {self.stability}"
            )
        for name, least in (("draws", 0), ("resamples", 1), ("batch_tokens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise HeadtoolError(f"`{name}` must be at least {least}, got {value}")
        from headtool.data.drawing import check_limit  # numpy

        check_limit(self.limit, self.limit_order)
        for name, most, cost in _COSTS:
            value = getattr(self, name)
            if value is not None and value > most:
                raise HeadtoolError(f"`{name}` must be at most {most:,}, got {value:,}: {cost}")
        if self.draws is None and 2 * len(names) / self.alpha > _COSTS[0][1]:
            raise HeadtoolError(
                f"`alpha` {self.alpha:g} takes more than {_COSTS[0][1]:,} draws of random masks to "
                f"tell {len(names)} methods from these; give a larger `alpha`, or `draws`"
            )

    def scorers(self) -> tuple[Method, ...]:
        """Return the methods, those given by name with their default options."""
        from headtool.methods import get_method

        return tuple(
            get_method(method)() if isinstance(method, str) else method for method in self.methods
        )

    @property
    def options(self) -> dict[str, Any]:
        """All fields but the methods and the search, which a manifest describes in full."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name not in ("methods", "search")}


def requested(
    request: Request | None,
    options: Mapping[str, Any],
    *,
    methods: Sequence[str] = Request.methods,  # type: ignore[assignment]
) -> Request:
    """Put a request together from keywords.

    Parameters
    ----------
    request
        A request; None for one of its defaults.
    options
        Fields by name, which replace those of `request`.
    methods
        The methods where neither names any.

    Raises
    ------
    HeadtoolError
        If there is no such field, or a value is out of its range.
    """
    names = [field.name for field in dataclasses.fields(Request)]
    for name in options:
        if name not in names:
            raise unknown("option", name, names)
    if request is None:
        return Request(**{"methods": methods, **options})
    return dataclasses.replace(request, **options)
