"""``kill -9`` at any moment: the same command, given again, ends as if nothing had happened.

HEADTOOL_FAULT_ROUNDS=50 kills each command fifty times.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from .commands import COMMANDS, ROUNDS, Bench

pytestmark = pytest.mark.slow


def moments(bench: Bench, name: str) -> list[dict[str, float]]:
    """When to kill: at random times, and just before steps spread evenly over the final write."""
    _, ended = bench.whole(name)
    assert ended.steps is not None
    first = next(n for n, step in enumerate(ended.steps, 1) if ".headtool-" in step)
    final = range(first, len(ended.steps) + 1)
    draw = random.Random(name)
    times = [{"kill_after": draw.uniform(0, ended.seconds)} for _ in range(ROUNDS // 2)]
    count = ROUNDS - len(times)
    offset = draw.random()
    places = [final[int((n + offset) * len(final) / count)] for n in range(count)]
    return [*times, *({"kill_at": place} for place in places)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_is_given_again(bench: Bench, tmp_path: Path, name: str) -> None:
    alive = 0
    for number, moment in enumerate(moments(bench, name)):
        place = bench.begin(name, tmp_path / str(number))
        killed = bench.warm.run(bench.arguments(name), place, **moment)
        alive += killed.code == -signal.SIGKILL
        assert killed.code == -signal.SIGKILL or "kill_after" in moment, killed.err
        bench.finish(name, place)
    print(f"{name}: {ROUNDS} of {ROUNDS} resumed to equal bytes, {alive} killed before their end")


def test_a_command_that_is_killed_again_and_again(bench: Bench, tmp_path: Path) -> None:
    """Each time later in its final write, over what the kills before have left."""
    place = bench.begin("prune again", tmp_path / "again")
    arguments = bench.arguments("prune again")
    steps = bench.whole("prune again")[1].steps
    assert steps is not None
    for step in range(5, len(steps) + 1, 1 if ROUNDS > 1 else 9):
        bench.warm.run(arguments, place, kill_at=step)
        bench.is_whole("prune again", place)
    bench.finish("prune again", place)
