"""Data that was tokenised before: columns of token numbers, and what they are labelled with."""

from __future__ import annotations

import json
from collections.abc import Mapping

from headtool.data.dataset import TextData
from headtool.data.messages import quoted
from headtool.data.picking import labelled, named_column
from headtool.data.tables import Table
from headtool.errors import HeadtoolError

__all__ = ["token_data", "whole_numbers"]


def token_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Read token numbers, with a label for each row or a list of them.

    Parameters
    ----------
    table
        The table.
    columns
        Role to column: ``input_ids``, with ``label`` or ``labels`` where there are any,
        ``attention_mask`` and ``token_type_ids``.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a cell holds something else, or no row has a label.
    """
    roles = ("input_ids", "attention_mask", "token_type_ids")
    lists = {
        role: whole_numbers(table, named_column(table, columns[role]))
        for role in roles
        if role in columns
    }
    given = columns.get("labels", columns.get("label"))
    if given is None:
        return TextData(spec, "ids", lists)
    labels = table.cells(named_column(table, given), lists=True)
    if all(label is not None and label.startswith("[") for label in labels):
        return TextData(spec, "ids", {**lists, "labels": whole_numbers(table, given)})
    return TextData(spec, "ids", labelled(table, lists, given))


def whole_numbers(table: Table, name: str) -> tuple[str, ...]:
    """Read a column of lists of whole numbers, each as JSON.

    Parameters
    ----------
    table
        The table.
    name
        The column.

    Raises
    ------
    HeadtoolError
        If a cell holds something else, or nothing.
    """
    found = []
    for row, cell in enumerate(table.cells(name, lists=True)):
        try:
            numbers = [int(number) for number in json.loads(cell or "null")]
        except (TypeError, ValueError):
            numbers = []
        if not numbers:
            raise HeadtoolError(
                f"{table.place(row)}: column {quoted(name)} holds {quoted(cell or 'nothing')}; "
                "give a list of whole numbers there"
            )
        found.append(json.dumps(numbers))
    return tuple(found)
