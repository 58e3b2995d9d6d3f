"""Markdown, LaTeX, CSV and figures: what they hold and escape, and that tools take them."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from PIL import Image

from headtool.reports.contents.run import Contents, read_contents
from headtool.reports.formats.figures import FORMATS, write_figures
from headtool.reports.formats.html import render_html
from headtool.reports.formats.latex import DOCUMENT, escape_latex, render_latex
from headtool.reports.formats.markdown import escape_markdown, render_markdown
from headtool.reports.wording.text import visible
from headtool.reports.writing import write_report

from ..support import hostile
from ..support.comparisons import write_comparison


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    folder = tmp_path_factory.mktemp("hostile") / "run"
    write_comparison(folder, **hostile.OPTIONS)
    return read_contents(folder)


# -- Markdown


def rendered(text: str) -> str:
    """HTML of a renderer that allows everything: raw HTML, links, images, tables."""
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_markdown_holds_findings_tables_and_origin(contents: Contents) -> None:
    text = render_markdown(contents)
    assert text.startswith("# Attention heads of models/sentiment\n")
    html = rendered(text)
    assert "14 are needed, 32 are removable" in html
    assert html.count("<table>") == len(re.findall(r"^\| ---", text, re.MULTILINE))
    assert html.count("<table>") >= 8
    for name in ("All 72 heads", "Areas between curves", "To reproduce", "McNemar (1947)"):
        assert name in html
    row = contents.table("tests").iloc[0]
    assert (
        f'<td>enc-self.0.0</td>\n<td style="text-align:right">{row["delta"]:.4f}'
        in html.replace("−", "-")
    )


def test_every_row_of_a_markdown_table_has_the_columns_of_its_head(contents: Contents) -> None:
    lines = render_markdown(contents).splitlines()
    tables = [line for line in lines if line.startswith("|")]
    width = 0
    for number, line in enumerate(tables):
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        if number + 1 < len(tables) and tables[number + 1].startswith("| ---"):
            width = cells
        assert cells == width, line


def test_hostile_names_stay_text_in_markdown(attacked: Contents) -> None:
    html = rendered(render_markdown(attacked))
    assert not re.findall(r"<(script|img|svg|style|a|iframe|use)\b", html)
    assert "&lt;script&gt;window.pwned=1&lt;/script&gt;" in html


@given(st.text(max_size=60))
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    line = escape_markdown(text)
    assert "\n" not in line
    shown = re.sub(r"</?(p|pre|code)>", "", rendered(line)).strip()
    plain = visible(text).strip()
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        plain = plain.replace(character, entity)
    assert shown == plain


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.0972", "0.0972"), ("6 of them (18.8%)", "6 of them (18.8%)"), ("−0.1", "−0.1"),
        ("1. May", r"1\. May"), ("2) b", r"2\) b"), ("3.", r"3\."), ("- a", r"\- a"),
        ("+ a", r"\+ a"), ("===", r"\==="), ("a 1. b", "a 1. b"), ("a_b", r"a\_b"),
        ("a: b", "a: b"), ("+1", "+1"), ("-1", "-1"), ("---", r"\---"), ("-", r"\-"),
    ],
)  # fmt: skip
def test_only_markup_is_escaped_in_markdown(text: str, written: str) -> None:
    assert escape_markdown(text) == written


def test_no_backslash_of_a_markdown_report_is_shown(contents: Contents) -> None:
    assert "\\" not in rendered(render_markdown(contents))


# -- LaTeX


def test_latex_tables_are_structurally_sound(contents: Contents) -> None:
    files = render_latex(contents)
    assert DOCUMENT in files
    for name in set(files) - {DOCUMENT}:
        assert f"\\input{{{name.removesuffix('.tex')}}}" in files[DOCUMENT]
        text = files[name]
        columns = re.search(r"\\begin\{(?:tabular|longtable)\}\{([lr]+)\}", text)
        assert columns is not None
        rows = [line for line in text.splitlines() if " & " in line]
        assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns[1])}
        for rule in ("toprule", "midrule", "bottomrule"):
            assert f"\\{rule}" in text
        assert "|" not in columns[1]
        assert "\\hline" not in text
        assert text.count("\\begin") == text.count("\\end{")


def test_hostile_names_stay_text_in_latex(attacked: Contents) -> None:
    for name, text in render_latex(attacked).items():
        if name != DOCUMENT:
            assert "\\input{/etc" not in text
            assert "\\end{document}" not in text


@given(st.text(max_size=60))
def test_latex_escapes_leave_nothing_active(text: str) -> None:
    written = escape_latex(text)
    assert written.isascii() or not re.search(r"[^\x00-\x7fÀ-ÿ]", written)
    known = re.sub(r"\\(text[a-z]+|dots|pm|infty|leq)(\{\})?|\\[{}$&#%_]|\$-\$|\{-\}", "", written)
    known = re.sub(r"\$\$|~", "", known)
    assert not set(known) & set("\\{}$&#%_^")


@pytest.mark.parametrize("which", ["contents", "attacked"])
def test_latex_compiles(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    compiler = shutil.which("pdflatex") or shutil.which("tectonic")
    if compiler is None:
        pytest.skip("no pdflatex and no tectonic on the path")
    for name, text in render_latex(request.getfixturevalue(which)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = ["-interaction=nonstopmode", "-halt-on-error"] if "pdflatex" in compiler else []
    done = subprocess.run(
        [compiler, *options, DOCUMENT],
        cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "all.pdf").stat().st_size > 10_000


# -- CSV


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
                assert (
                    found[column].astype(str).tolist()
                    == expected[column]
                    .map(str)
                    .map(lambda text: text.lower() if text in ("True", "False") else text)
                    .tolist()
                    or found[column].tolist() == expected[column].tolist()
                )


def test_csv_keeps_categories_and_hostile_text(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_comparison(run, **hostile.OPTIONS)
    folder = write_report(run, format="csv", out=tmp_path / "csv")
    found = pd.read_csv(folder / "scores.csv")
    assert set(found["method"]) == set(hostile.METHODS)


# -- figures


def test_figures_are_written_in_every_format(contents: Contents, tmp_path: Path) -> None:
    written = write_figures(contents, tmp_path)
    names = {"heads", "curves", "against-random", "agreement", "scores", "effects", "data-sets"}
    assert {path.name for path in written} == {f"{n}.{e}" for n in names for e in FORMATS}
    for path in written:
        content = path.read_bytes()
        if path.suffix == ".pdf":
            assert content.startswith(b"%PDF")
            assert b"/Type3" not in content  # fonts that journals refuse
        elif path.suffix == ".svg":
            assert b"<script" not in content
        else:
            with Image.open(path) as image:
                assert image.info["dpi"][0] == pytest.approx(300, abs=1)


def test_figures_are_the_same_every_time(contents: Contents, tmp_path: Path) -> None:
    few = {"correlations": contents.tables["correlations"], "tests": contents.tables["tests"]}
    small = dataclasses.replace(contents, tables=few)
    both = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        written = write_figures(small, tmp_path / place, formats=("pdf", "svg"))
        both.append([path.read_bytes() for path in written])
    assert both[0] == both[1]


def test_figures_take_hostile_names_as_names(attacked: Contents, tmp_path: Path) -> None:
    written = write_figures(attacked, tmp_path, formats=("svg",))
    assert len(written) == 7
    for path in written:
        assert "<script" not in path.read_text(encoding="utf-8")


def test_letters_that_the_font_lacks_are_named_once(
    make: Callable[..., Contents], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = write_figures(make(methods=("日本", "方法日")), tmp_path, formats=("svg", "pdf"))
    assert written
    assert [record.getMessage() for record in caplog.records] == [
        "the font of the figures (DejaVu Sans) lacks 日 本 方 法; boxes stand for them"
    ]


# -- numbers that were not computed


def without_numbers(contents: Contents, keep: set[str]) -> Contents:
    """The same run with NaN in every column of floats but those named."""
    tables = {}
    for name, frame in contents.tables.items():
        empty = {
            column: float("nan")
            for column in frame.columns
            if frame[column].dtype.kind == "f" and column not in keep
        }
        tables[name] = frame.assign(**empty)
    return dataclasses.replace(contents, tables=tables)


@pytest.mark.parametrize("keep", [{"share"}, {"share", "delta", "value", "score", "area"}])
def test_what_was_not_computed_is_a_dash_everywhere(
    contents: Contents, tmp_path: Path, keep: set[str]
) -> None:
    hollow = without_numbers(contents, keep)
    page = render_html(hollow)
    assert re.search(r"\b(nan|NaN|inf)\b", re.sub(r"(?s)<script>.*?</script>", "", page)) is None
    text = render_markdown(hollow)
    assert re.search(r"\b(nan|inf)\b", text) is None
    assert "| – |" in text
    assert not re.search(r"\bnan\b", "".join(render_latex(hollow).values()))
    assert write_figures(hollow, tmp_path, formats=("svg",))


def test_heads_that_a_method_did_not_score_are_shown_without_rank(contents: Contents) -> None:
    scores = contents.table("scores")
    fewer = scores[~((scores["method"] == "gates") & (scores["layer"] == 2))]
    page = render_html(dataclasses.replace(contents, tables={**contents.tables, "scores": fewer}))
    assert "no score" in page
    assert "rank 0" not in page
