"""Which columns of a table are the texts and the label."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from headtool.data.dataset import TextData
from headtool.data.messages import listing, quoted
from headtool.data.tables import Table
from headtool.errors import HeadtoolError, unknown

__all__ = ["as_choices", "check_columns", "parse_columns", "text_data"]

_LOGGER = logging.getLogger("headtool.data")

_ROLES = (
    *("text", "text_a", "text_b", "label", "source", "target", "corrupted", "corrupted_b"),
    *("prompt", "answer", "wrong", "choices"),
)
_EXAMPLE = "text_a=premise,text_b=hypothesis,label=gold_label"

# Names of columns in headtool, GLUE and the corpora behind it; the first match wins.
_PAIRS = (
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
)
_SINGLES = ("text", "text_a", "sentence")
_LABELS = ("label", "gold_label", "is_duplicate", "Quality", "score", "similarity")


def parse_columns(text: str) -> dict[str, str]:
    """Parse ``--columns``: comma-separated ``role=column`` pairs.

    Roles are ``text`` or ``text_a`` (the same thing), ``text_b``, ``label``; for translation
    ``source`` and ``target``; for language models ``prompt`` with ``answer`` and ``wrong``, or with
    ``choices`` and ``label``; beside all of them ``corrupted``.

    Raises
    ------
    HeadtoolError
        If a part is no pair, a role is unknown or named twice.

    Examples
    --------
    >>> from headtool.data import parse_columns
    >>> parse_columns("text_a=premise,text_b=hypothesis,label=gold_label")
    {'text_a': 'premise', 'text_b': 'hypothesis', 'label': 'gold_label'}
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not (role and equals and column):
            raise HeadtoolError(
                f"`columns`: {quoted(part)} is not role=column; write it like {_EXAMPLE}"
            )
        if role in columns:
            raise HeadtoolError(f"`columns` names {quoted(role)} twice; name each role once")
        columns[role] = column
    check_columns(columns)
    return columns


def check_columns(columns: Mapping[str, str]) -> None:
    """Refuse roles that do not exist or do not go together.

    Raises
    ------
    HeadtoolError
        Naming the role and what to write.
    """
    for role in columns:
        if role not in _ROLES:
            raise unknown("column role", role, _ROLES)
    if {"text", "text_a"} <= set(columns):
        raise HeadtoolError("`columns`: 'text' and 'text_a' mean the same column; give one of them")
    if "text_b" in columns and not {"text", "text_a"} & set(columns):
        raise HeadtoolError("`columns`: 'text_b' needs 'text_a' beside it")
    translation = {"source", "target"} & set(columns)
    if translation and set(columns) - {"corrupted"} != {"source", "target"}:
        raise HeadtoolError(
            f"`columns`: {listing(columns)} do not go together; "
            "translation needs source=NAME,target=NAME alone"
        )
    asked = {"prompt", "answer", "wrong", "choices"} & set(columns)
    strange = set(columns) - {"prompt", "answer", "wrong", "choices", "label", "corrupted"}
    mixed = "choices" in columns and bool({"answer", "wrong"} & set(columns))
    if asked and (strange or mixed or ("label" in columns and {"answer", "wrong"} & asked)):
        raise HeadtoolError(
            f"`columns`: {listing(columns)} do not go together; prompts have an answer (and a "
            "wrong one), or choices and a label"
        )


