"""Files and folders appear whole; what killed processes left is swept, and nothing else is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from headtool.errors import HeadtoolError
from headtool.results.folders import check_output, holds_work, new_folder, unfinished_folder
from headtool.results.replacing import discard, replacing, sweep
from headtool.results.runs import read_run, write_run


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def write(folder: Path, number: int, **settings: object) -> None:
    table = pd.DataFrame({"number": [number]})
    write_run(folder, command="", provenance={"x": {}}, tables={"mine": table}, **settings)


def number(folder: Path) -> int:
    return int(read_run(folder).table("mine")["number"][0])


def left_behind(place: Path, letters: str, part: str) -> Path:
    """What a process leaves that is killed at work: a hidden folder with some part in it."""
    hidden = place.with_name(f".headtool-{place.name}-{letters}")
    hidden.mkdir(parents=True)
    write(hidden / part, 1)
    (hidden / "lock").touch()
    return hidden


def test_what_killed_processes_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "run", 7)
    left_behind(tmp_path / "run", "abcdefgh", "new")
    left_behind(tmp_path / "run", "0_aaaaaa", "old")
    left_behind(tmp_path / "run-2", "abcdefgh", "new")
    (tmp_path / ".headtool-run-notes.txt").touch()
    (tmp_path / ".headtool-run-aaaaaaab").symlink_to(tmp_path)
    check_output(tmp_path / "run", force=True)
    assert names(tmp_path) == {
        "run",
        ".headtool-run-2-abcdefgh",
        ".headtool-run-notes.txt",
        ".headtool-run-aaaaaaab",
    }
    assert number(tmp_path / "run") == 7


def test_what_had_stepped_aside_comes_back(tmp_path: Path) -> None:
    left_behind(tmp_path / "run", "abcdefgh", "old")
    with pytest.raises(HeadtoolError, match="exists already"):
        check_output(tmp_path / "run", force=False)
    assert names(tmp_path) == {"run"}
    assert number(tmp_path / "run") == 1


def test_what_somebody_is_at_work_on_stays(tmp_path: Path) -> None:
    with replacing(tmp_path / "run") as made:
        made.mkdir()
        sweep(tmp_path / "run")
        assert made.is_dir()
    assert names(tmp_path) == {"run"}


def test_of_two_writers_the_first_stays(tmp_path: Path) -> None:
    with (
        pytest.raises(HeadtoolError, match=r"cannot write .*run: "),
        new_folder(tmp_path / "run", force=False),
    ):
        write(tmp_path / "run", 1)
    assert number(tmp_path / "run") == 1
    assert names(tmp_path) == {"run"}
    with new_folder(tmp_path / "run", force=True) as made:
        write(tmp_path / "run", 2, force=True)
        (made / "manifest.json").write_text("{}")
    assert names(tmp_path / "run") == {"manifest.json"}


def test_finished_work_is_swept_and_other_work_stays(tmp_path: Path) -> None:
    run, unfinished = tmp_path / "run", unfinished_folder(tmp_path / "run")
    unfinished.mkdir()
    (unfinished / "unit-000000.npz").touch()
    write(run, 1)
    with pytest.raises(HeadtoolError, match="exists already"):
        check_output(run, force=False)
    assert holds_work(unfinished)  # of a run that is to replace this one, perhaps
    write(run, 1, unfinished=unfinished, force=True)
    with pytest.raises(HeadtoolError, match="exists already"):
        check_output(run, force=False)
    assert names(tmp_path) == {"run"}


def test_the_report_is_part_of_the_whole(tmp_path: Path) -> None:
    def fails(made: Path) -> None:
        assert names(made) == {"mine.parquet", "manifest.json"}
        raise OSError(28, "No space left on device")

    with pytest.raises(HeadtoolError, match=r"cannot write .*run: No space left on device"):
        write(tmp_path / "run", 1, finish=fails)
    assert names(tmp_path) == set()
    write(tmp_path / "run", 1, finish=lambda made: (made / "page").write_text("all"))
    assert (tmp_path / "run" / "page").read_text() == "all"


def test_discards_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    discard(tmp_path / "nothing")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    discard(tmp_path / "folder")
    assert names(tmp_path) == set()
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    monkeypatch.setattr(shutil.os, "rename", lambda *_: (_ for _ in ()).throw(OSError(13, "no")))
    discard(tmp_path / "folder")
    assert names(tmp_path) == set()


def test_a_name_too_long_for_what_is_made_beside_it(tmp_path: Path) -> None:
    check_output(tmp_path / ("x" * 230), force=False)
    with pytest.raises(HeadtoolError, match=r"cannot write .*name too long; choose another `out`"):
        check_output(tmp_path / ("x" * 240), force=False)
