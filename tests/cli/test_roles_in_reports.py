"""Roles joined with a comparison: by ``compare --roles`` and by ``report --roles``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from headtool.analysis.comparison import read_comparison
from headtool.analysis.roles import surviving_roles
from headtool.results.runs import read_run, write_run
from headtool.schema import TABLES

from .conftest import Run
from .test_roles import TREES, conllu

FEW = ("--method", "gradient,confidence", "--steps", "25%", "--draws", 2, "--resamples", 50)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs are kept between tests."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def runs(headtool: Run, bert: Path, bart: Path, reviews: Path, made: Path, workplace: Path) -> Path:
    """Roles and a comparison of one model, roles of another, in the working directory."""
    trees = made / "dev.conllu"
    if not trees.exists():
        trees.write_text(conllu(*TREES * 8))
        for command in (
            ("roles", "--model", bert, "--treebank", trees, "--out", made / "roles"),
            ("roles", "--model", bart, "--treebank", trees, "--out", made / "others"),
            ("compare", "--model", bert, "--data", reviews, *FEW, "--out", made / "plain"),
        ):
            done = headtool(*command, "--quiet")
            assert done.code == 0, done.err
    shutil.copytree(made, workplace, dirs_exist_ok=True)
    return workplace


@pytest.mark.slow
def test_both_ways_show_the_same(headtool: Run, runs: Path, bert: Path, reviews: Path) -> None:
    compared = ("compare", "--model", bert, "--data", reviews, *FEW)
    done = headtool(*compared, "--roles", "roles", "--out", "joined")
    assert done.code == 0, done.err
    assert "surviving roles" in done.out
    frame = read_run(runs / "roles").table("roles")
    joined = read_comparison(runs / "joined")
    expected = surviving_roles(frame, joined.kept)
    pd.testing.assert_frame_equal(joined.role_survival, expected)
    pd.testing.assert_frame_equal(joined.roles, frame)
    assert joined.settings["roles"]["command"].startswith("headtool roles")
    page = (runs / "joined" / "report.html").read_text(encoding="utf-8")
    assert "table-role-survival" in page
    for form in ("markdown", "csv", "latex"):
        for run, more in (("plain", ("--roles", "roles")), ("joined", ())):
            done = headtool("report", run, *more, "--format", form, "--out", f"{form}-{run}")
            assert (done.code, done.err) == (0, "")
    for name, columns in (
        ("roles", TABLES["roles"].names),
        ("role_survival", TABLES["role_survival"].names),
    ):
        saved = (runs / "csv-plain" / f"{name}.csv").read_text()
        assert saved == (runs / "csv-joined" / f"{name}.csv").read_text()
        assert tuple(pd.read_csv(runs / "csv-plain" / f"{name}.csv").columns) == columns
    assert "role-survival.tex" in {path.name for path in (runs / "latex-plain").iterdir()}
    # Neither run was touched.
    assert "roles" not in read_run(runs / "plain").names
    assert "roles" not in read_comparison(runs / "plain").settings


@pytest.mark.slow
def test_json_holds_survival(headtool: Run, runs: Path, bert: Path, reviews: Path) -> None:
    compared = ("compare", "--model", bert, "--data", reviews, *FEW, "--format", "json")
    done = headtool(*compared, "--roles", "roles")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert set(document["role_survival"][0]) == set(TABLES["role_survival"].names)
    assert document["provenance"]["roles"]["treebank"]["sentences"] == 24
    assert json.loads(headtool(*compared).out)["role_survival"] == []


@pytest.mark.slow
def test_roles_change_nothing_else(headtool: Run, runs: Path, bert: Path, reviews: Path) -> None:
    plain, joined = (
        headtool("compare", "--model", bert, "--data", reviews, *FEW, *more, "--format", "csv")
        for more in ((), ("--roles", "roles"))
    )
    assert plain.out == joined.out


REFUSED = [
    ("others", ["others is about another model", "weights differ", "same weights"]),
    ("plain", ["plain is a run of compare and holds no roles", "headtool roles --out"]),
    ("none", ["none is no headtool run"]),
    ("dev.conllu", ["dev.conllu"]),
    ("older", ["older/roles.parquet was written by another version", "'guess'"]),
    ("headless", ["headless", "is damaged", "model"]),
    ("decoder", ["decoder has roles of dec-self heads", "enc-self", "same kinds"]),
]


@pytest.mark.parametrize(("roles", "parts"), REFUSED)
def test_what_does_not_belong_is_one_line_and_nothing_is_computed(
    headtool: Run,
    runs: Path,
    bert: Path,
    reviews: Path,
    roles: str,
    parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = read_run(runs / "roles")
    source, frame = run.manifest["provenance"]["roles"], run.table("roles")
    for name, changed, table in (
        ("older", source, frame.drop(columns="guess")),
        ("headless", {**source, "model": None}, frame),
        ("decoder", source, frame.assign(kind="dec-self")),
    ):
        write_run(runs / name, command="", provenance={"roles": changed}, tables={"roles": table})

    def computed(*_: object, **__: object) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr("headtool.experiments.compare.run_comparison", computed)
    if roles not in ("others", "decoder"):  # which take the weights and the kinds of heads to see
        monkeypatch.setattr("headtool.models.load_model", computed)
    before = sorted(path.name for path in runs.iterdir())
    for command in (
        ("compare", "--model", bert, "--data", reviews, *FEW, "--roles", roles, "--out", "new"),
        ("report", "plain", "--roles", roles, "--out", "new.html"),
    ):
        done = headtool(*command)
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        assert all(part in done.err for part in parts), done.err
    assert sorted(path.name for path in runs.iterdir()) == before


def test_only_a_comparison_takes_roles(headtool: Run, runs: Path) -> None:
    done = headtool("report", "roles", "--roles", "roles")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "roles is a run of roles, which keeps no heads" in done.err
    shutil.rmtree(runs / "roles")
    assert headtool("report", "plain", "--roles", "roles", "--force").code == 2
