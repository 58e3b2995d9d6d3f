"""What a run holds is told from its manifest and files, of whichever command and version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import headtool
from headtool.errors import HeadtoolError
from headtool.results.runs import write_run

RUNS = Path(__file__).parents[1] / "results" / "old_runs"


def test_a_run_of_methods() -> None:
    found = headtool.show(RUNS / "score")
    manifest = headtool.read_run(RUNS / "score").manifest
    assert found.folder == RUNS / "score"
    assert {name: found.origin[name] for name in ("kind", "methods", "metric", "seed")} == {
        "kind": "score",
        "methods": ["gradient", "gates"],
        "metric": "accuracy",
        "seed": 0,
    }
    assert found.origin["command"] == manifest["command"]
    assert found.origin["created"] == manifest["created"]
    assert [model["spec"] for model in found.origin["models"]] == ["builtin:nli"]
    assert found.origin["data"] == [{"spec": "builtin:nli/matched", "examples": 40}]
    assert found.origin["versions"]["torch"]
    assert found.reports == ()


def test_a_comparison_names_its_methods_and_both_data_sets() -> None:
    found = headtool.show(RUNS / "compare")
    assert found.origin["kind"] == "compare"
    assert found.origin["methods"] == ["gradient", "confidence"]
    specs = [data["spec"] for data in found.origin["data"]]
    assert specs == ["builtin:nli/matched", "builtin:nli/mismatched"]


@pytest.mark.parametrize("name", ["score", "ablate", "compare"])
def test_rows_are_those_of_the_tables(name: str) -> None:
    found = headtool.show(RUNS / name)
    run = headtool.read_run(RUNS / name)
    assert [table for table, _, _ in found.tables] == list(run.names)
    for table, rows, row in found.tables:
        assert rows == len(run.table(table))
        assert row
    assert found.frame["rows"].tolist() == [rows for _, rows, _ in found.tables]


def test_tables_of_plugins_reports_and_notes(tmp_path: Path) -> None:
    write_run(
        tmp_path / "run",
        command="headtool score",
        provenance={"mine": {"method": "mine", "notes": ["few examples"]}},
        tables={"mine.table": pd.DataFrame({"x": [1, 2, 3]})},
        finish=lambda made: (made / "report.html").write_text("page"),
    )
    found = headtool.show(tmp_path / "run")
    assert found.tables == (("mine.table", 3, ""),)
    assert found.reports == ("report.html",)
    assert found.notes == ("few examples",)
    assert found.origin["models"] == []
    document = found.document()
    assert document["tables"] == [{"name": "mine.table", "rows": 3, "row": ""}]
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_damage_is_noticed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(RUNS / "score", run)
    table = run / "scores.parquet"
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(HeadtoolError, match=r"scores\.parquet is damaged"):
        headtool.show(run)
    table.unlink()
    with pytest.raises(HeadtoolError, match="is missing from the run"):
        headtool.show(run)
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"provenance": [1]}))
    with pytest.raises(HeadtoolError, match="'provenance' must be an object"):
        headtool.show(run)
    with pytest.raises(HeadtoolError, match="no headtool run"):
        headtool.show(tmp_path)
