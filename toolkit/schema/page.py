"""The page of the docs that describes every table."""

from __future__ import annotations

from collections.abc import Iterator

from headtool.schema import GROUPS
from headtool.schema.columns import Column, Table

__all__ = ["tables_page"]

_INTRODUCTION = """\
# Tables

<!-- Written by `make tables` from toolkit/schema/; do not edit. -->

Every table that headtool writes: into a run directory as `NAME.parquet`, into JSON documents as
rows, as CSV, and as frames of results in Python. A run holds no table that was not asked for; read
from Python, such a table has all its columns and no rows.

Heads are named by `kind`, `layer` and `head` everywhere. A `delta` is masked minus whole. Missing
numbers (NaN; null in JSON, an empty field in CSV) were not computed, or are undefined. "The
metric's" unit is that of the metric in the `metric` column or, without one, in the run's settings.
Names and p-values have no unit.
"""


def tables_page() -> str:
    """Return the page as Markdown.

    Examples
    --------
    >>> from headtool.schema.page import tables_page
    >>> print(tables_page()[:8])
    # Tables
    """
    return "\n".join([_INTRODUCTION, *_contents(), "", *_groups()])


def _contents() -> Iterator[str]:
    for title, tables in GROUPS.items():
        names = ", ".join(f"[{table.name}](#{_anchor(table.name)})" for table in tables)
        yield f"- {title}: {names}"


def _anchor(name: str) -> str:
    return name.replace(".", "")


def _groups() -> Iterator[str]:
    for title, tables in GROUPS.items():
        yield f"## {title}\n"
        for table in tables:
            yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    yield f"### {table.name}\n"
    yield f"A row is {table.row}. Made by {table.where}.{table.about and f' {table.about}'}\n"
    yield "| column | type | unit | meaning |"
    yield "| --- | --- | --- | --- |"
    for column in table.columns:
        yield f"| `{column.name}` | {_type(column)} | {column.unit} | {column.meaning} |"
    yield ""
    if table.further:
        yield f"Further columns: {table.further}.\n"


def _type(column: Column) -> str:
    notes = [
        word
        for word, holds in (("optional", column.optional), ("may be missing", column.missing))
        if holds
    ]
    return f"{column.type} ({', '.join(notes)})" if notes else column.type
