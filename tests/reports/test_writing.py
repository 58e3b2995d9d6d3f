"""Reports on disk: whole or not at all, and never over what is no report."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import stat
from pathlib import Path

import pandas as pd
import pytest

from headtool.analysis.comparison import TABLES
from headtool.errors import HeadtoolError
from headtool.reports import writing
from headtool.reports.contents.run import read_contents
from headtool.reports.results import Comparison
from headtool.reports.writing import FORMATS, write_report
from headtool.results.runs import read_run

from ..support import hostile
from ..support.comparisons import write_comparison


def test_csv_holds_every_table_with_all_digits(compared: Path, tmp_path: Path) -> None:
    folder = write_report(compared, format="csv", out=tmp_path / "csv")
    contents = read_contents(compared)
    names = set(contents.run.manifest["tables"])
    assert {path.stem for path in folder.iterdir()} == names
    for name in names:
        expected = contents.run.table(name)
        found = pd.read_csv(folder / f"{name}.csv", keep_default_na=False, na_values={
            column: [""] for column in expected.columns if expected[column].dtype.kind == "f"
        })  # fmt: skip
        assert list(found.columns) == list(expected.columns)
        for column in expected.columns:
            if len(expected) and expected[column].dtype.kind == "f":
                pd.testing.assert_series_equal(
                    found[column].astype(float), expected[column], check_exact=True
                )
            elif len(expected):
                shown = expected[column].astype(object).where(expected[column].notna(), "")
                assert (
                    found[column].astype(str).tolist()
                    == shown.map(str)
                    .map(lambda text: text.lower() if text in ("True", "False") else text)
                    .tolist()
                    or found[column].tolist() == shown.tolist()
                )


def test_csv_keeps_categories_and_hostile_text(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_comparison(run, **hostile.OPTIONS)
    folder = write_report(run, format="csv", out=tmp_path / "csv")
    found = pd.read_csv(folder / "scores.csv")
    assert set(found["method"]) == set(hostile.METHODS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["role_run", "dynamics_run"])
@pytest.mark.parametrize("form", ["html", "markdown", "latex", "csv"])
def test_they_can_be_written(request, tmp_path: Path, name: str, form: str) -> None:
    run = request.getfixturevalue(name)
    assert write_report(run, format=form, out=tmp_path / "out").exists()


@pytest.fixture
def run(compared: Path, tmp_path: Path) -> Path:
    return shutil.copytree(compared, tmp_path / "run")


def listing(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


QUICK = ("html", "markdown", "latex", "csv")


@pytest.mark.parametrize("form", QUICK)
def test_by_default_it_lies_in_the_run(run: Path, form: str) -> None:
    before = listing(run)
    place = write_report(run, format=form)
    assert place == run / FORMATS[form][0]
    assert listing(run) - before == {place.name}
    assert place.is_dir() == bool(FORMATS[form][1])


@pytest.mark.slow
@pytest.mark.parametrize("form", QUICK)
def test_an_existing_one_is_replaced_by_force_only(run: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "deep" / "er" / "report"
    write_report(run, format=form, out=out)
    old = {"latex": out / "all.tex", "csv": out / "sites.csv"}.get(form, out)
    old.write_text(f"{old.read_text()}old")
    with pytest.raises(HeadtoolError, match=r"exists already.*`force=True`"):
        write_report(run, format=form, out=out)
    assert old.read_text().endswith("old")
    write_report(run, format=form, out=out, force=True)
    assert not old.read_text().endswith("old")
    assert listing(out.parent) == {"report"}


THESIS = {
    "html": ("thesis.tsv", "page.html"),
    "markdown": ("thesis.tsv", "page.md"),
    "latex": ("tables/thesis.tex",),
    "csv": ("tables/thesis.csv", "tables/sites.csv"),
    "figures": ("figures/thesis.pdf", "figures/thesis.svg", "figures/thesis.png"),
}


@pytest.mark.parametrize("form", THESIS)
def test_force_replaces_only_what_headtool_wrote(run: Path, tmp_path: Path, form: str) -> None:
    for name in THESIS[form]:
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_text("years of work")
        out = place.parent if FORMATS[form][1] else place
        with pytest.raises(HeadtoolError, match=rf"did not write .*{place.name}.*choose another"):
            write_report(run, format=form, out=out, force=True)
        assert place.read_text() == "years of work"
        place.unlink()
    with pytest.raises(HeadtoolError, match="headtool did not write"):
        write_report(run, out=run / "manifest.json", force=True)


def test_several_formats_at_once_are_for_figures(run: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match=r"html,latex asks for html and others.*by itself"):
        write_report(run, format="html,latex", out=tmp_path / "both")
    assert not list(tmp_path.glob("both*"))


@pytest.mark.slow
def test_figures_replace_figures(run: Path, tmp_path: Path) -> None:
    place = write_report(run, format="figures", out=tmp_path / "figures")
    before = listing(place)
    assert len({path.suffix for path in place.iterdir()}) == 3
    write_report(run, format="figures", out=place, force=True)
    assert listing(place) == before
    (place / next(iter(before))).write_bytes(b"mine")
    with pytest.raises(HeadtoolError, match="headtool did not write"):
        write_report(run, format="figures", out=place, force=True)


def test_force_replaces_no_folder_that_holds_anything_else(run: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.docx").write_text("years of work")
    for form in ("latex", "csv", "figures"):
        with pytest.raises(HeadtoolError, match=r"thesis\.docx"):
            write_report(run, format=form, out=home, force=True)
    (home / "thesis.docx").rename(home / "x.csv")
    (home / "folder.csv").mkdir()
    with pytest.raises(HeadtoolError, match=r"folder\.csv"):
        write_report(run, format="csv", out=home, force=True)
    assert (home / "x.csv").read_text() == "years of work"


def test_files_and_folders_are_not_mistaken_for_each_other(run: Path, tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="is a folder; give `out` the name of a file"):
        write_report(run, out=tmp_path, force=True)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(HeadtoolError, match="is a file, and this format is a folder"):
        write_report(run, format="csv", out=tmp_path / "file", force=True)
    assert (tmp_path / "file").read_text() == "kept"


def test_an_empty_folder_may_be_filled(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert listing(write_report(run, format="csv", out=tmp_path / "empty"))


def test_nothing_is_left_behind_when_rendering_fails(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(writing, "_write_csv", broken)
    (tmp_path / "out").mkdir()
    with pytest.raises(RuntimeError, match="broken"):
        write_report(run, format="csv", out=tmp_path / "out" / "csv")
    assert listing(tmp_path / "out") == set()
    monkeypatch.undo()
    write_report(run, format="csv", out=tmp_path / "out" / "csv")
    before = listing(tmp_path / "out" / "csv")
    monkeypatch.setattr(writing, "_write_csv", broken)
    with pytest.raises(RuntimeError, match="broken"):
        write_report(run, format="csv", out=tmp_path / "out" / "csv", force=True)
    assert listing(tmp_path / "out") == {"csv"}
    assert listing(tmp_path / "out" / "csv") == before


def test_a_place_that_cannot_be_written_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadtoolError, match=r"cannot write .*report\.html.*`out`"):
        write_report(run, out=tmp_path / "file" / "report.html")


def test_it_can_be_read_by_whom_the_umask_lets(run: Path, tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        place = write_report(run, out=tmp_path / "report.html")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(place.stat().st_mode) == 0o644


def test_unknown_formats_are_named(run: Path) -> None:
    with pytest.raises(HeadtoolError, match="did you mean 'html'"):
        write_report(run, format="htm")


def compared_in_memory(compared: Path) -> Comparison:
    """The tables of a run as the function that made them returned them."""
    run = read_run(compared)
    held = run.manifest["tables"]
    frames = {name: run.table(name) if name in held else pd.DataFrame() for name in TABLES}
    settings = run.manifest["provenance"]["compare"]
    return Comparison(**frames, settings=settings, command=run.manifest["command"])


@pytest.mark.slow
def test_a_comparison_has_the_report_of_its_run(compared: Path, tmp_path: Path) -> None:
    in_memory = compared_in_memory(compared)
    texts = [
        write_report(source, format="markdown", out=tmp_path / name).read_text(encoding="utf-8")
        for name, source in (
            ("run", str(compared)),
            ("read", dataclasses.replace(in_memory, folder=compared)),
            ("memory", in_memory),
        )
    ]
    assert texts[0] == texts[1]
    assert "## To reproduce" in texts[2]
    # A run in memory gets its time when its report is written.
    same = [re.sub(r"(?m)^- written: .*$", "", text) for text in texts]
    assert same[0] == same[2]


def test_a_comparison_lies_beside_its_run_or_where_it_is_told(run: Path) -> None:
    in_memory = compared_in_memory(run)
    assert write_report(dataclasses.replace(in_memory, folder=run)) == run / "report.html"
    with pytest.raises(HeadtoolError, match=r"lies in no folder.*give `out`"):
        write_report(in_memory)


def test_what_a_killed_report_left_is_swept(run: Path) -> None:
    write_report(run, format="csv")
    (run / ".headtool-csv-abcdefgh" / "new").mkdir(parents=True)
    with pytest.raises(HeadtoolError, match="csv exists already"):
        write_report(run, format="csv")
    assert not (run / ".headtool-csv-abcdefgh").exists()
