"""The stages of a comparison: score, remove, evaluate, tabulate. Nothing here prints or writes."""

from __future__ import annotations

import dataclasses
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.ablation import ablation_frame, single_masks
from headtool.analysis.assembly import Findings, MaskNumbers, assemble, check_scores, lines_of
from headtool.analysis.comparison import TABLES
from headtool.cli.removal import Family, families, iterative_closed, one_shot_closed
from headtool.cli.request import Request
from headtool.cli.searching import resolved_search
from headtool.cli.splitting import Split, split_data
from headtool.curves import CurveMasks
from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask, Kind
from headtool.measurement import Measured, described
from headtool.methods.ablation import Ablation
from headtool.methods.base import Method
from headtool.metrics import default_metric, get_metric
from headtool.models.base import Examples, ModelAdapter
from headtool.models.generation import Search
from headtool.progress import Progress, silent
from headtool.provenance import provenance
from headtool.results import HeadScores, Outcomes
from headtool.stages import Stages
from headtool.translation_metrics import TranslationMetric

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

__all__ = ["Pipeline"]

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


class Pipeline:
    """A comparison of methods on one model.

    Parameters
    ----------
    model
        The model.
    data
        Data sets; the first is the one of the curves.
    select_data
        Where heads are scored; None halves the first data set.
    request
        What to compare and how.
    name
        ``compare``, or ``curve``, which leaves out single heads.
    progress
        Reports progress.

    Raises
    ------
    HeadtoolError
        If request, model and data do not fit together.
    """

    def __init__(
        self,
        model: ModelAdapter,
        data: Sequence[TextData],
        select_data: TextData | None,
        request: Request,
        *,
        name: str = "compare",
        progress: Progress = silent,
    ) -> None:
        self.model, self.request, self.name, self.progress = model, request, name, progress
        self.sites = model.sites.restrict(request.kinds)
        if request.per_kind and len(self.sites.kinds) == 1:
            raise HeadtoolError(
                f"--per-kind needs several kinds of attention, and there is {self.sites.kinds[0]} "
                "alone; leave it out"
            )
        self.families = families(
            self.sites,
            request.steps,
            keep_one=request.keep_one_per_layer,
            per_kind=request.per_kind,
        )
        chosen = request.metric or default_metric(model.task)
        labels = len(model.labels) or None
        self.metric = get_metric(chosen, task=model.task, n_labels=labels)
        # The loss comes with every other metric; decoding has none.
        decodes = isinstance(self.metric, TranslationMetric)
        names = [chosen] if decodes else list(dict.fromkeys([chosen, "loss"]))
        self.metrics = tuple(get_metric(n, task=model.task, n_labels=labels) for n in names)
        self.search = resolved_search(model, self.metric, request.search)
        methods = tuple(_decoding_alike(method, self.search) for method in request.methods)
        self.request = dataclasses.replace(request, methods=methods)
        self.split: Split = split_data(
            model,
            data,
            select_data,
            limit=request.limit,
            batch_tokens=request.batch_tokens,
            seed=request.seed,
        )
        self.failures: list[dict[str, str]] = []
        self.weights: dict[str, Mapping[str, Tensor]] = {}
        self._scored: dict[str, HeadScores] = {}
        self._again: dict[str, HeadScores] = {}

    @cached_property
    def description(self) -> dict[str, Any]:
        """What makes it the same comparison; as JSON."""
        options = {
            field.name: getattr(self.request, field.name)
            for field in dataclasses.fields(self.request)
            if field.name not in ("methods", "search")
        }
        first = self._first_examples
        source = provenance(
            self.model, first, self.name, options, self.metric.name, self.request.seed
        )
        return {
            **source,
            **described(self.metric, self.search),
            "methods": {method.name: method.settings() for method in self.request.methods},
            "data": self.split.sources,
            "selection": self.split.selection_source,
        }

    def manifest(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the provenance of the run, by which other commands find the outcomes in it too."""
        made: dict[str, Any] = {self.name: dict(settings)}
        if self.name == "compare":
            first = self._first_examples
            alone = {"all_but_one": False, "rescale": False, "replacement": "zero"}
            made["ablate"] = {
                **provenance(
                    self.model,
                    first,
                    "ablate",
                    {**alone, "sequential": False},
                    self.metric.name,
                    self.request.seed,
                ),
                **described(self.metric, self.search),
            }
        return made

    def run(self, kept: Stages) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
        """Run all stages that are not finished; the tables and the settings.

        Raises
        ------
        HeadtoolError
            If all methods fail, or the model cannot be evaluated.
        """
        import pandas as pd

        request = self.request
        for method in request.methods:
            self._attempt("score", method, lambda m=method: self._score(kept, m))
        closed = {family.kind: self._closed(kept, family) for family in self.families}
        self._check_some_left()
        curves = tuple(
            CurveMasks.draw(
                family.kind,
                family.sites,
                family.budgets,
                {name: closed[family.kind][name] for name in self._scored},
                draws=request.draws,
                keep_one=family.keep_one,
                seed=request.seed,
            )
            for family in self.families
        )
        found = self._evaluated(kept, curves)
        assembled = assemble(
            found,
            alpha=request.alpha,
            margin=request.margin,
            resamples=request.resamples,
            seed=request.seed,
        )
        sites = pd.DataFrame([dataclasses.asdict(site) for site in self.model.sites])
        tables = {
            **assembled.tables,
            "splits": self.split.frame,
            "sites": sites,
            "failures": pd.DataFrame(self.failures, columns=["stage", "method", "error"]),
        }
        assert set(tables) == set(TABLES)
        for number, outcomes in enumerate(found.singles.values(), start=1):
            tables["outcomes" if number == 1 else f"outcomes.{number}"] = outcomes.to_frame()
        tables["curve_outcomes"] = found.outcomes.to_frame()
        for name, scores in self._scored.items():
            tables |= {f"{name}.{table}": frame for table, frame in scores.tables.items()}
            if scores.weights:
                self.weights[f"{name}.weights"] = scores.weights
        return tables, self._settings(assembled.settings)

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
            for scored in (self._scored, self._again):
                scored.pop(method.name, None)
            return None

    def _score(self, kept: Stages, method: Method) -> None:
        scores = self._scores_of(kept, method, f"scores.{method.name}")
        check_scores(method.name, scores.frame, self.sites.n_heads)
        self._scored[method.name] = scores

    def _scores_of(
        self,
        kept: Stages,
        method: Method,
        stage: str,
        *,
        kinds: Sequence[Kind] | None = None,
        examples: Examples | None = None,
        closing: bool = False,
    ) -> HeadScores:
        """Scores of one stage; by default of all heads, on the examples that select."""

        def measured(*arguments: Any, **settings: Any) -> Measured:
            return kept.measure(f"{stage}.masks", *arguments, **settings, reuse=not closing)

        return kept.scores(
            stage,
            lambda: method.score(
                self.model,
                examples or self.split.selection,
                kinds=self.request.kinds if kinds is None else kinds,
                metric=self.metric.name,
                seed=self.request.seed,
                progress=self.progress,
                measure=measured,
            ),
        )

    def _closed(self, kept: Stages, family: Family, *, again: bool = False) -> dict[str, Closed]:
        """Which heads each method closes at each point of a family's curve.

        With `again`, it is the evaluation examples that select.
        """
        closed: dict[str, Closed] = {}
        first = self._again if again else self._scored
        for method in self.request.methods:
            if method.name not in first:
                continue
            if self.request.iterative:
                rows = self._attempt(
                    "score again",
                    method,
                    lambda m=method: self._iterative(kept, family, m, again=again),
                )
            else:
                rows = one_shot_closed(family, first[method.name].frame)
            if rows is not None:
                closed[method.name] = rows
        return closed

    def _iterative(self, kept: Stages, family: Family, method: Method, *, again: bool) -> Closed:
        first = self._again if again else self._scored
        use = "again" if again else "scores"

        def rescore(gone: int) -> HeadScores:
            if gone == 0:
                return first[method.name]
            scores = self._scores_of(
                kept,
                method,
                f"{use}.{method.name}.{family.kind}.{gone}",
                kinds=family.sites.kinds,
                examples=self._first_examples if again else None,
                closing=True,
            )
            check_scores(method.name, scores.frame, family.sites.n_heads)
            return scores

        return iterative_closed(family, self.model, rescore)

    def _select_again(self, kept: Stages) -> dict[str, Closed]:
        """What the methods would close if they selected on the evaluation examples."""
        for method in self.request.methods:
            if method.name in self._scored:
                scores = self._attempt(
                    "score the evaluation examples",
                    method,
                    lambda m=method: self._scores_of(
                        kept, m, f"again.{m.name}", examples=self._first_examples
                    ),
                )
                if scores is not None:
                    check_scores(method.name, scores.frame, self.sites.n_heads)
                    self._again[method.name] = scores
        return self._closed(kept, self.families[0], again=True)

    @property
    def _first_examples(self) -> Examples:
        """The evaluation examples of the first data set."""
        return next(iter(self.split.evaluation.values()))

    def _check_some_left(self) -> None:
        if not self._scored:
            reasons = "; ".join(f"{row['method']}: {row['error']}" for row in self.failures)
            raise HeadtoolError(f"no method is left to compare. {reasons}")

    def _evaluated(self, kept: Stages, curves: Sequence[CurveMasks]) -> Findings:
        """Run all masks, each once."""
        all_sites = self.model.sites
        alone = single_masks(all_sites, self.sites.heads) if self.name == "compare" else []
        first, *others = self.split.evaluation
        numbers = MaskNumbers()
        places = [numbers.add(item.mask) for item in alone]
        again: dict[str, Closed] = {}
        if alone:
            self._outcomes(kept, "singles", first, numbers.masks)  # ablation scores by these too
            again = self._select_again(kept)
        self._check_some_left()
        lines = [
            line
            for masks in curves
            for line in lines_of(
                masks.only(self._scored),
                again if masks.kind == curves[0].kind else {},
                all_sites,
                numbers.add,
            )
        ]
        outcomes = self._outcomes(kept, "curves", first, numbers.masks)
        singles: dict[str, Outcomes] = {}
        if alone:
            singles[first] = outcomes.take(places)
            for number, spec in enumerate(others, start=2):
                singles[spec] = self._outcomes(
                    kept, f"singles.{number}", spec, [item.mask for item in alone]
                )
        return Findings(
            sites=self.sites,
            metrics=self.metrics,
            scores={name: scores.frame for name, scores in self._scored.items()},
            selection=self.split.selection_spec,
            evaluation=first,
            singles=singles,
            ablations={
                spec: ablation_frame(alone, result, self.metrics)
                for spec, result in singles.items()
            },
            curves=tuple(masks.only(self._scored) for masks in curves),
            outcomes=outcomes,
            lines=tuple(lines),
            again={name: scores.frame for name, scores in self._again.items()},
        )

    def _outcomes(self, kept: Stages, stage: str, spec: str, masks: Sequence[HeadMask]) -> Outcomes:
        """Run masks on the evaluation examples of a data set."""
        return kept.measure(
            stage,
            self.model,
            self.split.evaluation[spec],
            masks,
            self.metric,
            search=self.search,
            progress=self.progress,
        ).outcomes

    def _settings(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a `Comparison`."""
        request, description = self.request, self.description
        return {
            "command": self.name,
            "metric": self.metric.name,
            "higher_is_better": self.metric.higher_is_better,
            "methods": list(self._scored),
            "data": list(self.split.evaluation),
            "select_data": self.split.select_data,
            "budgets": list(self.families[0].budgets),
            "heads": self.sites.n_heads,
            **{
                name: getattr(request, name)
                for name in (
                    "kinds",
                    "steps",
                    "iterative",
                    "keep_one_per_layer",
                    "per_kind",
                    "draws",
                    "alpha",
                    "margin",
                    "limit",
                    "batch_tokens",
                    "seed",
                )
            },
            **described(self.metric, self.search),
            "model": description["model"],
            "sources": self.split.sources,
            "selection_source": self.split.selection_source,
            "provenance": {name: dict(scores.provenance) for name, scores in self._scored.items()},
            "versions": description["versions"],
            **found,
        }


def _decoding_alike(method: Method, search: Search | None) -> Method:
    """Let ablation decode as the comparison does, unless it was told how."""
    if (
        search is None
        or not isinstance(method, Ablation)
        or not method.uses_metric
        or (method.beam, method.length_penalty) != (None, None)
    ):
        return method
    penalty = search.length_penalty if search.beam != 1 else None
    return dataclasses.replace(method, beam=search.beam, length_penalty=penalty)
