"""Methods among random masks: random labels, and labels that know something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.draw_plan import DrawPlan
from headtool.analysis.draws import DrawTest, adjust_chains, next_matched
from headtool.analysis.paired import Paired
from headtool.analysis.race import Round, Tally, going_on, tally
from headtool.masks.curves import closed_in_order, matched_closed, random_closed
from simulations.printing import ALPHA, Array, rate, table

HEADS, FAMILIES = 24, 400
LAYERS = np.repeat(np.arange(4), 6)
BUDGETS = tuple(range(0, HEADS + 1, 2))

Closed = NDArray[np.bool_]
Claims = dict[tuple[str, str], str]
"""By method and sort of masks: whether it is called better or worse; others have no entry."""


@dataclass
class World:
    """A model of 24 heads: what each is worth, and how differently examples see that."""

    rng: np.random.Generator
    noise: float  # of a mask on an example at a point, in standard deviations between masks
    examples: int = 100

    def __post_init__(self) -> None:
        layers = np.repeat(self.rng.exponential(size=4), 6)
        self.effect = self.rng.exponential(size=HEADS) * layers
        keys = self.rng.random((60, HEADS))
        areas = [
            -(random_closed(key, BUDGETS, LAYERS, keep_one=False) @ self.effect).mean()
            for key in keys
        ]
        self.scale = float(np.std(areas))

    def deltas(self, closed: Closed) -> Array:
        """What masks [n, B, heads] do to every example, [n, B, examples]."""
        means = -(closed @ self.effect)[..., None]
        shape = (*means.shape[:2], self.examples)
        error = self.rng.standard_normal(shape, dtype=np.float32) * (self.noise * self.scale)
        return np.asarray(means + error)

    def common(self, number: int) -> Closed:
        """Masks of random labels."""
        keys = self.rng.random((number, HEADS))
        return np.array([random_closed(key, BUDGETS, LAYERS, keep_one=False) for key in keys])

    def matched(self, closed: Closed, number: int) -> Closed:
        """Masks with as many heads of every layer as those given close."""
        keys = self.rng.random((number, HEADS))
        return np.array([matched_closed(closed, key, LAYERS) for key in keys])

    def informed(self, blur: float) -> Closed:
        """Masks of labels that know what heads are worth, up to a blur."""
        order = np.argsort(self.effect * np.exp(blur * self.rng.standard_normal(HEADS)))
        return closed_in_order(order, BUDGETS, HEADS)


def paired(deltas: Array) -> Paired:
    """Deltas [masks, examples] as outcomes."""
    return Paired.from_values(np.zeros(deltas.shape[1]), deltas, higher_is_better=True)


def plan_of(world: World, methods: int) -> DrawPlan:
    """The default's plan, with five masks as its pilot."""
    pilot = world.deltas(world.common(5))
    plan = DrawPlan.of(
        BUDGETS,
        HEADS,
        [""] * world.examples,
        methods=methods,
        alpha=ALPHA,
        seed=int(world.rng.integers(1 << 30)),
        pilot={budget: paired(pilot[:, place]) for place, budget in enumerate(BUDGETS)},
    )
    assert plan is not None
    return plan


class Contest:
    """Methods of one world among draws, in the default way and in full."""

    def __init__(self, world: World, methods: Sequence[Closed]) -> None:
        self.plan = plan_of(world, len(methods))
        self.points = [BUDGETS.index(budget) for budget in self.plan.budgets]
        own = world.deltas(np.array(methods))
        common, other = (world.deltas(world.common(self.plan.most)) for _ in range(2))
        self.names = [f"m{i}" for i in range(len(methods))]
        self.values: dict[tuple[str, str], Array] = {}
        self.run: list[tuple[str, int, int, NDArray[np.bool_]]] = []
        for name, closed, mine in zip(self.names, methods, own, strict=True):
            matched = world.deltas(world.matched(closed, self.plan.most))
            self.values[name, "common"] = np.concatenate([mine[None], common])
            self.values[name, "other"] = np.concatenate([mine[None], other])
            self.values[name, "matched"] = np.concatenate([mine[None], matched])

    def test(self, name: str, sort: str) -> DrawTest:
        """The default's comparison of a method with one sort of masks."""
        values, plan, before = self.values[name, sort], self.plan, 0
        alive = np.ones(1 + plan.most, dtype=np.bool_)
        rounds: list[Round] = []
        for size in plan.sizes:
            if not alive.any():
                break
            self.run.append((name if sort == "matched" else sort, before, size, alive))
            areas = sum(
                weight * values[:, place, plan.taken(point, size)].mean(axis=1)
                for point, (weight, place) in enumerate(zip(plan.weights, self.points, strict=True))
            )
            rounds.append((np.where(alive, areas, np.nan), None))
            alive, before = going_on(rounds, plan.fields), size
        return DrawTest("all", name, sort, plan, tuple(rounds), 0)

    def sequential(self) -> tuple[Claims, int]:
        """Claims by the default, and the passes that it took in all."""
        self.run.clear()
        common = {name: self.test(name, "common") for name in self.names}
        matched: dict[str, DrawTest] = {}
        while missing := next_matched(common, matched, ALPHA):
            matched |= {name: self.test(name, "matched") for name in missing}
        return _claims([common, matched], self.names), self._passes()

    def _passes(self) -> int:
        """Passes of the draws; methods that are compared with the same run these together."""
        together: dict[tuple[str, int, int], NDArray[np.bool_]] = {}
        for sort, before, now, alive in self.run:
            seen = together.get((sort, before, now), np.zeros_like(alive))
            together[sort, before, now] = seen | alive
        return sum(
            (now - before) * int(alive[1:].sum()) for (_, before, now), alive in together.items()
        )

    def full(self, draws: int, common: str = "common") -> Claims:
        """Claims if so many draws are run at every point on every example."""
        tests = [
            {name: self._full(name, sort, draws) for name in self.names}
            for sort in (common, "matched")
        ]
        return _claims(tests, self.names)

    def _full(self, name: str, sort: str, draws: int) -> _Full:
        areas = self.values[name, sort][: 1 + draws].mean(axis=(1, 2))
        return _Full(tally(float(areas[0]), areas[1:]))


