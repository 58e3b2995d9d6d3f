"""Run random masks beside those of methods, on few examples at first, as far as they matter.

The plan, the race and the correction are those of `headtool.analysis.draws`. Each round of a race
is a stage of its own, so that an interrupted comparison goes on where it stopped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.draw_plan import FEW, DrawPlan
from headtool.analysis.draws import DrawTest, next_matched
from headtool.analysis.found import Findings
from headtool.analysis.paired import Paired
from headtool.analysis.race import Round, going_on
from headtool.experiments.replication import Replicated
from headtool.experiments.setup import Setup
from headtool.experiments.stages import Stages
from headtool.heads import HeadMask
from headtool.masks.curves import layers_of, matched_closed, random_closed
from headtool.masks.order import Family
from headtool.metrics.base import Array, Metric
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.progress import labelled
from headtool.results.outcomes import Outcomes

__all__ = ["draw"]

_PILOT = 48  # examples; where a race takes no more, nothing is gained by a pilot

Closed = NDArray[np.bool_]
Columns = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class _Place:
    """A model that masks are run on, and the heads that each method closes there, [P, n]."""

    model: ModelAdapter
    examples: Examples
    closed: Mapping[str, Closed]


@dataclass(frozen=True, eq=False)
class _Seen:
    """What each round's examples of a point showed, of the whole model and of the masks."""

    whole: list[Columns] = field(default_factory=list)
    masked: dict[HeadMask, list[Columns]] = field(default_factory=dict)

    def add(self, outcomes: Outcomes) -> None:
        """Add those of a round."""
        self.whole.append(outcomes.whole)
        for row, mask in enumerate(outcomes.masks):
            self.masked.setdefault(mask, []).append(outcomes.row(row))

    def benefit(self, mask: HeadMask, metric: Metric) -> float:
        """A mask's value of the metric less the whole model's; positive is better."""
        whole, masked = (metric.compute(_joined(rows)) for rows in (self.whole, self.masked[mask]))
        delta = masked - whole if math.isfinite(masked) and math.isfinite(whole) else math.nan
        return delta if metric.higher_is_better else -delta

    def paired(self, masks: Sequence[HeadMask], rounds: int, metric: Metric) -> Paired:
        """What the first rounds showed of some masks."""
        rows = [_joined(self.masked[mask][:rounds]) for mask in masks]
        columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        whole = _joined(self.whole[:rounds])
        return Paired.from_outcomes(Outcomes(tuple(masks), whole, columns), metric)


def _joined(rounds: Sequence[Columns]) -> Columns:
    """The columns of several rounds, one after the other."""
    return {name: np.concatenate([part[name] for part in rounds]) for name in rounds[0]}


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
        plan = _plan(setup, kept, family, found.curves[number].keys, len(closed[0]))
        if plan is None:
            continue
        points = [family.budgets.index(budget) for budget in plan.budgets]
        places = tuple(
            _Place(
                model,
                examples,
                {name: rows[points] for name, rows in shut.items()},
            )
            for (model, examples), shut in zip(models, closed, strict=True)
        )
        tests += _Draws(setup, kept, family, plan, places).tests()
    return tuple(tests)


