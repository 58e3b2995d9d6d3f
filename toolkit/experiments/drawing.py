"""Run random masks beside those of methods until what they show is settled.

The plan, the rule to stop and the correction are those of `headtool.analysis.draws`. Masks are
drawn and run in blocks, each a stage of its own, so that an interrupted comparison goes on where it
stopped and makes the same draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.draw_plan import DrawPlan
from headtool.analysis.draws import DrawTest, next_matched
from headtool.analysis.found import Findings
from headtool.analysis.paired import Paired
from headtool.experiments.replication import Replicated
from headtool.experiments.setup import Setup
from headtool.experiments.stages import Stages
from headtool.heads import HeadMask
from headtool.masks.curves import layers_of, matched_closed, random_closed
from headtool.masks.order import Family
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import labelled

__all__ = ["draw"]

Closed = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Place:
    """A model that masks are run on, and the heads that each method closes there, [P, n]."""

    model: ModelAdapter
    parts: tuple[Examples, ...]
    closed: Mapping[str, Closed]


def draw(
    setup: Setup, kept: Stages, found: Findings, others: Replicated
) -> tuple[DrawTest, ...] | None:
    """Compare every method with random masks, of any heads and then of its layers.

    Parameters
    ----------
    setup
        What the comparison works on.
    kept
        Keeps what is finished.
    found
        What was found of the first model: its curves, and random masks that tell how much these
        differ.
    others
        The replicates. Heads of all kinds together are compared over all models.

    Returns
    -------
    tuple of DrawTest
        Those of any heads, and those of its layers for each method that is better than any; by
        kind. None where the number of draws was given, so that they are among the curves.
    """
    if setup.request.draws is not None:
        return None
    tests: list[DrawTest] = []
    for number, family in enumerate(setup.families):
        closed = [found.curves[number].closed]
        models = [(setup.model, setup.split.first)]
        if number == 0 and setup.replicates:
            models += [(other.model, other.split.first) for other in setup.replicates]
            closed = [others.closed(model.spec) for model, _ in models]
        if not closed[0]:
            continue
        plan = _plan(setup, found, family, len(closed[0]))
        if plan is None:
            continue
        points = [family.budgets.index(budget) for budget in plan.budgets]
        places = tuple(
            _Place(
                model,
                tuple(examples.take(part) for part in plan.parts),
                {name: rows[points] for name, rows in shut.items()},
            )
            for (model, examples), shut in zip(models, closed, strict=True)
        )
        tests += _Draws(setup, kept, family, plan, places).tests()
    return tuple(tests)


def _plan(setup: Setup, found: Findings, family: Family, methods: int) -> DrawPlan | None:
    """The plan for the heads of a family."""
    data, examples = setup.split.first.data, len(setup.split.first)
    labels = data.labels or [""] * examples
    (shown,) = (
        line for line in found.lines if line.kind == family.kind and line.method == "random"
    )
    metric = setup.measures.metric
    pilot = {
        budget: Paired.from_outcomes(found.outcomes.take(masks), metric)
        for budget, masks in zip(family.budgets, shown.masks.T, strict=True)
        if 0 < budget < family.sites.n_heads
    }
    return DrawPlan.of(
        family.budgets,
        family.sites.n_heads,
        labels,
        methods=methods,
        alpha=setup.request.alpha,
        seed=setup.request.seed,
        pilot=pilot,
    )


@dataclass(frozen=True, eq=False)
class _Draws:
    """The random masks of one family of heads."""

    setup: Setup
    kept: Stages
    family: Family
    plan: DrawPlan
    places: tuple[_Place, ...]

    def tests(self) -> list[DrawTest]:
        """Compare with any heads first, then with those of the layers where the turn comes."""
        methods = list(self.places[0].closed)
        common = self._common(methods)
        matched: dict[str, DrawTest] = {}
        while missing := next_matched(common, matched, self.setup.request.alpha):
            matched |= self._matched(missing)
        both = ((common[name], matched.get(name)) for name in methods)
        return [test for pair in both for test in pair if test is not None]

    def _common(self, methods: Sequence[str]) -> dict[str, DrawTest]:
        """Draw any heads, the same for all methods and models, until all is settled."""
        rng = np.random.default_rng([self.setup.request.seed, 23])
        layers = layers_of(self.family.sites)
        drawn: list[Closed] = []
        tests: dict[str, DrawTest] = {}
        for size in self.plan.blocks:
            keys = rng.random((size, len(layers)))
            drawn += [
                random_closed(key, self.plan.budgets, layers, keep_one=self.family.keep_one)
                for key in keys
            ]
            rivals = {name: [drawn] * len(self.places) for name in methods}
            tests = self._run("random", rivals, size)
            if all(test.tally.settled for test in tests.values()):
                break
        return tests

    def _matched(self, methods: Sequence[str]) -> dict[str, DrawTest]:
        """Draw heads of the layers of each method until all is settled.

        Methods that close as many heads of every layer have the same masks, which run once.
        """
        rng = np.random.default_rng([self.setup.request.seed, 29])
        layers = layers_of(self.family.sites)
        drawn: dict[str, list[list[Closed]]] = {name: [[] for _ in self.places] for name in methods}
        done: dict[str, DrawTest] = {}
        for size in self.plan.blocks:
            keys = rng.random((size, len(layers)))
            left = [name for name in methods if name not in done or not done[name].tally.settled]
            for name in left:
                for place, masks in zip(self.places, drawn[name], strict=True):
                    masks += [matched_closed(place.closed[name], key, layers) for key in keys]
            done |= self._run("random-matched", {name: drawn[name] for name in left}, size)
            if all(test.tally.settled for test in done.values()):
                break
        return done

    def _run(
        self, baseline: str, rivals: Mapping[str, Sequence[Sequence[Closed]]], newest: int
    ) -> dict[str, DrawTest]:
        """Run the draws, by method and model, that have not been run, and rank the methods."""
        measured = [
            [
                self._point(baseline, number, point, rivals, newest)
                for point in range(len(place.parts))
            ]
            for number, place in enumerate(self.places)
        ]

        def of(name: str, metric: int) -> tuple[tuple[Paired, ...], ...]:
            return tuple(tuple(point[name][metric] for point in points) for points in measured)

        return {
            name: DrawTest(
                self.family.kind,
                name,
                baseline if baseline == "random" else f"{baseline}:{name}",
                self.plan,
                of(name, 0),
                of(name, 1) if len(self.setup.measures.metrics) > 1 else (),
            )
            for name in rivals
        }

    def _point(
        self,
        baseline: str,
        number: int,
        point: int,
        rivals: Mapping[str, Sequence[Sequence[Closed]]],
        newest: int,
    ) -> dict[str, list[Paired]]:
        """Outcomes at a point on a model by method and metric: its own mask, then the draws."""
        place, setup = self.places[number], self.setup
        masks: dict[HeadMask, int] = {}
        rows = {}
        for name, drawn in rivals.items():
            closed = [place.closed[name], *drawn[number]]
            rows[name] = [
                masks.setdefault(self._mask(place.model, each[point]), len(masks))
                for each in closed
            ]
        last = max(len(drawn[number]) for drawn in rivals.values())
        label = f"{baseline} masks {last - newest + 1}-{last} of at most {self.plan.most}"
        measured = self.kept.measure(
            f"draws.{self.family.kind}.{number}.{point}",
            place.model,
            place.parts[point],
            tuple(masks),
            setup.measures.metric,
            search=setup.measures.search,
            replacement=setup.replacement,
            chained=None,
            progress=labelled(self.kept.progress, f"{label}, {self.plan.budgets[point]} heads"),
        )
        by_metric = [
            Paired.from_outcomes(measured.outcomes, metric) for metric in setup.measures.metrics
        ]
        return {
            name: [replace(paired, masked=paired.masked[own]) for paired in by_metric]
            for name, own in rows.items()
        }

    def _mask(self, model: ModelAdapter, closed: Closed) -> HeadMask:
        """A mask over all of the model's heads."""
        heads = self.family.sites.heads
        return HeadMask.without(
            model.sites, [h for h, shut in zip(heads, closed, strict=True) if shut]
        )