@dataclass
class _Full:
    tally: Tally


def _claims(tests: Sequence[Mapping[str, DrawTest | _Full]], names: list[str]) -> Claims:
    chains = [
        [tests[k][name].tally.p if name in tests[k] else np.nan for k in (0, 1)] for name in names
    ]
    return {
        (name, sort): "better" if tests[k][name].tally.is_better else "worse"
        for name, adjusted in zip(names, adjust_chains(chains), strict=True)
        for k, sort in enumerate(("common", "matched"))
        if adjusted[k] <= ALPHA
    }


def random_masks() -> None:
    """Families of four labels of which one is falsely called better or worse than random masks."""

    def rows() -> Iterator[list[str]]:
        for knows in ("nothing", "the layers"):
            rng = np.random.default_rng(5)
            false: dict[str, list[set[str]]] = {}
            took = []
            for _ in range(FAMILIES):
                world = World(rng, 2.0)
                labels = world.common(4)
                if knows == "the layers":  # those of labels that are right, heads at random
                    labels = np.array([world.matched(world.informed(0), 1)[0] for _ in labels])
                contest = Contest(world, labels)
                default, passes = contest.sequential()
                took.append(passes)
                for how, claims in (
                    ("20 on everything", contest.full(20)),
                    ("159 on everything", contest.full(159)),
                    ("default", default),
                ):
                    said = {
                        direction
                        for (_, sort), direction in claims.items()
                        if sort == "matched" or knows == "nothing"
                    }
                    false.setdefault(how, []).append(said)
            for how, sets in false.items():
                counts = (sum("better" in said for said in sets), sum("worse" in s for s in sets))
                whole = 5 * (len(BUDGETS) - 2) * World.examples
                number = np.mean(took) if how == "default" else whole * int(how.split()[0])
                rates = (rate(count, FAMILIES) for count in (*counts, sum(map(bool, sets))))
                yield [knows, how, *rates, f"{number:,.0f}"]

    table(
        [
            *("the labels know", "draws", "falsely better", "falsely worse", "any false claim"),
            "passes of the draws, on average",
        ],
        rows(),
    )


def draw_agreement() -> None:
    """How often the default claims what as many draws on everything do, and what it costs."""
    families = 60
    blurs = ((0.0, 3.0, 3.0, 3.0), (0.3, 0.6, 1.0, 1.5))

    def rows() -> Iterator[list[str]]:
        for noise in (2.0, 13.0):
            for blur in blurs:
                rng = np.random.default_rng(6)
                same = again = claimed = found = 0
                passes = 0.0
                for _ in range(families):
                    world = World(rng, noise, 400)
                    contest = Contest(world, [world.informed(b) for b in blur])
                    ours, took = contest.sequential()
                    theirs = contest.full(contest.plan.most)
                    others = contest.full(contest.plan.most, "other")
                    common = [(name, "common") for name in contest.names]
                    same += sum(ours.get(row) == theirs.get(row) for row in common)
                    again += sum(others.get(row) == theirs.get(row) for row in common)
                    claimed += sum(row in theirs for row in common)
                    found += sum(row in ours for row in common)
                    full = contest.plan.most * 5 * (len(BUDGETS) - 2) * world.examples
                    passes += took / full
                count = 4 * families
                yield [
                    f"{noise:g}",
                    ", ".join(f"{b:g}" for b in blur),
                    *(rate(n, count) for n in (claimed, found, same, again)),
                    f"{passes / families:.3f}",
                ]

    table(
        [
            *("noise", "blur of the four labels", "claimed in full", "claimed by default"),
            *("same claim", "same claim by other draws in full", "passes, of those in full"),
        ],
        rows(),
    )