def _plan(setup: Setup, kept: Stages, family: Family, keys: Array, methods: int) -> DrawPlan | None:
    """The plan for the heads of a family; `keys` order these in some draws beside the plan's."""
    first = setup.split.first

    def planned(pilot: Mapping[int, Paired] | None) -> DrawPlan | None:
        return DrawPlan.of(
            family.budgets,
            family.sites.n_heads,
            first.data.labels or [""] * len(first),
            methods=methods,
            alpha=setup.request.alpha,
            seed=setup.request.seed,
            pilot=pilot,
        )

    plan = planned(None)
    if plan is None or plan.shown <= _PILOT:
        return plan
    taken = np.concatenate([part[: _PILOT // len(plan.parts)] for part in plan.parts])
    layers, model = layers_of(family.sites), setup.model
    closed = [random_closed(key, plan.budgets, layers, keep_one=family.keep_one) for key in keys]
    masks = [
        [_mask(family, model, row[point]) for row in closed] for point in range(len(closed[0]))
    ]
    outcomes = kept.measure(
        f"draws.{family.kind}.pilot",
        model,
        first.take(np.sort(taken)),
        [mask for row in masks for mask in row],
        setup.measures.metric,
        search=setup.measures.search,
        replacement=setup.replacement,
        progress=labelled(kept.progress, "random masks, pilot"),
    ).outcomes
    places = np.arange(len(outcomes.masks)).reshape(len(masks), -1).tolist()
    found = [Paired.from_outcomes(outcomes.take(rows), setup.measures.metric) for rows in places]
    return planned(dict(zip(plan.budgets, found, strict=True)))


def _mask(family: Family, model: ModelAdapter, closed: Closed) -> HeadMask:
    """A mask over all of the model's heads."""
    heads = zip(family.sites.heads, closed, strict=True)
    return HeadMask.without(model.sites, [head for head, shut in heads if shut])


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
        """Draw any heads, the same for all methods and models."""
        layers = layers_of(self.family.sites)
        drawn = [
            random_closed(key, self.plan.budgets, layers, keep_one=self.family.keep_one)
            for key in self._keys(23)
        ]
        return self._race("random", {name: [drawn] * len(self.places) for name in methods})

    def _matched(self, methods: Sequence[str]) -> dict[str, DrawTest]:
        """Draw heads of the layers of each method.

        Methods that close as many heads of every layer have the same masks, which run once.
        """
        layers, keys = layers_of(self.family.sites), self._keys(29)
        drawn = {
            name: [
                [matched_closed(place.closed[name], key, layers) for key in keys]
                for place in self.places
            ]
            for name in methods
        }
        return self._race("random-matched", drawn)

    def _keys(self, stream: int) -> Array:
        """Random numbers of the heads for each draw."""
        rng = np.random.default_rng([self.setup.request.seed, stream])
        return rng.random((self.plan.most, self.family.sites.n_heads))

    def _race(
        self, baseline: str, rivals: Mapping[str, Sequence[Sequence[Closed]]]
    ) -> dict[str, DrawTest]:
        """Run the races of methods with draws, by method and model."""
        plan = self.plan
        masks = {name: self._masks(name, drawn) for name, drawn in rivals.items()}
        few = 0 if baseline == "random" else 1 + FEW  # of any heads, whole curves are there
        shown = np.arange(1 + plan.most) < few
        seen = [[_Seen() for _ in plan.budgets] for _ in self.places]
        rounds: dict[str, list[Round]] = {name: [] for name in rivals}
        alive = {name: np.ones(1 + plan.most, dtype=np.bool_) for name in rivals}
        passes = dict.fromkeys(rivals, 0)
        before = 0
        for number, size in enumerate(plan.sizes):
            running = {name for name in rivals if alive[name].any()}
            run = {name: alive[name] | (shown & (size <= plan.shown)) for name in rivals}
            if not any(rows.any() for rows in run.values()):
                break
            label = f"{baseline} masks, round {number + 1} of at most {len(plan.sizes)}"
            for at in range(len(self.places)):
                for point in range(len(plan.budgets)):
                    part = np.sort(plan.taken(point, size)[len(plan.taken(point, before)) :])
                    wanted = dict.fromkeys(
                        masks[name][at][point][row]
                        for name, rows in run.items()
                        for row in np.flatnonzero(rows).tolist()
                    )
                    if len(part) and wanted:
                        self._run(at, point, number, part, list(wanted), seen[at][point], label)
            for name in running:
                passes[name] += int(alive[name][1:].sum()) * (size - before)
                rounds[name].append(self._areas(masks[name], alive[name], seen))
                alive[name] = going_on(rounds[name], plan.fields)
            before = size
        return {
            name: DrawTest(
                self.family.kind,
                name,
                baseline if baseline == "random" else f"{baseline}:{name}",
                plan,
                tuple(rounds[name]),
                passes[name],
                self._shown(masks[name], few, seen) if few else (),
            )
            for name in rivals
        }

    def _masks(self, name: str, drawn: Sequence[Sequence[Closed]]) -> list[list[list[HeadMask]]]:
        """A method's own mask and those of the draws, by model and point."""
        return [
            [
                [
                    _mask(self.family, place.model, closed[point])
                    for closed in (place.closed[name], *rows)
                ]
                for point in range(len(self.plan.budgets))
            ]
            for place, rows in zip(self.places, drawn, strict=True)
        ]

    def _run(
        self,
        at: int,
        point: int,
        number: int,
        part: NDArray[np.int64],
        masks: Sequence[HeadMask],
        seen: _Seen,
        label: str,
    ) -> None:
        """Run masks on a round's examples of a point, and add what they show."""
        place, setup = self.places[at], self.setup
        outcomes = self.kept.measure(
            f"draws.{self.family.kind}.{at}.{point}.{number}",
            place.model,
            place.examples.take(part),
            masks,
            setup.measures.metric,
            search=setup.measures.search,
            replacement=setup.replacement,
            chained=None,
            progress=labelled(self.kept.progress, f"{label}, {self.plan.budgets[point]} heads"),
        ).outcomes
        seen.add(outcomes)

    def _areas(
        self,
        masks: Sequence[Sequence[Sequence[HeadMask]]],
        alive: NDArray[np.bool_],
        seen: Sequence[Sequence[_Seen]],
    ) -> Round:
        """Areas of the masks that are run, on all examples so far, the mean over models."""
        metrics, weights = self.setup.measures.metrics[:2], self.plan.weights
        found = np.full((len(metrics), len(alive)), np.nan)
        for row in np.flatnonzero(alive).tolist():
            for place, metric in enumerate(metrics):
                benefits = [
                    [one.benefit(own[row], metric) for one, own in zip(there, rows, strict=True)]
                    for there, rows in zip(seen, masks, strict=True)
                ]
                found[place, row] = float(np.mean(np.array(benefits) @ weights))
        return found[0], found[1] if len(metrics) > 1 else None

    def _shown(
        self,
        masks: Sequence[Sequence[Sequence[HeadMask]]],
        few: int,
        seen: Sequence[Sequence[_Seen]],
    ) -> tuple[tuple[Paired, ...], ...]:
        """What the first masks, the method's own and a few draws, showed by model and point."""
        metric = self.setup.measures.metric
        rounds = self.plan.sizes.index(self.plan.shown) + 1
        return tuple(
            tuple(
                one.paired(own[:few], rounds, metric)
                for one, own in zip(there, of_place, strict=True)
            )
            for there, of_place in zip(seen, masks, strict=True)
        )
