"""Heads that change no example: the page tells what an interval without width means."""

from __future__ import annotations

import dataclasses

from headtool.reports.contents.run import Contents
from headtool.reports.sections.page import build_page


def effects_text(contents: Contents) -> str:
    section = next(s for s in build_page(contents).sections if s.name == "effects")
    return " ".join(section.text)


def test_a_head_that_changes_nothing_is_explained_in_a_report(contents: Contents) -> None:
    tests = contents.table("tests").copy()
    assert "width zero" not in effects_text(contents)
    tests.loc[0, ["delta", "ci_low", "ci_high"]] = 0.0
    flat = dataclasses.replace(contents, tables={**contents.tables, "tests": tests})
    assert "with 10 examples, up to about 30% of other examples still could" in effects_text(flat)
