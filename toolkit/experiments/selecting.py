"""Let methods choose heads: score them, and close the lowest, scoring again where asked."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.assembly import check_scores
from headtool.engine.measurement import Measured
from headtool.engine.units import in_turn
from headtool.errors import HeadtoolError, StorageError
from headtool.experiments.rescoring import iterative_order
from headtool.experiments.setup import Setup
from headtool.experiments.stages import Stages
from headtool.masks.curves import closed_in_order
from headtool.masks.order import Family
from headtool.methods.base import Method, Reader
from headtool.methods.sharing import SharedPasses
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import labelled, phase
from headtool.reports.results import HeadScores

__all__ = ["Chosen", "Closed", "Roster", "ScoringRound", "choose", "choose_once"]

T = TypeVar("T")

_LOG = logging.getLogger("headtool")

# What a method may raise when it fails, whoever wrote it. It must not cost the others' results.
_FAILURES = (
    HeadtoolError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)

Closed = NDArray[np.bool_]
"""Which heads are closed at each point of a curve, [points, heads]."""

_FIRST = "scores"


@dataclass(frozen=True, eq=False)
class ScoringRound:
    """One round of scoring: its model, examples, seed and stage name.

    Attributes
    ----------
    name
        The stages of a method are kept as ``NAME.METHOD``.
    title
        What a failure calls the round.
    model
        The model whose heads are scored.
    examples
        What they are scored on.
    seed
        Seed of methods that are random.
    shown
        What progress calls the round; empty for its name.
    """

    name: str
    title: str
    model: ModelAdapter
    examples: Examples
    seed: int
    shown: str = ""

    @classmethod
    def on_selection(cls, setup: Setup) -> ScoringRound:
        """The round of the comparison itself, on the examples that select."""
        return cls(_FIRST, "score", setup.model, setup.split.selection, setup.request.seed)

    @classmethod
    def on_evaluation(cls, setup: Setup) -> ScoringRound:
        """The same on the examples that evaluate, which shows how much that would flatter."""
        title = "score the evaluation examples"
        return cls("again", title, setup.model, setup.split.first, setup.request.seed)

    def scorer(self, method: Method) -> Method:
        """The method as this round uses it: a run's tables are those of the first round."""
        return method if self.name == _FIRST else method.scores_only()

    def reader(self, methods: Sequence[Method]) -> SharedPasses:
        """What makes the passes that the round's methods share; for one time."""
        return SharedPasses([self.scorer(method) for method in methods])

    def label(self, method: str) -> str:
        """What progress is reported as."""
        return f"{self.shown}, {method}" if self.shown else f"{self.name}.{method}"


class Roster:
    """The methods that are still in the comparison, and why others are not.

    Parameters
    ----------
    methods
        All methods.

    Attributes
    ----------
    methods
        Those left, in the order given.
    failures
        Stage, method and error of every failure.
    """

    def __init__(self, methods: Sequence[Method]) -> None:
        self.methods = list(methods)
        self.failures: list[dict[str, str]] = []

    @property
    def names(self) -> list[str]:
        """Names of the methods that are left."""
        return [method.name for method in self.methods]

    def attempt(
        self, stage: str, method: Method, work: Callable[[], T], consequence: str
    ) -> T | None:
        """Do a method's part of the work; if it fails, note why and return None.

        Parameters
        ----------
        stage
            What it is a part of.
        method
            The method, which stays whatever happens.
        work
            The work.
        consequence
            What follows from a failure, such as ``has no stability``.
        """
        try:
            return work()
        except StorageError:  # no fault of the method's
            raise
        except _FAILURES as error:
            what = str(error).strip() or type(error).__name__
            if not isinstance(error, HeadtoolError):  # a bug keeps its traceback
                what = f"{type(error).__name__}: {what}"
                _LOG.warning("%s", traceback.format_exc().rstrip())
            what = " ".join(what.split())
            _LOG.warning("%s failed and %s: %s", method.name, consequence, what)
            self.failures.append({"stage": stage, "method": method.name, "error": what})
            return None

    def all(self, stage: str, work: Callable[[Method], T]) -> dict[str, T]:
        """Let every method do what no method can stay without; by name, of those that did.

        Parameters
        ----------
        stage
            What it is a part of.
        work
            Takes the method.

        Raises
        ------
        HeadtoolError
            If no method is left.
        """
        done: dict[str, T] = {}
        for method in list(self.methods):
            result = self.attempt(stage, method, partial(work, method), "is left out")
            if result is None:
                self.methods.remove(method)
            else:
                done[method.name] = result
        if not self.methods:
            reasons = "; ".join(f"{row['method']}: {row['error']}" for row in self.failures)
            raise HeadtoolError(f"no method is left to compare. {reasons}")
        return done


