"""Scoring, pruning and evaluating the same architecture trained again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.assembly import Findings, MaskNumbers, lines_of
from headtool.analysis.curve_bootstrap import CurveBootstrap, CurveEnsemble, Line
from headtool.analysis.curves import curve_tests
from headtool.analysis.paired import Paired
from headtool.analysis.replication import (
    replicate_agreement,
    replicate_curves,
    replicate_overlap,
    replicate_scores,
)
from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.experiments.selecting import Closed, Pass, Selection
from headtool.experiments.splitting import Split, split_data
from headtool.masks.curves import CurveMasks, layers_of
from headtool.masks.order import Family
from headtool.methods.base import Method
from headtool.metrics.base import Metric
from headtool.models.base import Examples, ModelAdapter
from headtool.progress import labelled
from headtool.results.outcomes import Outcomes
from headtool.results.scores import HeadScores
from headtool.schema import TABLES
from headtool.searching import Search

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Replicate", "Replicated", "replicate", "replicates_of"]

_FEW = 10  # models; fewer say little about other training runs


@dataclass(frozen=True, eq=False)
class Replicate:
    """Another model of the same architecture, with the same examples in its own tokens."""

    number: int
    model: ModelAdapter
    split: Split

    @property
    def spec(self) -> str:
        """Its SPEC."""
        return self.model.spec


def replicates_of(
    model: ModelAdapter,
    split: Split,
    others: Sequence[ModelAdapter],
    data: TextData,
    select_data: TextData | None,
    *,
    limit: int | None,
    batch_tokens: int,
    seed: int,
) -> tuple[Replicate, ...]:
    """Check that models are alike but for their weights, and tokenise the examples for each.

    Parameters
    ----------
    model, split
        The model that they replicate, and its examples.
    others
        The replicates.
    data, select_data, limit, batch_tokens, seed
        As for `headtool.experiments.splitting.split_data`.

    Raises
    ------
    HeadtoolError
        If a model differs in more than its weights, or not in these.
    """
    known = {model.fingerprint: model.spec}
    for other in others:
        _check_alike(model, other)
        if other.fingerprint in known:
            raise HeadtoolError(
                f"`replicates`: {other.spec} has the same weights as {known[other.fingerprint]}; "
                "give a model that was trained with another seed"
            )
        known[other.fingerprint] = other.spec
    if len(set(known.values())) < len(known):
        raise HeadtoolError("two models with one SPEC and different weights; load them from two")
    found = []
    for number, other in enumerate(others, start=1):
        part = split_data(
            other, [data], select_data, limit=limit, batch_tokens=batch_tokens, seed=seed
        )
        for ours, theirs in ((split.selection, part.selection), (split.first, part.first)):
            _check_tokens(model, ours, other, theirs)
        found.append(Replicate(number, other, part))
    return tuple(found)


def _check_alike(model: ModelAdapter, other: ModelAdapter) -> None:
    """Refuse a model of another architecture, task or labels."""

    def shape(one: ModelAdapter) -> list[tuple[str, int, int]]:
        return [(site.kind, site.layer, site.n_heads) for site in one.sites]

    if other.task != model.task:
        raise HeadtoolError(
            f"`replicates`: {other.spec} is for {other.task}, and {model.spec} for {model.task}; "
            "give the same model, trained again"
        )
    if shape(other) != shape(model):
        raise HeadtoolError(
            f"`replicates`: {other.spec} has {other.sites.summary}, and {model.spec} has "
            f"{model.sites.summary}; give the same architecture, trained again"
        )
    if other.labels != model.labels:
        raise HeadtoolError(
            f"`replicates`: {other.spec} has the labels {', '.join(other.labels)}, and "
            f"{model.spec} {', '.join(model.labels)}; give a model with the same labels in the "
            "same order"
        )


def _check_tokens(
    model: ModelAdapter, ours: Examples, other: ModelAdapter, theirs: Examples
) -> None:
    """Refuse another vocabulary: what heads see must be the same."""
    if len(ours) == len(theirs):
        different = [a != b for a, b in zip(ours.rows, theirs.rows, strict=True)]
        if not any(different):
            return
    raise HeadtoolError(
        f"`replicates`: {other.spec} splits {ours.data.spec} into other tokens than {model.spec}; "
        "give a model with the same vocabulary"
    )


@dataclass(frozen=True, eq=False)
class Replicated:
    """What was computed of the replicates.

    Attributes
    ----------
    models
        SPEC and SHA-256 of all models, the first one included.
    whole
        By SPEC, each metric of the whole model on the evaluation examples.
    scores
        By method and SPEC, also of the first model; methods that failed on one are left out.
    kept
        The same: by budget (heads removed), whether each head stays.
    curves
        Lines and outcomes of all models, in which the methods are the same.
    """

    models: Mapping[str, str]
    whole: Mapping[str, Mapping[str, float]]
    scores: Mapping[str, Mapping[str, pd.DataFrame]]
    kept: Mapping[str, Mapping[str, Mapping[int, NDArray[np.bool_]]]]
    curves: Sequence[tuple[tuple[Line, ...], Outcomes]]

    def tables(
        self, family: Family, tests: pd.DataFrame, metric: Metric, settings: Mapping[str, Any]
    ) -> dict[str, pd.DataFrame]:
        """The tables of `headtool.analysis.comparison`, ``curve_tests`` over all models included.

        Parameters
        ----------
        family
            The heads and the budgets.
        tests
            Tests of the first model's curves.
        metric
            What the curves are of.
        settings
            ``alpha``, ``seed`` and ``resamples``.
        """
        import pandas as pd

        layers, alpha = layers_of(family.sites), float(settings["alpha"])
        arrays = {
            name: {spec: frame["score"].to_numpy(np.float64) for spec, frame in by_model.items()}
            for name, by_model in self.scores.items()
        }
        rows = [
            (spec, self.models[spec], name, value)
            for spec, values in self.whole.items()
            for name, value in values.items()
        ]
        curves = TABLES["replicate_curves"].empty()
        if self.curves:
            ensemble = CurveEnsemble(
                tuple(
                    CurveBootstrap(
                        Paired.from_outcomes(outcomes, metric),
                        lines,
                        resamples=settings["resamples"],
                        seed=settings["seed"],
                    )
                    for lines, outcomes in self.curves
                )
            )
            curves = replicate_curves(ensemble, list(self.models), alpha=alpha)
            others = tests[tests["kind"] != family.kind]
            over_models = curve_tests(ensemble, alpha=alpha)
            tests = over_models
            if len(others):
                tests = pd.concat([over_models, others], ignore_index=True)
        return {
            "replicates": TABLES["replicates"].frame(rows),
            "replicate_scores": replicate_scores(self.scores),
            "replicate_agreement": replicate_agreement(
                arrays, layers, alpha=alpha, rng=settings["seed"]
            ),
            "replicate_overlap": replicate_overlap(self.kept, layers),
            "replicate_curves": curves,
            "curve_tests": tests,
        }

    @property
    def notes(self) -> list[str]:
        """What a reader must know of them."""
        count = len(self.models)
        if count < 2:
            return []
        few = (
            f"; {count} models are few: for other training runs, their intervals and p-values are "
            "too small"
            if count < _FEW
            else ""
        )
        return [
            f"curves are compared over {count} models, by resampling models and examples{few}",
            "heads of a layer have no counterpart in a model that was trained from another "
            "initialisation, so that rankings of heads need not agree; mean ranks of layers can",
        ]


def replicate(
    selection: Selection,
    found: Findings,
    family: Family,
    replicates: Sequence[Replicate],
    metrics: Sequence[Metric],
    search: Search | None,
) -> Replicated:
    """Score, select and evaluate on every replicate what was on the first model.

    A method that fails on one is left out of all that is said of several models.

    Parameters
    ----------
    selection
        What the methods selected of the first model's heads.
    found
        What was found of the first model.
    family
        The heads and the budgets.
    replicates
        The other models.
    metrics
        The metrics, the comparison's first.
    search
        How to decode, for metrics that do.
    """
    if not replicates:
        return Replicated({}, {}, {}, {}, ())
    first = selection.model
    done = {rep.spec: _selected(selection, rep, family) for rep in replicates}
    methods = [
        method.name
        for method in selection.request.methods
        if method.name in selection.scored and all(method.name in one for one in done.values())
    ]
    main = found.curves[0]
    scores = {
        name: {
            first.spec: found.scores[name],
            **{spec: one[name][0].frame for spec, one in done.items()},
        }
        for name in methods
    }
    closed = {
        name: {first.spec: main.closed[name], **{spec: one[name][1] for spec, one in done.items()}}
        for name in methods
    }
    lines = [_lines(found, family.kind, methods)]
    outcomes = [found.outcomes]
    for rep in replicates:
        numbers = MaskNumbers()
        masks = CurveMasks.draw(
            family.kind,
            family.sites,
            family.budgets,
            {name: closed[name][rep.spec] for name in methods},
            draws=selection.request.draws,
            keep_one=family.keep_one,
            seed=selection.request.seed,
        )
        lines.append(tuple(lines_of(masks, {}, first.sites, numbers.add)))
        outcomes.append(
            selection.kept.measure(
                f"replicate.{rep.number}.curves",
                rep.model,
                rep.split.first,
                numbers.masks,
                metrics[0],
                search=search,
                progress=labelled(selection.progress, f"replicate {rep.number}, curves"),
            ).outcomes
        )
    models = [first, *(rep.model for rep in replicates)]
    return Replicated(
        {model.spec: model.fingerprint for model in models},
        {
            model.spec: {metric.name: metric.compute(one.whole) for metric in metrics}
            for model, one in zip(models, outcomes, strict=True)
        },
        scores,
        {
            name: {
                spec: {budget: ~row for budget, row in zip(family.budgets, rows, strict=True)}
                for spec, rows in by_model.items()
            }
            for name, by_model in closed.items()
        },
        list(zip(lines, outcomes, strict=True)),
    )


def _lines(found: Findings, kind: str, methods: Sequence[str]) -> tuple[Line, ...]:
    """The first model's curves of some methods, and their baselines."""
    return tuple(
        line
        for line in found.lines
        if line.kind == kind
        and not line.again
        and (line.method in methods or line.rival in methods or line.method == "random")
    )


def _selected(
    selection: Selection, rep: Replicate, family: Family
) -> dict[str, tuple[HeadScores, Closed]]:
    """What every method left selects of a replicate's heads; without methods that fail."""
    there = Selection(
        rep.model,
        selection.sites,
        rep.split,
        selection.request,
        selection.metric,
        selection.kept,
        selection.progress,
    )
    now = Pass(
        f"replicate.{rep.number}",
        f"replicate {rep.number}",
        rep.split.selection,
        selection.request.seed,
        f"replicate {rep.number}",
    )
    found = {}
    for method in selection.request.methods:
        if method.name not in selection.scored:
            continue

        def work(method: Method = method) -> tuple[HeadScores, Closed]:
            scores = there.scores(method, now)
            return scores, there.closed_by(family, method, scores, now)

        chosen = there.attempt(now.title, method, work, f"is not compared with {rep.spec}")
        if chosen is not None:
            found[method.name] = chosen
    selection.failures += there.failures
    return found
