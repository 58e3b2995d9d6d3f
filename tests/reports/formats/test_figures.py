"""Figures for a paper: every format, the same every time, whatever the names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from headtool.errors import HeadtoolError
from headtool.heads import head_name
from headtool.reports.contents.heads import Heads
from headtool.reports.contents.roles import HeadRoles
from headtool.reports.contents.run import Contents
from headtool.reports.formats.choice import DRAWINGS
from headtool.reports.formats.figures import write_figures
from headtool.reports.formats.head_figures import effects_figure, heads_figure


@pytest.mark.slow
def test_figures_are_written_in_every_format(contents: Contents, tmp_path: Path) -> None:
    written = write_figures(contents, tmp_path)
    names = {"heads", "curves", "against-random", "faithfulness", "agreement", "scores"}
    names |= {"effects", "data-sets"}
    assert {path.name for path in written} == {f"{n}.{e}" for n in names for e in DRAWINGS}
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


def test_figures_take_a_width_a_font_and_formats(contents: Contents, tmp_path: Path) -> None:
    small = dataclasses.replace(contents, tables={"tests": contents.tables["tests"]})
    written = write_figures(small, tmp_path, formats=("png",), width=3.0, font="STIXGeneral")
    assert {path.suffix for path in written} == {".png"}
    for path in written:
        with Image.open(path) as image:
            assert image.size[0] == 900
    with pytest.raises(HeadtoolError, match="unknown font 'No Such Font'"):
        write_figures(small, tmp_path, font="No Such Font")


def test_effects_show_margin_and_names(contents: Contents, tmp_path: Path) -> None:
    small = dataclasses.replace(contents, tables={"tests": contents.tables["tests"]})
    figure = effects_figure(small, Heads(small))
    (axis,) = figure.axes
    margin = float(contents.settings["margin"])
    assert any(list(line.get_ydata()) == [-margin, -margin] for line in axis.lines)
    assert "margin" in [text.get_text() for text in axis.get_legend().get_texts()]
    tests = contents.tables["tests"]
    largest = tests.loc[tests["delta"].abs().idxmax()]
    assert head_name(largest.to_dict()) in [text.get_text() for text in axis.texts]


def test_grids_of_heads_say_their_budget_and_their_colours(contents: Contents) -> None:
    heads = Heads(contents)
    figure = heads_figure(contents, heads, HeadRoles(contents, heads))
    assert figure.get_supxlabel().startswith("hollow: the ")
    assert [t.get_text() for t in figure.axes[-1].get_yticklabels()] == ["least", "most"]


def test_figures_take_hostile_names_as_names(attacked: Contents, tmp_path: Path) -> None:
    written = write_figures(attacked, tmp_path, formats=("svg",))
    assert len(written) == 8
    for path in written:
        assert "<script" not in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_letters_that_the_font_lacks_are_named_once(
    make: Callable[..., Contents], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = write_figures(make(methods=("日本", "方法日")), tmp_path, formats=("svg", "pdf"))
    assert written
    assert [record.getMessage() for record in caplog.records] == [
        "the font of the figures (DejaVu Sans) lacks 日 本 方 法; boxes stand for them"
    ]
