"""Letting methods select heads: score them, score again, and go on without a method that fails."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.assembly import check_scores
from headtool.cli.removal import Family, iterative_closed, one_shot_closed
from headtool.cli.request import Request
from headtool.cli.splitting import Split
from headtool.errors import HeadtoolError
from headtool.heads import Kind, Sites
from headtool.measurement import Measured
from headtool.methods.base import Method
from headtool.models.base import Examples, ModelAdapter
from headtool.progress import Progress, labelled
from headtool.results import HeadScores
from headtool.stages import Stages

__all__ = ["Selection"]

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
        stage = "score the evaluation examples" if again else "score"
        for method in self.request.methods:
            if not again or method.name in self.scored:
                self._attempt(stage, method, partial(self._score, method, again=again))
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
        first = self.again if again else self.scored
        for method in self.request.methods:
            if method.name not in first:
                continue
            if self.request.iterative:
                work = partial(self._iterative, family, method, again=again)
                rows = self._attempt("score again", method, work)
            else:
                rows = one_shot_closed(family, first[method.name].frame)
            if rows is not None:
                closed[method.name] = rows
        self.check()
        return closed

    def check(self) -> None:
        """Go on only if a method is left."""
        if not self.scored:
            reasons = "; ".join(f"{row['method']}: {row['error']}" for row in self.failures)
            raise HeadtoolError(f"no method is left to compare. {reasons}")

    def _attempt(self, stage: str, method: Method, work: Callable[[], Any]) -> Any:
        """Do a method's part; if it fails, say so and go on without the method."""
        try:
            return work()
        except _FAILURES as error:
            what = str(error).strip() or type(error).__name__
            if not isinstance(error, HeadtoolError):  # a bug keeps its traceback
                what = f"{type(error).__name__}: {what}"
                _LOG.warning("%s", traceback.format_exc().rstrip())
            what = " ".join(what.split())
            _LOG.warning("%s failed and is left out: %s", method.name, what)
            self.failures.append({"stage": stage, "method": method.name, "error": what})
            for scored in (self.scored, self.again):
                scored.pop(method.name, None)
            return None

    def _score(self, method: Method, *, again: bool = False) -> None:
        """Score on the examples that select, or `again` on those that evaluate."""
        stage = f"{'again' if again else 'scores'}.{method.name}"
        examples = self.split.first if again else None
        scores = self._scores_of(method, stage, examples=examples)
        check_scores(method.name, scores.frame, self.sites.n_heads)
        (self.again if again else self.scored)[method.name] = scores

    def _scores_of(
        self,
        method: Method,
        stage: str,
        *,
        kinds: Sequence[Kind] | None = None,
        examples: Examples | None = None,
        closing: bool = False,
    ) -> HeadScores:
        """Scores of one stage; by default of all heads, on the examples that select."""

        def measured(*arguments: Any, **settings: Any) -> Measured:
            return self.kept.measure(f"{stage}.masks", *arguments, **settings, reuse=not closing)

        # Tables of the run are those of the examples that select, of the whole model.
        scorer = method.scores_only() if closing or examples is not None else method
        return self.kept.scores(
            stage,
            lambda: scorer.score(
                self.model,
                self.split.selection if examples is None else examples,
                kinds=self.request.kinds if kinds is None else kinds,
                metric=self.metric,
                seed=self.request.seed,
                progress=labelled(self.progress, stage),
                measure=measured,
            ),
        )

    def _iterative(self, family: Family, method: Method, *, again: bool) -> Closed:
        first = self.again if again else self.scored
        use = "again" if again else "scores"

        def rescore(gone: int) -> HeadScores:
            if gone == 0:
                return first[method.name]
            scores = self._scores_of(
                method,
                f"{use}.{method.name}.{family.kind}.{gone}",
                kinds=family.sites.kinds,
                examples=self.split.first if again else None,
                closing=True,
            )
            check_scores(method.name, scores.frame, family.sites.n_heads)
            return scores

        return iterative_closed(family, self.model, rescore)
