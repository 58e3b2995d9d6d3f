"""Interrupted methods go on: what is finished is not computed again, and the result is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headtool.data import TextData
from headtool.experiments.stages import Stages
from headtool.methods.base import Method
from headtool.methods.gates import Gates
from headtool.methods.integrated import Integrated
from headtool.methods.shapley import Shapley

METHODS = {
    "shapley": (Shapley(permutations=12, signal="loss", tolerance=0.0), 3),
    "integrated": (Integrated(ig_steps=4), 4),
    "sweep": (Gates(steps=6, sweep="0.5,1,2", train="classifier.*", scratch_steps=2), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_finished_parts_are_not_computed_again(
    name: str, bert, pairs: TextData, tmp_path: Path
) -> None:
    method: Method
    method, parts = METHODS[name]
    examples = bert.encode(pairs)
    straight = method.score(bert, examples)
    stages, computed = Stages(tmp_path), []

    def keep(part: str, compute: Callable[[], Any]) -> Any:
        def counted() -> Any:
            if len(computed) == 2:
                raise KeyboardInterrupt
            computed.append(part)
            return compute()

        return stages.keep(part, counted)

    with pytest.raises(KeyboardInterrupt):
        method.score(bert, examples, keep=keep)
    assert stages.holds_any
    assert len(computed) == len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2
    first = list(computed)
    computed.clear()
    again = method.score(bert, examples, keep=keep)
    assert len(computed) == parts - 2
    assert not set(first) & set(computed)
    pd.testing.assert_frame_equal(again.frame, straight.frame)
    assert list(again.tables) == list(straight.tables)
    for table, frame in straight.tables.items():
        pd.testing.assert_frame_equal(again.tables[table], frame)


def test_without_a_folder_nothing_is_kept() -> None:
    stages = Stages(None)
    assert [stages.keep("a", lambda i=i: {"n": i})["n"] for i in range(2)] == [0, 1]
    assert not stages.holds_any