def text_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Pick the texts and the label out of a table.

    Columns that are not named are found by the names of headtool (``text``, ``text_a``, ``text_b``,
    ``label``) and of the GLUE tasks. A single text that is named explicitly, in a table without a
    label, makes the rows documents for a language model. Rows that the data set itself marks as
    unlabelled are left out, with a warning: class -1 of the hub, ``-`` in ``gold_label`` (SNLI and
    MultiNLI: the annotators did not agree).

    A table with columns ``prompt`` and ``answer``, or ``prompt``, ``choices`` and ``label``, is one
    for language models; one with ``source``, ``target`` and ``corrupted`` one for translation. A
    column ``corrupted`` beside any of them holds the same text with what decides changed.

    Parameters
    ----------
    table
        The table to read.
    columns
        Role to column name; see :func:`parse_columns`.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a column is missing or ambiguous, or a label cell is empty.
    """
    header, plain = set(table.header), not columns
    if {"prompt", "answer", "wrong", "choices"} & set(columns):
        return prompt_data(table, _completed(table, columns), spec)
    if plain and ({"prompt", "answer"} <= header or {"prompt", "choices", "label"} <= header):
        return prompt_data(table, _completed(table, columns), spec)
    if "source" in columns or (plain and {"source", "target", "corrupted"} <= header):
        named = _completed(table, columns)
        roles = ("source", "target", "corrupted")
        names = {role: _named(table, named[role]) for role in roles if role in named}
        return TextData(spec, "translation", _texts(table, names))
    texts = _find_texts(table, columns)
    label = _find_label(table, columns)
    if label is None:
        return TextData(spec, "text", {"text": _texts(table, texts)["text_a"]})
    texts |= _find_corrupted(table, columns, texts)
    return TextData(spec, "classification", _labelled(table, texts, label))


def _completed(table: Table, columns: Mapping[str, str]) -> dict[str, str]:
    """Role to column name, those not named found by the names of the roles."""
    return {role: role for role in _ROLES if role in table.header} | dict(columns)


def _find_corrupted(
    table: Table, columns: Mapping[str, str], texts: Mapping[str, str]
) -> dict[str, str]:
    """Columns of the corrupted texts, if there are any; of a pair one may stay as it is."""
    named = _completed(table, columns)
    found = {role: named[role] for role in ("corrupted", "corrupted_b") if role in named}
    if "corrupted_b" in found and "text_b" not in texts:
        raise HeadtoolError(
            f"{table.source} has a column {quoted(found['corrupted_b'])} but one text only; name "
            "it 'corrupted'"
        )
    if not found:
        return {}
    found.setdefault("corrupted", texts["text_a"])
    if "text_b" in texts:
        found.setdefault("corrupted_b", texts["text_b"])
    return {role: _named(table, name) for role, name in found.items()}


def _find_texts(table: Table, columns: Mapping[str, str]) -> dict[str, str]:
    first = columns.get("text", columns.get("text_a"))
    if first is not None:
        texts = {"text_a": _named(table, first)}
        if "text_b" in columns:
            texts["text_b"] = _named(table, columns["text_b"])
        return texts
    for pair in _PAIRS:
        if set(pair) <= set(table.header):
            return {"text_a": _named(table, pair[0]), "text_b": _named(table, pair[1])}
    for single in _SINGLES:
        if single in table.header:
            return {"text_a": _named(table, single)}
    raise HeadtoolError(
        f"{table.source} has no column 'text' (or 'text_a' and 'text_b'), only "
        f"{listing(table.header)}; say which it is with `columns`, like {_EXAMPLE}"
    )


def _find_label(table: Table, columns: Mapping[str, str]) -> str | None:
    if "label" in columns:
        return _named(table, columns["label"])
    for name in _LABELS:
        if name in table.header:
            return _named(table, name)
    if {"text", "text_a"} & set(columns) and "text_b" not in columns:
        return None
    raise HeadtoolError(
        f"{table.source} has no column 'label', only {listing(table.header)}; say which it is with "
        "`columns` label=NAME (documents without labels, for a language model: `columns` text=NAME)"
    )


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
    names = {role: _named(table, columns.get(role, role)) for role in needed}
    further = ("corrupted",) if choice else ("wrong", "corrupted")
    names |= {role: _named(table, columns[role]) for role in further if role in columns}
    found = _texts(table, names)
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
    cells = table.cells(_named(table, columns["choices"]), lists=True)
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
    >>> from headtool.data.columns import as_choices
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


def _named(table: Table, name: str) -> str:
    count = table.header.count(name)
    if count == 0:
        raise HeadtoolError(
            f"{table.source} has no column {quoted(name)}, only {listing(table.header)}; "
            "correct `columns`"
        )
    if count > 1:
        raise HeadtoolError(f"{table.source} has {count} columns {quoted(name)}; rename one")
    return name


def _texts(table: Table, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
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


def _labelled(table: Table, texts: Mapping[str, str], label: str) -> dict[str, tuple[str, ...]]:
    columns = _texts(table, texts)
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
    columns = {role: tuple(values[row] for row in kept) for role, values in columns.items()}
    columns["label"] = tuple(kept.values())
    return columns
