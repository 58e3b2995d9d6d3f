"""``headtool study``: written, planned, run and watched from the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from headtool.cli.cell_command import command_of
from headtool.studies import running
from headtool.studies.cells import plan_cells

from .conftest import Run

STUDY = """\
out: {out}
models:
  - name: nli
    model: builtin:nli
tasks:
  - name: matched
    data: builtin:nli/matched
methods: [magnitude]
steps: 50%
draws: 1
resamples: 20
resources: {{limit: 8}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.format(out=tmp_path / "runs"))
    return path


def test_init_writes_a_study_and_keeps_what_is_there(headtool: Run, tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    done = headtool("study", "init", path)
    assert (done.code, done.out) == (0, f"{path}\n")
    assert "name: first" in path.read_text()
    again = headtool("study", "init", path)
    assert again.code == 2
    assert again.err == f"error: {path} exists already; choose another, or add --force\n"
    assert headtool("study", "init", path, "--force").code == 0


@pytest.mark.slow
def test_a_dry_run_says_what_each_cell_costs(headtool: Run, file: Path) -> None:
    done = headtool("study", "run", file, "--dry-run", "--format", "json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["schema"] == "headtool/study-plan/1"
    (row,) = document["study_plan"]
    assert (row["cell"], row["forward"]) == ("nli.matched", document["total"]["forward"])
    assert 0 < row["seconds_least"] <= row["seconds_most"]
    assert not (file.parent / "runs").exists()
    assert "nli.matched" in headtool("study", "run", file, "--dry-run").out


@pytest.mark.slow
def test_run_and_status(headtool: Run, file: Path) -> None:
    early = headtool("study", "status", file)
    assert early.code == 2
    assert "holds no study" in early.err
    done = headtool("study", "run", file, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert "study" in done.out
    assert "1 done" in done.out
    for place in (file, file.parent / "runs"):
        document = json.loads(headtool("study", "status", place, "--format", "json").out)
        assert document["schema"] == "headtool/study-status/1"
        assert (document["done"], document["failed"], document["left"]) == (1, 0, 0)
        (row,) = document["study_status"]
        assert (row["state"], row["error"]) == ("done", "")
        assert row["seconds"] > 0
    cells = headtool("show", file.parent / "runs" / "cells" / "nli.matched")
    assert cells.code == 0, cells.err


def test_the_command_of_a_cell_says_what_differs_from_the_usual(tmp_path: Path) -> None:
    plan = plan_cells(
        {
            "out": str(tmp_path),
            "models": [{"name": "nli", "model": "builtin:nli"}],
            "tasks": [
                {
                    "name": "both",
                    "data": ["builtin:nli/matched", "builtin:nli/mismatched"],
                    "metric": "accuracy",
                    "limit": 9,
                }
            ],
            "methods": [{"gradient": {"granularity": "example"}}, "ablation"],
            "kinds": ["enc-self"],
            "steps": "50%",
            "draws": 3,
            "seed": 4,
        }
    )
    assert shlex.split(command_of(plan.comparing[0])) == [
        *("headtool", "compare", "--method", "gradient,ablation"),
        *("--set", "gradient.granularity=example", "--model", "builtin:nli"),
        *("--data", "builtin:nli/matched", "--data", "builtin:nli/mismatched"),
        *("--kind", "enc-self", "--metric", "accuracy", "--steps", "50%"),
        *("--limit", "9", "--seed", "4", "--draws", "3"),
    ]


@pytest.mark.slow
def test_a_cell_is_what_its_command_makes(headtool: Run, file: Path) -> None:
    assert headtool("study", "run", file, "--quiet").code == 0
    cell = file.parent / "runs" / "cells" / "nli.matched"
    words = shlex.split(json.loads((cell / "manifest.json").read_text())["command"])
    alone = file.parent / "alone"
    done = headtool(*words[1:], "--out", alone, "--quiet")
    assert done.code == 0, done.err
    tables = sorted(path.name for path in cell.glob("*.parquet"))
    assert tables
    assert tables == sorted(path.name for path in alone.glob("*.parquet"))
    for name in tables:
        assert (cell / name).read_bytes() == (alone / name).read_bytes(), name


@pytest.mark.slow
def test_a_failed_cell_is_told_and_makes_the_command_fail(headtool: Run, file: Path) -> None:
    data = file.parent / "one.tsv"
    data.write_text("text_a\ttext_b\tlabel\na\tb\tneutral\n")
    text = file.read_text().replace("methods:", f"  - name: one\n    data: {data}\nmethods:")
    file.write_text(text)
    done = headtool("study", "run", file)
    assert done.code == 2
    assert "1 of 2 cells failed, the others are done. nli.one: " in done.err
    assert "1 done, 1 failed" in done.out
    assert "why" in headtool("study", "status", file).out


def test_an_interrupted_study_says_what_continues_it(
    headtool: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_comparison", interrupted)
    done = headtool("study", "run", file)
    assert done.code == 130
    assert done.err.endswith(f"interrupted; to continue: headtool study run {file}\n")
    assert "1 left" in headtool("study", "status", file).out


def test_mistakes_are_one_line_with_line_and_key(headtool: Run, file: Path) -> None:
    file.write_text(file.read_text().replace("limit: 8", "limit: eight"))
    done = headtool("study", "run", file)
    assert (done.code, done.out) == (2, "")
    assert done.err == (f"error: {file}:12: resources.limit: must be a whole number, got 'eight'\n")


def test_unknown_commands_of_a_study(headtool: Run) -> None:
    done = headtool("study", "rnu")
    assert done.code == 2
    assert done.err.startswith("error: unknown command 'rnu'; did you mean 'run'?")
