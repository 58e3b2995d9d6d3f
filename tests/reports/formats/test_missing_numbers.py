"""What was not computed is a dash, in every format."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from headtool.reports.contents.run import Contents
from headtool.reports.formats.figures import write_figures
from headtool.reports.formats.html import render_html
from headtool.reports.formats.latex import render_latex
from headtool.reports.formats.markdown import render_markdown


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


@pytest.mark.slow
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
