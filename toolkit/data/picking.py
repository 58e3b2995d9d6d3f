"""Columns of a table by name."""

from __future__ import annotations

from collections.abc import Mapping

from headtool.data.messages import listing, quoted
from headtool.data.tables import Table
from headtool.errors import HeadtoolError

__all__ = ["named_column", "text_columns"]


def named_column(table: Table, name: str) -> str:
    """Return the name of a column that a table has once.

    Parameters
    ----------
    table
        The table.
    name
        The column.

    Raises
    ------
    HeadtoolError
        If it is missing, or there are several.
    """
    count = table.header.count(name)
    if count == 0:
        raise HeadtoolError(
            f"{table.source} has no column {quoted(name)}, only {listing(table.header)}; "
            "correct `columns`"
        )
    if count > 1:
        raise HeadtoolError(f"{table.source} has {count} columns {quoted(name)}; rename one")
    return name


def text_columns(table: Table, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Read columns of texts.

    Parameters
    ----------
    table
        The table.
    names
        Role to column name.

    Returns
    -------
    dict
        Role to texts.

    Raises
    ------
    HeadtoolError
        If a column is a label with names of its own.
    """
    columns: dict[str, tuple[str, ...]] = {}
    for role, name in names.items():
        cells = table.cells(name)
        texts = tuple(cell for cell in cells if cell is not None)
        if len(texts) != len(cells):
            raise HeadtoolError(
                f"{table.source}: column {quoted(name)} is a label, not text; correct `columns`"
            )
        columns[role] = texts
    return columns
