"""How often heads stay on random halves: the page says what the tables say."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from headtool.reports.contents.run import Contents, read_contents
from headtool.reports.formats.html import render_html
from headtool.reports.formats.markdown import render_markdown
from headtool.reports.sections.page import build_page

from ...support.stability import HALVES, METHODS


def test_the_page_shows_how_often_each_head_stays(subsampled: Contents) -> None:
    page = build_page(subsampled)
    (section,) = [one for one in page.sections if one.name == "stability"]
    frequency = subsampled.table("selection_frequency").query("budget == 36")
    often = frequency.set_index(["method", "kind", "layer", "head"])["times"]
    (table,) = [one for one in section.tables if one.name == "frequencies"]
    assert [column.title for column in table.columns] == ["head", *METHODS]
    for row in table.rows:
        kind, layer, head = row[0].text.split(".")
        for method, cell in zip(METHODS, row[1:], strict=True):
            assert cell.text == f"{often[method, kind, int(layer), int(head)]} of {HALVES}"
    grids, _ = section.figures
    assert [panel.title for panel in grids.panels] == list(METHODS)
    times = often["ablation", "enc-self", 2, 7]
    assert f"enc-self.2.7: kept in {times} of 8 halves" in grids.panels[1].drawing
    shown = section.data["frequency"]
    assert shown["halves"] == HALVES
    budget = subsampled.settings["budgets"].index(36)
    assert shown["times"][1][budget][2 * 12 + 7] == times


def test_every_format_tells_it(subsampled: Contents) -> None:
    html, markdown = render_html(subsampled), render_markdown(subsampled)
    assert 'id="stability"' in html
    assert "Would other examples say the same?" in markdown
    assert "| enc-self.0.0 | " in markdown
    assert "Shah & Samworth (2013)" in json.dumps(build_page(subsampled).procedure.references)


def test_a_method_without_stability_has_no_place_there(subsampled: Contents) -> None:
    tables = {
        name: table[table["method"] == "gradient"] if name in subsample_names() else table
        for name, table in subsampled.tables.items()
    }
    page = build_page(dataclasses.replace(subsampled, tables=tables))
    (section,) = [one for one in page.sections if one.name == "stability"]
    assert section.data["frequency"]["times"][1] is None
    assert [panel.title for panel in section.figures[0].panels] == ["gradient"]
    assert "rankings by gradient agree with a tau-b of" in section_headline(page)


def subsample_names() -> tuple[str, ...]:
    return ("subsamples", "subsample_overlap", "selection_frequency")


def section_headline(page: object) -> str:
    return " ".join(page.opening)  # type: ignore[attr-defined]


def test_a_run_without_subsamples_has_no_such_section(compared: Path) -> None:
    page = build_page(read_contents(compared))
    assert "stability" not in [section.name for section in page.sections]
    assert "Between random halves" not in " ".join(page.opening)
