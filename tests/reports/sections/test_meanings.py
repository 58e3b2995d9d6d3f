"""Every column of every table on the page says what it means, in the words of the schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headtool.reports.blocks import Column, DataTable
from headtool.reports.contents.run import Contents, read_contents
from headtool.reports.sections.meanings import explain
from headtool.reports.sections.page import Page, build_page
from headtool.schema import TABLES


def tables(page: Page) -> Iterator[DataTable]:
    yield from [page.methods] if page.methods else []
    for section in page.sections:
        yield from section.tables


def test_every_column_says_what_it_means(
    with_known_roles: Contents, subsampled: Contents, replicated: Contents
) -> None:
    runs = (with_known_roles, subsampled, replicated)
    shown = [table for run in runs for table in tables(build_page(run))]
    assert {"overview", "areas", "every-head", "role-survival"} <= {t.name for t in shown}
    assert {"stable-heads", "replicate-overlap"} <= {t.name for t in shown}
    silent = [(t.name, c.title) for t in shown for c in t.columns if not c.about]
    assert silent == []


def test_frames_as_they_are_say_it_too(dynamics_run: Path) -> None:
    shown = list(tables(build_page(read_contents(dynamics_run))))
    assert "prunability" in {table.name for table in shown}
    assert all(column.about for table in shown for column in table.columns)


def test_meanings_are_those_of_the_schema(contents: Contents) -> None:
    found = {table.name: table for table in tables(build_page(contents))}
    about = {column.title: column.about for column in found["every-head"].columns}
    known = {column.name: column.meaning for column in TABLES["tests"].columns}
    assert about["effect"] == known["delta"]
    assert about["detectable effect"] == known["mde"]
    assert about["interval"] == "interval of effect"


def test_titles_that_stand_twice_mean_two_things() -> None:
    titles = ("tau-b", "interval", "Spearman", "interval")
    table = explain(DataTable("subsample-agreement", "", [Column(t) for t in titles], []))
    first, second = (c.about for c in table.columns if c.title == "interval")
    assert first.startswith("interval of tau-b")
    assert second.startswith("interval of Spearman")


def test_the_page_lists_them_once(contents: Contents) -> None:
    page = build_page(contents)
    assert [one.name for one in page.columns] == [table.name for table in tables(page)]
    assert {one.source for one in page.columns} <= set(TABLES)
