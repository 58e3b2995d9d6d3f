"""Models trained with other seeds: the page says what the tables say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from headtool.reports.contents.run import Contents, read_contents
from headtool.reports.formats.html import render_html
from headtool.reports.formats.markdown import render_markdown
from headtool.reports.sections.page import build_page

from ...support.replicates import METHODS


def test_the_page_has_models_agreement_overlap_and_a_chart_for_each_method(
    replicated: Contents,
) -> None:
    page = build_page(replicated)
    (section,) = [one for one in page.sections if one.name == "replicates"]
    models, agreement, overlap = section.tables
    assert [row[1].text for row in models.rows] == ["0.900", "0.890", "0.880"]
    assert len(agreement.rows) == len(overlap.rows) == 6
    (figure,) = section.figures
    assert [panel.title for panel in figure.panels] == list(METHODS)
    assert all(panel.drawing.count('class="series') == 3 for panel in figure.panels)
    assert "Owen (2007)" in " ".join(page.procedure.references)
    (curves,) = [one for one in page.sections if one.name == "curves"]
    assert "Areas are means over the 3 models" in " ".join(curves.text)
    html = render_html(replicated)
    assert "<b>second</b>" not in html
    assert 'id="replicates"' in html
    assert "Does it hold for other training runs?" in render_markdown(replicated)


def test_methods_that_failed_on_a_replicate_leave_the_models(replicated: Contents) -> None:
    nothing = {
        name: replicated.tables[name].iloc[:0]
        for name in ("replicate_agreement", "replicate_overlap")
    }
    page = build_page(dataclasses.replace(replicated, tables={**replicated.tables, **nothing}))
    (section,) = [one for one in page.sections if one.name == "replicates"]
    assert [table.name for table in section.tables] == ["replicates"]
    assert "no ranking could be compared" in " ".join(page.opening)


def test_a_run_without_replicates_has_no_such_section(compared: Path) -> None:
    page = build_page(read_contents(compared))
    assert "replicates" not in [section.name for section in page.sections]
