"""``headtool report``: every kind of run in every format, and what it refuses."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs of this module are kept between tests."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def saved(headtool, runs: Path, bert: Path, reviews: Path):
    """Make a run of a command once."""

    def made(command: str) -> Path:
        folder = runs / command.replace(" ", "_")
        if not folder.exists():
            arguments = ("--model", bert, "--data", reviews, "--out", folder, "--quiet")
            done = headtool(*shlex.split(command), *arguments)
            assert done.code == 0, done.err
        return folder

    return made


COMPARE = "compare --method gradient,confidence --draws 2"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "score --method gradient,confidence",
        "ablate",
        "ablate --all-but-one",
        "ablate --sequential",
        COMPARE,
        "curve --method gradient --draws 2",
        "compare --method gradient --draws 2",
    ],
)
def test_every_kind_of_run_can_be_shown(headtool, saved, tmp_path: Path, command: str) -> None:
    run = saved(command)
    for form in ("html", "markdown", "latex", "csv"):
        done = headtool("report", run, "--format", form, "--out", tmp_path / form)
        assert done.code == 0, done.err
        assert done.out == f"{tmp_path / form}\n"
        assert done.err == ""
    page = (tmp_path / "html").read_text(encoding="utf-8")
    assert command.split()[0] in page
    assert 'class="heads"' in page
    assert "tau-b" in page or "compare" not in command or "Only one method" in page


@pytest.mark.slow
def test_figures_of_a_comparison(headtool, saved, tmp_path: Path) -> None:
    done = headtool("report", saved(COMPARE), "--format", "figures", "--out", tmp_path / "figures")
    assert done.code == 0, done.err
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"curves.pdf", "curves.svg", "curves.png", "heads.pdf", "effects.pdf"} <= names


def test_it_computes_nothing_and_imports_no_model(saved) -> None:
    code = (
        "import sys; from headtool.reports.writing import write_report; from pathlib import Path; "
        "write_report(Path(sys.argv[1]), force=True); "
        "print([m for m in ('torch', 'transformers', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    run = str(saved(COMPARE))
    done = subprocess.run(
        [sys.executable, "-c", code, run], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_numbers_are_those_of_the_tables(headtool, saved, tmp_path: Path) -> None:
    run = saved(COMPARE)
    assert headtool("report", run, "--format", "csv", "--out", tmp_path / "csv").code == 0
    tests = pd.read_csv(tmp_path / "csv" / "tests.csv")
    assert headtool("report", run, "--format", "markdown", "--out", tmp_path / "r.md").code == 0
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    for verdict, amount in tests["verdict"].value_counts().items():
        assert f"| {verdict} | {amount} |" in text
    sha = json.loads((run / "manifest.json").read_text())["provenance"]["compare"]["model"][
        "sha256"
    ]
    assert sha in text


def bad(done, *words: str) -> None:
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert all(word in done.err for word in words), done.err


def test_bad_input_is_one_line(headtool, saved, tmp_path: Path) -> None:
    run = shutil.copytree(saved(COMPARE), tmp_path / "run")
    (run / "report.html").unlink(missing_ok=True)
    bad(headtool("report"), "RUN", "--help")
    bad(headtool("report", tmp_path / "none"), "none", "no headtool run")
    bad(headtool("report", run, "--format", "htlm"), "'htlm'", "did you mean 'html'")
    (tmp_path / "going.unfinished").mkdir()
    bad(headtool("report", tmp_path / "going"), "going", "not finished")
    assert headtool("report", run).code == 0
    bad(headtool("report", run), "report.html exists already", "--force")
    assert headtool("report", run, "--force").code == 0
    bad(headtool("report", run, "--out", tmp_path), "is a folder", "--out")
    (run / "curves.parquet").write_bytes(b"damaged")
    bad(headtool("report", run, "--force"), "curves.parquet", "damaged")
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"schema": "headtool/run/0"}))
    bad(headtool("report", run, "--force"), "headtool/run/0")
    (run / "manifest.json").write_text("{")
    bad(headtool("report", run, "--force"), "manifest.json cannot be read")
