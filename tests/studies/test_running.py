"""Studies run: they continue to the same bytes, fail in parts, and load each model once."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import headtool
from headtool.builtin.nli import model_folder
from headtool.engine.measurement import measure
from headtool.errors import HeadtoolError
from headtool.experiments import inputs, stages
from headtool.studies import running
from headtool.studies.progress import Overall
from headtool.studies.running import study
from headtool.studies.status import study_status

from ..faults.commands import tree

SMALL: dict[str, Any] = {
    "models": [{"name": "nli", "model": "builtin:nli"}],
    "tasks": [
        {"name": "matched", "data": "builtin:nli/matched"},
        {"name": "mismatched", "data": "builtin:nli/mismatched"},
    ],
    "methods": ["magnitude"],
    "steps": "50%",
    "draws": 1,
    "resamples": 20,
    "resources": {"limit": 8},
}


def small(out: Path, **changed: Any) -> dict[str, Any]:
    return {**SMALL, "out": str(out), **changed}


class Stop:
    """Progress that is interrupted after some steps."""

    def __init__(self, after: int) -> None:
        self.after = after

    def __call__(self, items: Iterable[Any], *, total: int, label: str) -> Iterator[Any]:
        for item in items:
            self.after -= 1
            if not self.after:
                raise KeyboardInterrupt
            yield item


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that ran undisturbed."""
    out = tmp_path_factory.mktemp("whole") / "study"
    done = study(small(out))
    assert [cell.state for cell in done.cells] == ["done", "done"]
    return out


@pytest.mark.slow
def test_an_interrupted_study_continues_to_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    out, done = tmp_path / "study", []
    for after in (2, 3):
        with pytest.raises(KeyboardInterrupt):
            study(small(out), progress=Stop(after))
        found = study_status(out)
        done.append(found.counts["done"])
        assert found.counts["running"] == found.counts["failed"] == 0
        assert list((out / "cells").glob("*.unfinished"))
    assert done == [0, 1]
    assert [cell.state for cell in study(small(out)).cells] == ["done", "done"]
    assert tree(out / "cells") == tree(whole / "cells")
    assert (out / "study.json").read_bytes() == (whole / "study.json").read_bytes()


@pytest.mark.slow
def test_nothing_runs_twice(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_comparison", None)
    before = tree(whole / "cells")
    assert len(study(small(whole)).done) == 2
    assert tree(whole / "cells") == before


@pytest.mark.slow
def test_a_cell_is_what_a_comparison_makes(whole: Path, tmp_path: Path) -> None:
    run = headtool.read_run(whole / "cells" / "nli.matched")
    alone = headtool.compare(
        "builtin:nli",
        "builtin:nli/matched",
        methods=["magnitude"],
        steps="50%",
        draws=1,
        resamples=20,
        limit=8,
        out=tmp_path / "alone",
    )
    assert alone.folder is not None
    assert tree(alone.folder) == tree(run.folder)


@pytest.mark.slow
def test_a_model_is_loaded_once_for_all_its_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def counted(source: Any) -> Any:
        loaded.append(source.spec)
        return inputs.open_model(source)

    monkeypatch.setattr(running, "open_model", counted)
    study(small(tmp_path / "study"))
    assert loaded == ["builtin:nli"]


@pytest.mark.slow
def test_cells_on_the_same_data_share_outcomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        ran.append(len(arguments[2]))
        return measure(*arguments, **options)

    monkeypatch.setattr(stages, "measure", counted)
    tasks = [
        {"name": metric, "data": "builtin:nli/matched", "metric": metric}
        for metric in ("accuracy", "loss")
    ]
    together = study(small(tmp_path / "together", tasks=tasks)).cells[1]
    shared, ran[:] = sum(ran), []
    alone = study(small(tmp_path / "alone", tasks=tasks[1:])).cells[0]
    assert shared == sum(ran) > 32
    assert tree(together.run) == tree(alone.run)


@pytest.mark.slow
def test_a_cell_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model_folder(), broken)
    weights = broken / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:1000])
    models = [
        {"name": "broken", "model": str(broken), "tasks": ["matched"]},
        {"name": "nli", "model": "builtin:nli", "tasks": ["mismatched"]},
    ]
    told: list[str] = []
    asked = small(tmp_path / "study", models=models)
    done = study(asked, tell=told.append)
    assert [cell.state for cell in done.cells] == ["failed", "done"]
    assert str(broken) in done.cells[0].error
    assert "\n" not in done.cells[0].error
    assert told == [f"broken.matched failed: {done.cells[0].error}"]
    found = study_status(tmp_path / "study")
    assert found.counts == {"done": 1, "running": 0, "failed": 1, "left": 0}
    weights.write_bytes(content)
    assert [cell.state for cell in study(asked).cells] == ["done", "done"]


def test_a_study_that_was_changed_is_refused(whole: Path) -> None:
    with pytest.raises(HeadtoolError, match=r'was made with steps "50%", which is "25%" now'):
        study(small(whole, steps="25%"))


def test_a_study_at_work_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    with (
        FileLock(tmp_path / "study" / "lock"),
        pytest.raises(HeadtoolError, match="another process is at work on the study"),
    ):
        study(small(tmp_path / "study"))


def test_nothing_is_written_of_a_study_whose_data_is_missing(tmp_path: Path) -> None:
    tasks = [{"name": "x", "data": str(tmp_path / "none.tsv")}]
    with pytest.raises(HeadtoolError, match=r"study: tasks\[0\]\.data: "):
        study(small(tmp_path / "study", tasks=tasks))
    assert not (tmp_path / "study").exists()


def test_workers_are_needed_for_what_goes_with_them(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="are for `workers`"):
        study(small(tmp_path / "study", resources={"ray": "auto"}))


class Meter:
    """A cell's meter that is told how far it is."""

    share, elapsed = 0.5, 10.0

    def left(self) -> tuple[float, float]:
        return 10.0, 20.0


def test_one_bar_counts_all_cells() -> None:
    overall = Overall(4)
    assert overall.left() is None
    overall.begin("a")
    overall.meter = Meter()  # type: ignore[assignment]
    assert (overall.current, overall.share) == ("a (1 of 4)", 0.125)
    assert overall.left() == (10 + 3 * 20, 20 + 3 * 30)
    overall.end(24.0)
    overall.begin("b")
    assert (overall.share, overall.left()) == (0.25, None)
    overall.meter = Meter()  # type: ignore[assignment]
    assert overall.left() == (10 + 2 * 24, 20 + 2 * 24)
