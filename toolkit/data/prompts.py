"""Prompts with answers or choices for language models, out of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from headtool.data.dataset import TextData
from headtool.data.messages import quoted
from headtool.data.picking import named_column, text_columns
from headtool.data.tables import Table
from headtool.errors import HeadtoolError

__all__ = ["as_choices", "prompt_data"]


def prompt_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Pick prompts with answers, or with choices, out of a table.

    Parameters
    ----------
    table
        The table to read.
    columns
        Role to column name, with ``prompt`` and what goes with it.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a column is missing, or choices are no list with the right one in it.
    """
    choice = "choices" in columns and "answer" not in columns
    needed = ("prompt", "label") if choice else ("prompt", "answer")
    names = {role: named_column(table, columns.get(role, role)) for role in needed}
    further = ("corrupted",) if choice else ("wrong", "corrupted")
    names |= {role: named_column(table, columns[role]) for role in further if role in columns}
    found = text_columns(table, names)
    for role, texts in found.items():
        for row, text in enumerate(texts):
            if not text.strip():
                raise HeadtoolError(
                    f"{table.place(row)}: column {quoted(names[role])} is empty; fill it in or "
                    "remove the row"
                )
    if not choice:
        answers = found["answer"]
        wrongs = found.get("wrong", ("",) * len(answers))
        for row, (answer, wrong) in enumerate(zip(answers, wrongs, strict=True)):
            if answer.strip() == wrong.strip():
                raise HeadtoolError(
                    f"{table.place(row)}: the wrong answer is the right one, {quoted(answer)}; "
                    "correct it"
                )
        return TextData(spec, "prompt", found)
    cells = table.cells(named_column(table, columns["choices"]), lists=True)
    lists, labels = [], []
    for row, (cell, label) in enumerate(zip(cells, found["label"], strict=True)):
        choices = as_choices(cell or "")
        if choices is None:
            raise HeadtoolError(
                f"{table.place(row)}: {quoted(cell or '')} is no list of two or more "
                'choices; write one like ["yes", "no"]'
            )
        number = label.strip().removesuffix(".0")
        if not number.isdecimal() or int(number) >= len(choices):
            raise HeadtoolError(
                f"{table.place(row)}: label {quoted(label)} is none of the {len(choices)} choices; "
                f"give a number from 0 to {len(choices) - 1}"
            )
        lists.append(json.dumps(choices, ensure_ascii=False))
        labels.append(str(int(number)))
    return TextData(spec, "choice", {**found, "choices": tuple(lists), "label": tuple(labels)})


def as_choices(text: str) -> list[str] | None:
    """Read a JSON list of two or more strings that are not empty; None if it is none.

    Parameters
    ----------
    text
        The list as JSON.

    Examples
    --------
    >>> from headtool.data.prompts import as_choices
    >>> as_choices('["yes", "no"]'), as_choices("yes, no")
    (['yes', 'no'], None)
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or len(found) < 2:
        return None
    texts = [part for part in found if isinstance(part, str) and part.strip()]
    return texts if len(texts) == len(found) else None
