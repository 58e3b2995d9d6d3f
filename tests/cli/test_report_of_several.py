"""``headtool report RUN1 RUN2 ...`` and ``headtool study report``."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtool.results.studies import Cell, Study, write_study

from ..support.studies import write_cells


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("several")
    return write_cells(folder, models=["models/a", "models/b"], tasks=["data/x.tsv"])


def bad(done, *words: str) -> None:
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert all(word in done.err for word in words), done.err


def test_several_runs_make_one_report_and_others_are_named(
    headtool, places: list[Path], tmp_path: Path
) -> None:
    other = write_cells(tmp_path, models=["models/c"], tasks=["data/x.tsv"], methods=["lrp", "dsp"])
    for form, name in (("html", "r.html"), ("markdown", "r.md"), ("latex", "l"), ("csv", "c")):
        out = tmp_path / name
        done = headtool("report", *places, *other, "--format", form, "--out", out)
        assert done.code == 0, done.err
        assert done.out == f"{out}\n"
        assert "is left out: it has no method in common with the others (lrp, dsp;" in done.err
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "two comparisons (two models, one task)" in text
    again = headtool("report", *places, "--out", tmp_path / "r.html", "--force", "--quiet")
    assert (again.code, again.err) == (0, "")


def test_options_of_single_runs_are_refused(headtool, places: list[Path], tmp_path: Path) -> None:
    bad(headtool("report", *places, "--roles", tmp_path), "--roles", "several runs")
    bad(headtool("report", *places, "--format", "pdf", "--width", "3"), "--width", "several runs")
    bad(headtool("report", *places, "--format", "pdf"), "no figures", "--format")
    bad(headtool("report", tmp_path / "a", tmp_path / "b"), "no comparison to report on", "no such")


def test_a_study_is_reported_from_its_folder(headtool, places: list[Path], tmp_path: Path) -> None:
    folder = places[0].parent
    cells = [
        Cell(place.name, name, name, "", "x", f"models/{name}", ("data/x.tsv",), place)
        for place, name in zip([*places, folder / "later"], "abc", strict=True)
    ]
    write_study(Study("three models", folder, tuple(cells)))
    done = headtool("study", "report", folder)
    assert done.code == 0, done.err
    assert done.out == f"{folder / 'report.html'}\n"
    assert "later is left out: it has not been run" in done.err
    assert "<h1>three models</h1>" in (folder / "report.html").read_text(encoding="utf-8")
    bad(headtool("study", "report", folder), "exists already", "--force")
    columns = headtool(
        *("study", "report", folder, "--format", "latex"),
        *("--columns", "mean rank", "--out", tmp_path / "tex"),
    )
    assert columns.code == 0, columns.err
    assert "study-ranking.tex" in {path.name for path in (tmp_path / "tex").iterdir()}
    assert "study-cells.tex" not in {path.name for path in (tmp_path / "tex").iterdir()}
    bad(headtool("study", "report", tmp_path / "none"), "none")
