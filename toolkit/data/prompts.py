"""Prompts with answers or choices for language models, out of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from headtool.data.dataset import TextData
from headtool.data.messages import quoted
from headtool.data.picking import named_column, text_columns
from headtool.data.tables import Table
from headtool.errors import HeadtoolError

__all__ = ["as_choices", "as_messages", "prompt_data"]


def prompt_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Pick prompts with answers, or with choices, out of a table.

    Parameters
    ----------
    table
        The table to read.
    columns
        Role to column name, with ``prompt`` or ``messages`` and what goes with it.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a column is missing, or choices are no list with the right one in it.
    """
    choice = "choices" in columns and "answer" not in columns
    if "messages" in columns:
        return _chat_data(table, columns, spec, choice=choice)
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
    return TextData(
        spec, "choice", {**found, **_choices(table, columns["choices"], found["label"])}
    )


def _choices(table: Table, name: str, given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read lists of choices, and the numbers of those that are right."""
    cells = table.cells(named_column(table, name), lists=True)
    lists, labels = [], []
    for row, (cell, label) in enumerate(zip(cells, given, strict=True)):
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
    return {"choices": tuple(lists), "label": tuple(labels)}


def _chat_data(table: Table, columns: Mapping[str, str], spec: str, *, choice: bool) -> TextData:
    """Pick conversations out of a table; their last message may be the answer."""
    name = named_column(table, columns["messages"])
    roles = [role for role in ("answer", "wrong", "label") if role in columns]
    roles = ["label"] if choice else [role for role in roles if role != "label"]
    found = text_columns(table, {role: named_column(table, columns[role]) for role in roles})
    for role, texts in found.items():
        for row, text in enumerate(texts):
            if not text.strip():
                raise HeadtoolError(
                    f"{table.place(row)}: column {quoted(columns[role])} is empty; fill it in or "
                    "remove the row"
                )
    conversations, answers = [], []
    for row, cell in enumerate(table.cells(name, lists=True)):
        messages = as_messages(cell or "")
        if messages is None:
            raise HeadtoolError(
                f"{table.place(row)}: {quoted(cell or '')} in column {quoted(name)} is no list of "
                'messages; write one like [{"role": "user", "content": "Hello"}]'
            )
        if not choice and "answer" not in found:
            last = messages.pop()
            if last["role"] != "assistant" or not messages or not last["content"].strip():
                raise HeadtoolError(
                    f"{table.place(row)}: the last message is of {quoted(last['role'])}, and there "
                    "is no column 'answer'; end with what the assistant is to say"
                )
            answers.append(last["content"])
        conversations.append(json.dumps(messages, ensure_ascii=False))
    found["messages"] = tuple(conversations)
    if choice:
        found |= _choices(table, columns["choices"], found["label"])
        return TextData(spec, "choice", found)
    return TextData(spec, "prompt", {"answer": tuple(answers), **found})


def as_messages(text: str) -> list[dict[str, str]] | None:
    """Read a conversation: a JSON list of messages, or a text that the user says.

    Parameters
    ----------
    text
        The list as JSON, or the text.

    Returns
    -------
    list or None
        Objects with ``role`` and ``content``; None where a list holds something else, or nothing.

    Examples
    --------
    >>> from headtool.data.prompts import as_messages
    >>> as_messages("Hello"), as_messages('[{"role": "user"}]')
    ([{'role': 'user', 'content': 'Hello'}], None)
    """
    if not text.lstrip().startswith("["):
        return [{"role": "user", "content": text}] if text.strip() else None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    messages = []
    for message in found:
        role, content = (
            (message.get("role"), message.get("content"))
            if isinstance(message, dict)
            else (None, None)
        )
        if not isinstance(role, str) or not isinstance(content, str):
            return None
        messages.append({"role": role, "content": content})
    return messages or None


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
