"""``rm -r`` of what a command is writing: one line and nothing left, or all that was wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from .commands import ROUNDS, Bench, some, tree

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", some("ablate", "shapley", "dynamics", "compare"))
def test_the_place_is_emptied_meanwhile(bench: Bench, tmp_path: Path, name: str) -> None:
    whole, undisturbed = bench.whole(name)
    assert undisturbed.steps is not None
    count = len(undisturbed.steps)
    for number in range(ROUNDS):
        place = bench.begin(name, tmp_path / str(number))
        step = 3 + int((number + 0.5) * (count - 3) / ROUNDS)
        ended = bench.warm.run(bench.arguments(name), place, remove_at=step)
        if ended.code == 0 and tree(place):
            assert tree(place) == tree(whole)
            continue
        assert tree(place) == {}, (undisturbed.steps[step - 1], ended.err)
        if ended.code == 0:  # the run was there already, and went with the rest
            before = undisturbed.steps[: step - 1]
            assert any(done.startswith("os.rename .headtool-run-") for done in before)
            continue
        assert ended.code == 2, ended.err
        assert "Traceback" not in ended.err
        assert ended.err.splitlines()[-1].startswith("error: ")
    print(f"{name}: {ROUNDS} of {ROUNDS} said in one line, or finished")
