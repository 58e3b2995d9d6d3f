"""Runs that a report cannot or must not show: one error that names the run and what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headtool.errors import HeadtoolError
from headtool.reports.contents.run import Contents, read_contents
from headtool.results.runs import write_run

from ...support.comparisons import comparison


@pytest.fixture
def run(compared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compared, tmp_path / "run")


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(HeadtoolError) as caught:
        read_contents(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert folder.name in message
    for word in words:
        assert word in message


def change(run: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    path = run / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    edit(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def test_what_is_no_run(tmp_path: Path) -> None:
    refused(tmp_path / "absent", "no headtool run")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no headtool run")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "cannot be read")


def test_a_run_that_is_still_being_made(tmp_path: Path) -> None:
    (tmp_path / "run.unfinished").mkdir()
    refused(tmp_path / "run", "not finished", "again to continue")
    refused(tmp_path / "run.unfinished", "not finished")


def test_another_version(run: Path) -> None:
    change(run, lambda manifest: manifest.update(schema="headtool/run/9"))
    refused(run, "headtool/run/9", "this version reads")


def test_a_column_that_is_missing(tmp_path: Path) -> None:
    tables, settings = comparison()
    tables["tests"] = tables["tests"].drop(columns="verdict")
    write_run(tmp_path / "run", command="", provenance={"compare": settings}, tables=tables)
    refused(tmp_path / "run", "tests.parquet", "another version", "'verdict'")


def test_damage(run: Path) -> None:
    (run / "tests.parquet").write_bytes(b"damaged")
    refused(run, "tests.parquet", "damaged")
    (run / "tests.parquet").unlink()
    refused(run, "tests.parquet", "missing")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda m: m.update(provenance=[]), ["'provenance' must be an object, got []"]),
        (lambda m: m.update(provenance={"compare": 3}), ["'provenance > compare'", "got 3"]),
        (lambda m: m["provenance"]["compare"].update(methods="gradient"), ["> methods'", "list"]),
        (lambda m: m["provenance"]["compare"].update(whole=[1]), ["> whole'", "object"]),
        (lambda m: m.update(tables={}), ["no table that a report can show", "none"]),
        (lambda m: m.update(tables=[]), ["damaged"]),
    ],
)
def test_a_manifest_of_other_types(run: Path, edit: Any, words: list[str]) -> None:
    change(run, edit)
    refused(run, *words)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", ".hidden", "a b", "", "a/b"])
def test_names_of_tables_are_no_paths(run: Path, name: str) -> None:
    change(run, lambda manifest: manifest["tables"].update({name: manifest["tables"]["tests"]}))
    refused(run, "no name of a table")


def test_a_run_of_other_tables_only(tmp_path: Path) -> None:
    tables = {"outcomes": pd.DataFrame({"mask": [""], "example": [0], "loss": [1.0]})}
    write_run(tmp_path / "run", command="", provenance={"x": {}}, tables=tables)
    refused(tmp_path / "run", "no table that a report can show", "outcomes")


def test_missing_settings_are_missing_not_wrong(run: Path) -> None:
    def empty(manifest: dict[str, Any]) -> None:
        manifest["provenance"]["compare"] = {}

    change(run, empty)
    contents = read_contents(run)
    assert contents.model == ""
    assert contents.data == []
    assert contents.whole != contents.whole
    assert contents.methods == ["gradient", "ablation", "gates", "confidence"]


def test_a_missing_table_has_its_columns(contents: Contents) -> None:
    assert contents.table("sequential").empty
    assert {"data", "kind", "layer", "head", "verdict"} <= set(contents.table("sequential").columns)


def test_other_runs_are_told_which_can_be_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "run", command="", provenance={}, tables={})
    with pytest.raises(
        HeadtoolError, match="a run of compare, curve, score, ablate, roles, dynamics or"
    ):
        read_contents(tmp_path / "run")
