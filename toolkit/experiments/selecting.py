"""Letting methods select heads: score them, score again, and go on without a method that fails."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.assembly import check_scores
from headtool.engine.measurement import Measured
from headtool.errors import HeadtoolError
from headtool.experiments.request import Request
from headtool.experiments.rescoring import iterative_closed
from headtool.experiments.splitting import Split
from headtool.experiments.stages import Stages
from headtool.heads import Kind, Sites
from headtool.masks.order import Family, one_shot_closed
from headtool.methods.base import Method
from headtool.models.base import Examples, ModelAdapter
from headtool.progress import Progress, labelled
from headtool.results.scores import HeadScores

__all__ = ["Closed", "Pass", "Selection"]

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


@dataclass(frozen=True, eq=False)
class Pass:
    """A time that methods score the heads.

    Attributes
    ----------
    name
        Under which its stages are kept, ``NAME.METHOD``.
    title
        What a failure calls it.
    examples
        On which heads are scored.
    seed
        Seed of methods that are random.
    shown
        What progress calls it; by default its name.
    """

    name: str
    title: str
    examples: Examples
    seed: int
    shown: str = ""

    def label(self, method: str) -> str:
        """What progress is reported as."""
        return f"{self.shown}, {method}" if self.shown else f"{self.name}.{method}"


class Selection:
    """What every method selects, on the selection examples and again on the evaluation examples.

    Attributes
    ----------
    scored
        Scores by method, without methods that failed.
    again
        The same on the evaluation examples, where they were asked for.
    failures
        Stage, method and error of those that failed.

    Parameters
    ----------
    model
        The model.
    sites
        The sites of the heads that are up for removal.
    split
        The examples.
    request
        What was asked for.
    metric
        Name of the metric.
    kept
        Keeps what is finished.
    progress
        Reports progress.
    """

    def __init__(
        self,
        model: ModelAdapter,
        sites: Sites,
        split: Split,
        request: Request,
        metric: str,
        kept: Stages,
        progress: Progress,
    ) -> None:
        self.model, self.sites, self.split, self.request = model, sites, split, request
        self.metric, self.kept, self.progress = metric, kept, progress
        self.scored: dict[str, HeadScores] = {}
        self.again: dict[str, HeadScores] = {}
        self.failures: list[dict[str, str]] = []
        self.first = Pass("scores", "score", split.selection, request.seed)
        self.second = Pass("again", "score the evaluation examples", split.first, request.seed)

    def score(self, *, again: bool = False) -> None:
        """Score by every method that has not failed.

        Parameters
        ----------
        again
            On the examples that evaluate, instead of those that select.

        Raises
        ------
        HeadtoolError
            If no method is left.
        """
        now, into = (self.second, self.again) if again else (self.first, self.scored)
        for method in self.request.methods:
            if again and method.name not in self.scored:
                continue
            scores = self._essential(now.title, method, partial(self.scores, method, now))
            if scores is not None:
                into[method.name] = scores
        self.check()

    def closed(self, family: Family, *, again: bool = False) -> dict[str, Closed]:
        """Which heads each method closes at each point of a family's curve.

        Parameters
        ----------
        family
            The heads and the points.
        again
            Whether it is the evaluation examples that select.
        """
        closed: dict[str, Closed] = {}
        now, first = (self.second, self.again) if again else (self.first, self.scored)
        for method in self.request.methods:
            if method.name not in first:
                continue
            work = partial(self.closed_by, family, method, first[method.name], now)
            rows = self._essential("score again", method, work)
            if rows is not None:
                closed[method.name] = rows
        self.check()
        return closed

    def check(self) -> None:
        """Go on only if a method is left."""
        if not self.scored:
            reasons = "; ".join(f"{row['method']}: {row['error']}" for row in self.failures)
            raise HeadtoolError(f"no method is left to compare. {reasons}")

    def scores(self, method: Method, now: Pass) -> HeadScores:
        """Scores of all heads by a method.

        Raises
        ------
        HeadtoolError
            If a head has none.
        """
        scores = self._scores_of(method, now)
        check_scores(method.name, scores.frame, self.sites.n_heads)
        return scores

    def closed_by(self, family: Family, method: Method, first: HeadScores, now: Pass) -> Closed:
        """Which heads a method closes at each point of a family's curve.

        Parameters
        ----------
        family
            The heads and the points.
        method
            The method.
        first
            Its scores of the whole model.
        now
            When it gave them.
        """
        if not self.request.iterative:
            return one_shot_closed(family, first.frame)

        def rescore(gone: int) -> HeadScores:
            if gone == 0:
                return first
            scores = self._scores_of(
                method,
                now,
                suffix=f".{family.kind}.{gone}",
                kinds=family.sites.kinds,
                closing=True,
            )
            check_scores(method.name, scores.frame, family.sites.n_heads)
            return scores

        return iterative_closed(family, self.model, rescore)

    def attempt(self, stage: str, method: Method, work: Callable[[], T], out: str) -> T | None:
        """Do a method's part; if it fails, say what is left out for that, and return None."""
        try:
            return work()
        except _FAILURES as error:
            what = str(error).strip() or type(error).__name__
            if not isinstance(error, HeadtoolError):  # a bug keeps its traceback
                what = f"{type(error).__name__}: {what}"
                _LOG.warning("%s", traceback.format_exc().rstrip())
            what = " ".join(what.split())
            _LOG.warning("%s failed and %s: %s", method.name, out, what)
            self.failures.append({"stage": stage, "method": method.name, "error": what})
            return None

    def _essential(self, stage: str, method: Method, work: Callable[[], T]) -> T | None:
        """Do a part without which the method is left out of everything."""
        result = self.attempt(stage, method, work, "is left out")
        if result is None:
            for scored in (self.scored, self.again):
                scored.pop(method.name, None)
        return result

    def _scores_of(
        self,
        method: Method,
        now: Pass,
        *,
        suffix: str = "",
        kinds: Sequence[Kind] | None = None,
        closing: bool = False,
    ) -> HeadScores:
        """Scores of one stage; by default of all heads."""
        stage = f"{now.name}.{method.name}{suffix}"
        all_stage = f"{self.first.name}.{method.name}.masks"

        def measured(*arguments: Any, **settings: Any) -> Measured:
            return self.kept.measure(
                f"{stage}.masks", *arguments, **settings, reuse=not closing, all_stage=all_stage
            )

        # Tables of the run are those of the examples that select, of the whole model.
        scorer = method.scores_only() if closing or now is not self.first else method
        return self.kept.scores(
            stage,
            lambda: scorer.score(
                self.model,
                now.examples,
                kinds=self.request.kinds if kinds is None else kinds,
                metric=self.metric,
                seed=now.seed,
                progress=labelled(self.progress, now.label(method.name) + suffix),
                measure=measured,
                keep=lambda part, compute: self.kept.keep(f"{stage}.{part}", compute),
            ),
        )
