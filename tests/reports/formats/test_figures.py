"""Figures for a paper: every format, the same every time, whatever the names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from headtool.reports.contents.run import Contents
from headtool.reports.formats.figures import FORMATS, write_figures


@pytest.mark.slow
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
