"""Columns of a table by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from headtool.data.messages import listing, quoted
from headtool.data.tables import Table
from headtool.errors import HeadtoolError

__all__ = ["labelled", "named_column", "text_columns"]

_LOGGER = logging.getLogger("headtool.data")


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


def labelled(
    table: Table, columns: Mapping[str, tuple[str, ...]], label: str
) -> dict[str, tuple[str, ...]]:
    """Add labels to columns; rows that the data set declares unlabelled are left out.

    Parameters
    ----------
    table
        The table.
    columns
        Role to values, one for each row.
    label
        The column of the labels.

    Raises
    ------
    HeadtoolError
        If a label is empty, or there is none.
    """
    labels = table.cells(label)
    kept: dict[int, str] = {}
    for row, cell in enumerate(labels):
        if cell is None or (label == "gold_label" and cell == "-"):
            continue
        if not cell.strip():
            raise HeadtoolError(
                f"{table.place(row)}: the label in column {quoted(label)} is empty; "
                "fill it in or remove the row"
            )
        kept[row] = cell
    if not kept:
        raise HeadtoolError(f"{table.source} has no labels; choose a split that has them")
    if len(kept) < len(labels):
        left_out = len(labels) - len(kept)
        _LOGGER.warning(
            "%s: left out %d of %d rows, which have no label", table.source, left_out, len(labels)
        )
    found = {role: tuple(values[row] for row in kept) for role, values in columns.items()}
    return {**found, "label": tuple(kept.values())}
