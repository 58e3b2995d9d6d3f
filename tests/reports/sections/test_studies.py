"""The page over many comparisons: the answer first, links, and hostile names."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from headtool.errors import HeadtoolError
from headtool.reports.contents.studies import StudyContents, of_runs
from headtool.reports.formats.html import render_page
from headtool.reports.sections.studies import build_study_page
from headtool.reports.writing import write_study_report

from ...support import hostile
from ...support.html import Page
from ...support.studies import METHODS, write_cells
from ..conftest import Open


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_cells(tmp_path_factory.mktemp("a study") / "cells")


@pytest.fixture(scope="module")
def contents(places: list[Path]) -> StudyContents:
    return of_runs(places)


@pytest.fixture(scope="module")
def written(places: list[Path], contents: StudyContents) -> Path:
    out = places[0].parent.parent / "reports" / "methods.html"
    return write_study_report(contents, out=out)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacked")
    cells = write_cells(
        folder,
        models=[hostile.MODEL, f"{hostile.MODEL}2"],
        tasks=hostile.DATA,
        methods=hostile.METHODS,
    )
    return write_study_report(cells, out=folder / "report.html")


def test_the_answer_stands_first(contents: StudyContents) -> None:
    page = build_study_page(contents)
    assert page.headline.startswith("gradient ranks first over eight comparisons (three models, ")
    assert "It beats random masks in all eight comparisons." in page.headline
    assert page.methods is not None
    assert page.methods.rows[0][0].text == "gradient"
    html = render_page(page)
    assert html.index(page.headline) < html.index("table-study-overview")
    assert html.index("table-study-overview") < html.index("To keep in mind")


def test_enough_models_tell_the_best_method(tmp_path: Path) -> None:
    models = [f"models/{letter}" for letter in "abcdefgh"]
    page = build_study_page(of_runs(write_cells(tmp_path, models=models, tasks=["data/x.tsv"])))
    assert page.headline.startswith("gradient ranks first over eight comparisons")
    assert "is ahead of" in page.headline
    assert "beyond chance" in page.headline


def test_what_holds_everywhere_is_told_with_counts(contents: StudyContents) -> None:
    section = next(s for s in build_study_page(contents).sections if s.name == "conclusions")
    assert section.text[0].startswith("Shown in every comparison that can tell: gradient > ")
    assert "(8 of 8)" in section.text[0]


def test_every_cell_links_to_its_own_report(written: Path, places: list[Path]) -> None:
    page = Page(written.read_text(encoding="utf-8"))
    links = {
        str(a["href"])
        for tag, a in page.elements
        if tag == "a" and not str(a["href"]).startswith("#")
    }
    assert len(links) == len(places)
    reached = {os.path.normpath(written.parent / unquote(link)) for link in links}
    assert reached == {str(place / "report.html") for place in places}


def test_a_cell_without_a_report_says_so(tmp_path: Path) -> None:
    cells = write_cells(tmp_path, models=["models/a", "models/b"], tasks=["data/x.tsv"])
    (cells[0] / "report.html").unlink()
    text = Page(write_study_report(cells, out=tmp_path / "all.html").read_text()).text
    assert "1 of 2 comparisons have no report of their own" in text
    assert "missing: headtool report makes it" in text


def test_hostile_names_stay_names(attacked: Path) -> None:
    page = Page(attacked.read_text(encoding="utf-8"))
    assert page.open == []
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "object", "use")
        assert not [name for name in attributes if name.startswith("on")]
        if "href" in attributes:
            assert str(attributes["href"]).startswith(("#", "data:,", "cell-"))
    assert len([a for tag, a, _ in page.raw if tag == "script"]) == 2
    assert "window.pwned=1" in page.text  # as text


def test_latex_and_csv_hold_the_same_numbers(contents: StudyContents, tmp_path: Path) -> None:
    latex = write_study_report(contents, format="latex", out=tmp_path / "latex")
    table = (latex / "study-overview.tex").read_text(encoding="utf-8")
    found = write_study_report(contents, format="csv", out=tmp_path / "csv")
    with (found / "study_ranking.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == list(contents.study.ranked)
    for row in rows:
        assert f"{float(row['mean_rank']):.2f}" in table
    assert r"\input{study-ranking}" in (latex / "all.tex").read_text(encoding="utf-8")
    again = write_study_report(contents, format="csv", out=tmp_path / "csv", force=True)
    assert (again / "study_pairs.csv").is_file()
    text = write_study_report(contents, format="markdown", out=tmp_path / "r.md").read_text()
    assert text.splitlines()[4].startswith("gradient ranks first")


def test_columns_say_what_they_mean(contents: StudyContents) -> None:
    page = build_study_page(contents)
    assert page.methods is not None
    for table in (page.methods, *(t for s in page.sections for t in s.tables)):
        for column in table.columns:
            assert column.about, (table.name, column.title)


def test_what_cannot_be_written_is_refused(places: list[Path], tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="no figures of its own"):
        write_study_report(places, format="pdf")
    out = tmp_path / "r.html"
    out.write_text("mine")
    with pytest.raises(HeadtoolError, match="did not write"):
        write_study_report(places[:2], out=out, force=True)
    with pytest.raises(HeadtoolError, match="only cell-0 is left"):
        write_study_report([places[0], tmp_path / "none"], out=tmp_path / "x.html")


def test_a_report_belongs_into_the_folder_of_its_study(places: list[Path], tmp_path: Path) -> None:
    from headtool.results.studies import Cell, Study, write_study

    study = Study(
        "seeds",
        places[0].parent,
        tuple(
            Cell(place.name, f"m{i}", f"m{i}", "", "news", "spec", ("data/news.tsv",), place)
            for i, place in enumerate([*places[:2], places[0].parent / "later"])
        ),
    )
    write_study(study)
    written = write_study_report(study.folder, force=True)
    assert written == study.folder / "report.html"
    page = Page(written.read_text(encoding="utf-8"))
    assert "Left out: later (it has not been run)." in page.text
    assert "headtool study report" in page.text
    assert math.isfinite(written.stat().st_size)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (900, "dark"), (390, "light")])
def test_it_fits_and_is_accessible(
    open_page: Open, written: Path, width: int, scheme: str, attacked: Path
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page, seen = open_page(written, width=width, color_scheme=scheme, bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    found: Any = axe.run(page).response["violations"]
    assert [(one["id"], len(one["nodes"])) for one in found] == []
    assert seen.messages == []
    page, seen = open_page(attacked, width=width)
    assert page.evaluate("window.pwned") is None
    assert (seen.messages, seen.dialogs) == ([], [])
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []


def test_methods_have_their_colours(written: Path) -> None:
    page = Page(written.read_text(encoding="utf-8"))
    classes = {str(a.get("class")) for tag, a in page.elements if tag == "g"}
    assert "series m0 k0" in classes  # gradient, as everywhere
    assert len([c for c in classes if c.startswith("series m")]) == len(METHODS)
