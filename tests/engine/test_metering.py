"""How much of a plan is done and how long the rest takes, by a clock that the tests set."""

from __future__ import annotations

import numpy as np
import pytest

from headtool.engine.metering import Meter
from headtool.progress import counted, labelled, phase
from headtool.work import Passes, Phase


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def planned(name: str, passes: Passes, tokens: int = 1000) -> Phase:
    return Phase(name, passes, examples=10, tokens=tokens, length=100.0)


def run(meter: Meter, clock: Clock, name: str, units: list[tuple[float, float]]) -> None:
    """Work through units of so many token-passes and seconds."""

    def working():
        for unit in units:
            clock.now += unit[1]
            yield unit

    for _ in counted(meter, working(), total=len(units), label=name, work=lambda unit: unit[0]):
        pass


def test_passes_weigh_what_they_cost() -> None:
    assert Passes(forward=1, backward=1).weight == 2
    assert Passes(forward=1, backward=1, weights=True).weight == 3
    assert Passes(forward=10, share=0.5).weight == 5
    assert Passes(decoded=2, beam=5).weight == 12
    assert Passes(forward=2, backward=1, steps=3).times(2) == Passes(4, 2, steps=6)


def test_the_rest_takes_as_long_as_what_was_done() -> None:
    clock = Clock()
    meter = Meter([planned("only", Passes(forward=4))], clock=clock)
    assert meter.left() is None
    run(meter, clock, "only", [(1000.0, 3.0)])
    assert meter.share == pytest.approx(0.25)
    assert meter.left() == pytest.approx((9.0, 9.0))
    run(meter, clock, "only", [(3000.0, 9.0)])
    assert meter.left() == pytest.approx((0.0, 0.0))
    assert meter.record() == [{"phase": "only", "token_passes": 4000, "seconds": 12.0}]


def test_sorts_of_work_have_speeds_of_their_own() -> None:
    clock = Clock()
    phases = [
        planned("quick", Passes(forward=1)),
        planned("slow", Passes(forward=1, backward=1)),
        planned("slow again", Passes(forward=1, backward=1)),
    ]
    meter = Meter(phases, clock=clock)
    with meter.phase("quick"):
        run(meter, clock, "quick", [(1000.0, 1.0)])
    assert meter.left() == pytest.approx((4.0, 4.0))  # nothing is known of the other sort
    with meter.phase("slow"):
        run(meter, clock, "slow", [(2000.0, 10.0)])
    assert meter.left() == pytest.approx((10.0, 10.0))


def test_what_ends_early_is_dropped_and_what_may_has_a_range() -> None:
    clock = Clock()
    phases = [planned("first", Passes(forward=1)), planned("draws", Passes(forward=9, least=1 / 3))]
    meter = Meter(phases, clock=clock)
    with phase(labelled(meter, "stage"), "first"):
        run(meter, clock, "first", [(1000.0, 2.0)])
    assert meter.left() == pytest.approx((6.0, 18.0))
    with meter.phase("draws"):
        run(meter, clock, "draws", [(4000.0, 8.0)])
        assert meter.left() == pytest.approx((0.0, 10.0))
    assert meter.left() == (0.0, 0.0)
    assert meter.share == 1.0


def test_what_was_done_earlier_takes_no_time() -> None:
    clock = Clock()
    meter = Meter([planned("only", Passes(forward=10))], clock=clock)
    meter.skip(8000.0)
    run(meter, clock, "only", [(1000.0, 5.0)])
    assert meter.left() == pytest.approx((5.0, 5.0))


def test_an_unplanned_phase_counts_for_the_one_around_it() -> None:
    clock = Clock()
    meter = Meter([planned("a", Passes(forward=1)), planned("b", Passes(forward=1))], clock=clock)
    with meter.phase("a"), meter.phase("a, once more"):
        run(meter, clock, "x", [(500.0, 1.0)])
        assert meter.current == "a"
    assert meter.share == pytest.approx(500 / 1500)


@pytest.mark.parametrize("seed", range(20))
def test_time_left_is_right_from_a_tenth_of_the_way(seed: int) -> None:
    """Units of all sizes, whose time varies by a factor of two around sorts twice as slow."""
    rng = np.random.default_rng(seed)
    clock = Clock()
    phases = [
        planned("score", Passes(forward=1, backward=1), tokens=20_000),
        planned("singles", Passes(forward=33, share=0.6), tokens=20_000),
        planned("again", Passes(forward=1, backward=1), tokens=20_000),
        planned("curves", Passes(forward=40), tokens=20_000),
    ]
    speed = {"score": 2.0, "singles": 1.0, "again": 2.0, "curves": 1.2}
    units = []
    for one in phases:
        sizes = rng.lognormal(0, 1, size=40)
        sizes *= one.most / sizes.sum()
        seconds = sizes * speed[one.name] * rng.uniform(0.7, 1.4, size=40) / 1e5
        units.append(list(zip(sizes.tolist(), seconds.tolist(), strict=True)))
    total = sum(seconds for part in units for _, seconds in part)
    meter = Meter(phases, clock=clock)
    checked = 0
    for one, part in zip(phases, units, strict=True):
        with meter.phase(one.name):
            for unit in part:
                run(meter, clock, one.name, [unit])
                truly = total - clock.now
                # The last units are so few that chance decides; there the whole time counts.
                if clock.now >= total / 10 and truly > total / 50:
                    found = meter.left()
                    assert found is not None
                    assert found[0] == pytest.approx(found[1])
                    assert truly / 1.5 <= found[0] <= truly * 1.5
                    checked += 1
    assert checked > 60