@dataclass(frozen=True, eq=False)
class Chosen:
    """What methods say in one round.

    Attributes
    ----------
    scores
        The scores by method.
    orders
        By the kind of a family, then by method: numbers of heads in the order in which they leave.
    closed
        The same: which heads are closed at each point.
    """

    scores: Mapping[str, HeadScores]
    orders: Mapping[str, Mapping[str, NDArray[np.int64]]]
    closed: Mapping[str, Mapping[str, Closed]]


def choose(
    setup: Setup, kept: Stages, roster: Roster, now: ScoringRound, families: Sequence[Family]
) -> Chosen:
    """Let every method score the heads and choose which to close; one that fails leaves.

    Parameters
    ----------
    setup
        What the comparison works on.
    kept
        Keeps what is finished.
    roster
        The methods.
    now
        The round.
    families
        The heads to choose from, and how many.

    Raises
    ------
    HeadtoolError
        If no method is left, or the model cannot be scored at all.
    """
    reader = now.reader(roster.methods)
    scores = roster.all(now.title, partial(_scores, setup, kept, now, reader=reader))
    orders = {}
    for family in families:

        def order(method: Method, family: Family = family) -> NDArray[np.int64]:
            return _order(setup, kept, now, family, method, scores[method.name])

        orders[family.kind] = roster.all("score again", order)
    closed = {
        family.kind: {
            name: closed_in_order(order, family.budgets, family.sites.n_heads)
            for name, order in orders[family.kind].items()
        }
        for family in families
    }
    return Chosen(scores, orders, closed)


def choose_once(
    setup: Setup, kept: Stages, now: ScoringRound, method: Method, reader: Reader
) -> tuple[HeadScores, Closed]:
    """Let one method score all heads and choose which to close.

    Parameters
    ----------
    setup, kept, now
        As for `choose`.
    method
        The method.
    reader
        What `ScoringRound.reader` made for all methods of the round.
    """
    scores, family = _scores(setup, kept, now, method, reader=reader), setup.families[0]
    order = _order(setup, kept, now, family, method, scores)
    return scores, closed_in_order(order, family.budgets, family.sites.n_heads)


def _scores(
    setup: Setup,
    kept: Stages,
    now: ScoringRound,
    method: Method,
    family: Family | None = None,
    gone: int = 0,
    *,
    reader: Reader | None = None,
) -> HeadScores:
    """Scores of all heads; or of a family's, while some of these are closed."""
    closing = family is not None
    suffix = f".{family.kind}.{gone}" if family is not None else ""
    stage = f"{now.name}.{method.name}{suffix}"
    all_stage = f"{_FIRST}.{method.name}.masks"
    scorer = method.scores_only() if closing else now.scorer(method)

    def measured(*arguments: Any, **settings: Any) -> Measured:
        return kept.measure(
            f"{stage}.masks", *arguments, **settings, reuse=not closing, all_stage=all_stage
        )

    def score() -> HeadScores:
        return scorer.score(
            now.model,
            now.examples,
            kinds=setup.request.kinds if family is None else family.sites.kinds,
            metric=setup.measures.metric.name,
            seed=now.seed,
            progress=labelled(kept.progress, now.label(method.name) + suffix),
            measure=measured,
            execute=in_turn if closing else kept.execute,  # only this process has them closed
            keep=lambda part, compute: kept.keep(f"{stage}.{part}", compute),
            reader=reader,
        )

    with phase(kept.progress, stage):
        scores = kept.scores(stage, score)
    sites = setup.sites if family is None else family.sites
    check_scores(method.name, scores.frame, sites.n_heads)
    return scores


def _order(
    setup: Setup, kept: Stages, now: ScoringRound, family: Family, method: Method, first: HeadScores
) -> NDArray[np.int64]:
    """The order in which a method removes the heads of a family, given its first scores."""
    if not setup.request.iterative:
        return family.order(first.frame)

    def rescore(gone: int) -> HeadScores:
        return _scores(setup, kept, now, method, family, gone) if gone else first

    with phase(kept.progress, f"{now.name}.{method.name}.steps"):
        return iterative_order(family, now.model, rescore)
