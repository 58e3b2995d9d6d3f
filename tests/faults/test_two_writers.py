"""Two commands that write to one place: one of them wins, the other says why it did not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .commands import ROUNDS, Bench, some, tree

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", some("prune", "ablate", "compare", "report in a folder"))
def test_two_writers(bench: Bench, tmp_path: Path, name: str) -> None:
    draw, (_, ended) = random.Random(name), bench.whole(name)
    for number in range(ROUNDS):
        place = bench.begin(name, tmp_path / str(number))
        job = {"arguments": bench.arguments(name), "place": str(place)}
        later = {"start_after": draw.uniform(0, ended.seconds) if number else 0}
        both = sorted(bench.warm.together(job, {**job, **later}), key=lambda one: one.code)
        assert [one.code for one in both] == [0, 2], [one.err for one in both]
        assert both[1].err.startswith("error: ")
        assert both[1].err.count("\n") == 1
        assert tree(place) == tree(bench.whole(name)[0])
    print(f"{name}: {ROUNDS} of {ROUNDS} with one winner")
