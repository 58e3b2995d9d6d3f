"""Studies on disk: what is written is read again, and each cell's state is as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from headtool.errors import HeadtoolError
from headtool.results.studies import (
    LOCK,
    Cell,
    CellProgress,
    Study,
    read_study,
    write_progress,
    write_study,
)


def made(folder: Path) -> Study:
    cells = tuple(
        Cell(
            *(f"nli.{seed}.matched", "nli", "bert", seed, "matched", f"models/{seed}"),
            ("builtin:nli/matched",),
            folder / "cells" / f"nli.{seed}.matched",
            {"steps": "10%", "methods": {"gradient": {}}},
        )
        for seed in ("seed-1", "seed-2", "seed-3")
    )
    return Study("first", folder, cells, "accuracy")


def test_a_study_is_read_as_it_was_written(tmp_path: Path) -> None:
    study = made(tmp_path)
    write_study(study)
    assert read_study(tmp_path) == study == read_study(tmp_path / "study.json")
    assert study.count("left") == 3
    assert study.done == ()


def test_states_come_from_the_runs_the_record_and_the_lock(tmp_path: Path) -> None:
    study = made(tmp_path)
    write_study(study)
    first, second, third = study.cells
    first.run.mkdir(parents=True)
    (first.run / "manifest.json").write_text("{}")
    write_progress(
        tmp_path,
        {
            first.id: CellProgress("done", 2.5),
            second.id: CellProgress("failed", 1.0, "no such model"),
            third.id: CellProgress("running"),
        },
    )
    found = read_study(tmp_path)
    assert [cell.state for cell in found.cells] == ["done", "failed", "left"]
    assert [cell.seconds for cell in found.cells] == [2.5, 1.0, 0.0]
    assert [cell.error for cell in found.cells] == ["", "no such model", ""]
    assert [cell.id for cell in found.done] == [first.id]
    with FileLock(tmp_path / LOCK):
        assert read_study(tmp_path).cells[2].state == "running"
    (first.run / "manifest.json").unlink()
    assert read_study(tmp_path).cells[0] == first


def test_a_run_that_came_after_a_failure_counts(tmp_path: Path) -> None:
    study = made(tmp_path)
    write_study(study)
    cell = study.cells[0]
    write_progress(tmp_path, {cell.id: CellProgress("failed", 1.0, "no such model")})
    cell.run.mkdir(parents=True)
    (cell.run / "manifest.json").write_text("{}")
    found = read_study(tmp_path).cells[0]
    assert (found.state, found.seconds, found.error) == ("done", 0.0, "")


def outside(document: dict[str, Any]) -> None:
    document["cells"][0]["run"] = "../elsewhere"


def twice(document: dict[str, Any]) -> None:
    document["cells"][1]["id"] = document["cells"][0]["id"]


def missing(document: dict[str, Any]) -> None:
    del document["cells"][1]["task"]


def other_schema(document: dict[str, Any]) -> None:
    document["schema"] = "headtool/study/9"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (outside, "'../elsewhere' is no folder below the study's"),
        (twice, "the cell 'nli.seed-1.matched' is there twice"),
        (missing, "'cells > 2 > task' is missing"),
        (other_schema, "has the schema 'headtool/study/9'"),
    ],
)
def test_damaged_studies_are_refused(
    change: Callable[[dict[str, Any]], None], said: str, tmp_path: Path
) -> None:
    write_study(made(tmp_path))
    path = tmp_path / "study.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(HeadtoolError) as error:
        read_study(tmp_path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_no_study(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match=r"holds no study: it has no study\.json"):
        read_study(tmp_path)
