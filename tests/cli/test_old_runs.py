"""Runs that were written before the tables had a schema; they still open, everywhere."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from headtool.analysis.comparison import TABLES, read_comparison
from headtool.results.runs import read_run
from headtool.schema import TABLES as SCHEMA

from .conftest import Run

OLD = Path(__file__).parents[1] / "results" / "old_runs"


@pytest.fixture
def old(workplace: Path) -> Path:
    """The old runs, where reports may be written into them."""
    shutil.copytree(OLD, workplace / "old")
    return workplace / "old"


@pytest.mark.parametrize("kind", ["compare", "ablate", "score"])
def test_every_table_reads_as_it_is_written_today(kind: str) -> None:
    run = read_run(OLD / kind)
    assert set(run.manifest["tables"]) <= set(run.names)
    for name in run.names:
        frame = run.table(name)
        described = SCHEMA.get(name)
        if described is not None and not described.further:
            assert frame.dtypes.equals(described.empty(*frame.columns).dtypes), name


def test_draws_are_split_from_curves() -> None:
    held = pq.read_table(OLD / "compare" / "curves.parquet").to_pandas()
    assert -1 in set(held["draw"])
    run = read_run(OLD / "compare")
    assert "curve_draws" in run.names
    assert "curve_draws" not in run.manifest["tables"]
    curves, draws = run.table("curves"), run.table("curve_draws")
    assert "draw" not in curves.columns
    assert len(curves) + len(draws) == len(held)
    assert sorted(set(draws["draw"])) == [0, 1]
    mean = draws.groupby(["method", "budget"])["value"].mean()
    known = curves.set_index(["method", "budget"])["value"].loc[mean.index]
    assert known.tolist() == pytest.approx(mean.tolist())


def test_a_comparison_opens_with_all_its_tables() -> None:
    found = read_comparison(OLD / "compare")
    assert set(found.tables) == set(TABLES)
    assert len(found.curve_draws) == 24
    assert len(found.subsamples) == 2
    for name in ("replicates", "replicate_curves", "roles", "role_survival", "failures"):
        pd.testing.assert_frame_equal(found.tables[name], SCHEMA[name].empty())


def test_outcomes_open() -> None:
    for kind in ("compare", "ablate"):
        assert len(read_run(OLD / kind).outcomes().masks) == 32


@pytest.mark.parametrize("kind", ["compare", "ablate", "score"])
@pytest.mark.parametrize("form", ["html", "markdown", "latex", "csv"])
def test_reports(headtool: Run, old: Path, kind: str, form: str) -> None:
    done = headtool("report", old / kind, "--format", form, "--out", "made")
    assert (done.code, done.err) == (0, "")
    made = Path("made")
    files = list(made.iterdir()) if made.is_dir() else [made]
    assert files
    assert all(path.stat().st_size > 100 for path in files)
    if form == "csv" and kind == "compare":
        names = {path.stem for path in files}
        assert {"curves", "curve_draws", "subsamples"} <= names
        assert "replicates" not in names
        rows = list(csv.DictReader((made / "curves.csv").read_text().splitlines()))
        assert "draw" not in rows[0]


@pytest.mark.parametrize("kind", ["compare", "ablate"])
def test_tests(headtool: Run, old: Path, kind: str) -> None:
    done = headtool("test", old / kind, "--format", "json")
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["tests"]) == 32


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compare", "ablate"])
def test_correlations_with_a_run_of_today(headtool: Run, old: Path, kind: str) -> None:
    data = ("--data", "builtin:nli/mismatched", "--limit", 20)
    assert headtool("ablate", *data, "--device", "cpu", "--out", "today").code == 0
    few = ("--permutations", 200, "--resamples", 50)
    done = headtool("correlate", old / kind, "today", *few, "--format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["correlations"][0]["n_heads"] == 32


@pytest.mark.parametrize(("kind", "method"), [("score", "gates"), ("compare", "gradient")])
def test_pruning_by_old_scores(headtool: Run, old: Path, kind: str, method: str) -> None:
    done = headtool(
        "prune", "--scores", old / kind, "--method", method, "--remove", "25%", "--format", "json"
    )
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["removed"]) == 8


def test_a_method_s_own_columns_are_missing_for_other_methods() -> None:
    scores = read_run(OLD / "score").table("scores")
    kept = scores.groupby("method")["kept"].count().to_dict()
    assert kept == {"gates": 32, "gradient": 0}


def test_nothing_in_them_names_a_machine() -> None:
    for path in OLD.glob("*/manifest.json"):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        assert manifest["command"].startswith("headtool ")
        text = path.read_text(encoding="utf-8")
        assert not {"/home", "/root", "/work", "/tmp"} & set(re.findall(r"/\w+", text))
