"""Tables and drawings of the report can be taken along, and paper shows every table."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.slow
Open = Callable[..., tuple[Any, Any]]


def saved(page: Any, button: Any, folder: Path) -> Path:
    with page.expect_download() as caught:
        button.click()
    path = folder / caught.value.suggested_filename
    caught.value.save_as(path)
    return path


def test_a_table_is_saved_as_it_is_shown(open_page: Open, tmp_path: Path) -> None:
    page, seen = open_page()
    table = page.locator("#table-overview")
    table.locator("th button").first.click()
    path = saved(page, page.locator("#findings .tools").get_by_text("CSV"), tmp_path)
    assert path.name == "overview.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    shown = [row.split("\t") for row in table.locator("tr").all_inner_texts()]
    assert [row[0] for row in rows] == [row[0].strip() for row in shown]
    assert len({len(row) for row in rows}) == 1
    assert "\u2212" not in path.read_text(encoding="utf-8")
    assert seen.messages == []


def test_drawings_are_saved_with_their_colours(open_page: Open, tmp_path: Path) -> None:
    page, seen = open_page()
    tools = page.locator("#curves figure .tools").first
    drawing = ElementTree.fromstring(saved(page, tools.get_by_text("SVG"), tmp_path).read_bytes())
    lines = [e for e in drawing.iter("{http://www.w3.org/2000/svg}path") if e.get("d")]
    assert len({e.get("stroke") for e in lines} - {"none"}) >= 2
    assert all("var(" not in str(value) for e in drawing.iter() for value in e.attrib.values())
    picture = saved(page, tools.get_by_text("PNG"), tmp_path).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert seen.messages == []


def test_paper_shows_every_table_and_the_screen_what_it_showed(open_page: Open) -> None:
    page, _ = open_page()
    folded = page.locator("main details:not([open])").count()
    assert folded > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("main details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("main details:not([open])").count() == folded


def test_the_contents_are_folded_on_a_phone_only(open_page: Open) -> None:
    for width, is_open in ((1280, True), (390, False)):
        page, _ = open_page(width=width)
        assert page.locator("nav a").first.is_visible() == is_open
