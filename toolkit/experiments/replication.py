"""Scoring, pruning and evaluating the same architecture trained again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.curve_bootstrap import CurveBootstrap, CurveEnsemble, Line
from headtool.analysis.curve_lines import MaskNumbers, lines_of
from headtool.analysis.curves import curve_tests
from headtool.analysis.draws import DrawTest
from headtool.analysis.found import Findings
from headtool.analysis.paired import Paired
from headtool.analysis.replication import (
    replicate_agreement,
    replicate_curves,
    replicate_overlap,
    replicate_scores,
)
from headtool.experiments.replicates import Replicate
from headtool.experiments.selecting import Closed, Roster, ScoringRound, choose_once
from headtool.experiments.setup import Setup
from headtool.experiments.stages import Stages
from headtool.masks.curves import CurveMasks, layers_of
from headtool.masks.order import Family, tied_closed
from headtool.metrics.base import Metric
from headtool.progress import labelled
from headtool.reports.results import HeadScores
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Replicated", "replicate"]

_FEW = 10  # models; fewer say little about other training runs


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
        self,
        family: Family,
        tests: pd.DataFrame,
        metric: Metric,
        settings: Mapping[str, Any],
        against_random: Sequence[DrawTest] | None = None,
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
        against_random
            As for `headtool.analysis.curves.curve_tests`.
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
            over_models = curve_tests(ensemble, alpha=alpha, against_random=against_random)
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

    def closed(self, spec: str) -> dict[str, Closed]:
        """Which heads each method closes of a model at every point of its curve.

        Parameters
        ----------
        spec
            The model.
        """
        return {
            name: np.array([~keeps for keeps in by_model[spec].values()])
            for name, by_model in self.kept.items()
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


def replicate(setup: Setup, kept: Stages, roster: Roster, found: Findings) -> Replicated:
    """Score, select and evaluate on every replicate what was on the first model.

    A method that fails on one is left out of all that is said of several models.

    Parameters
    ----------
    setup
        What the comparison works on.
    kept
        Keeps what is finished.
    roster
        The methods that are left.
    found
        What was found of the first model.
    """
    if not setup.replicates:
        return Replicated({}, {}, {}, {}, ())
    first, family = setup.model, setup.families[0]
    done = {rep.spec: _chosen(setup, kept, roster, rep) for rep in setup.replicates}
    methods = [name for name in roster.names if all(name in one for one in done.values())]
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
    for rep in setup.replicates:
        numbers = MaskNumbers()
        masks = CurveMasks.draw(
            family.kind,
            family.sites,
            family.budgets,
            {name: closed[name][rep.spec] for name in methods},
            draws=setup.request.draws,
            keep_one=family.keep_one,
            seed=setup.request.seed,
            deal=setup.deal(rep.split.first),
        )
        if not setup.request.iterative:
            frames = {name: done[rep.spec][name][0].frame for name in methods}
            masks = replace(masks, tied=tied_closed(family, frames, masks.keys))
        lines.append(tuple(lines_of(masks, {}, first.sites, numbers.add)))
        outcomes.append(
            kept.measure(
                f"replicate.{rep.number}.curves",
                rep.model,
                rep.split.first,
                numbers.masks,
                setup.measures.metric,
                search=setup.measures.search,
                replacement=setup.replacement,
                chained=None,
                progress=labelled(kept.progress, f"replicate {rep.number}, curves"),
            ).outcomes
        )
    models = [first, *(rep.model for rep in setup.replicates)]
    return Replicated(
        {model.spec: model.fingerprint for model in models},
        {
            model.spec: {
                metric.name: metric.compute(one.whole) for metric in setup.measures.metrics
            }
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


def _chosen(
    setup: Setup, kept: Stages, roster: Roster, rep: Replicate
) -> dict[str, tuple[HeadScores, Closed]]:
    """What every method left selects of a replicate's heads; without methods that fail."""
    title = f"replicate {rep.number}"
    now = ScoringRound(
        f"replicate.{rep.number}",
        title,
        rep.model,
        rep.split.selection,
        setup.request.seed,
        title,
    )
    found = {}
    reader = now.reader(roster.methods)
    for method in roster.methods:
        work = partial(choose_once, setup, kept, now, method, reader)
        chosen = roster.attempt(title, method, work, f"is not compared with {rep.spec}")
        if chosen is not None:
            found[method.name] = chosen
    return found
