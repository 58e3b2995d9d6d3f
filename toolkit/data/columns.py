"""Which columns of a table are the texts and the label."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from headtool.data.dataset import TextData
from headtool.data.messages import listing, quoted
from headtool.data.tables import Table
from headtool.errors import HeadtoolError, unknown

__all__ = ["check_columns", "parse_columns", "text_data"]

_LOGGER = logging.getLogger("headtool.data")

_ROLES = ("text", "text_a", "text_b", "label", "source", "target")
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

    Roles are ``text`` or ``text_a`` (the same thing), ``text_b``, ``label``, and for translation
    ``source`` and ``target``.

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
    if translation and set(columns) != {"source", "target"}:
        raise HeadtoolError(
            f"`columns`: {listing(columns)} do not go together; "
            "translation needs source=NAME,target=NAME alone"
        )


def text_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Pick the texts and the label out of a table.

    Columns that are not named are found by the names of headtool (``text``, ``text_a``, ``text_b``,
    ``label``) and of the GLUE tasks. A single text that is named explicitly, in a table without a
    label, makes the rows documents for a language model. Rows that the data set itself marks as
    unlabelled are left out, with a warning: class -1 of the hub, ``-`` in ``gold_label`` (SNLI and
    MultiNLI: the annotators did not agree).

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
    if "source" in columns:
        names = {role: _named(table, columns[role]) for role in ("source", "target")}
        return TextData(spec, "translation", _texts(table, names))
    texts = _find_texts(table, columns)
    label = _find_label(table, columns)
    if label is None:
        return TextData(spec, "text", {"text": _texts(table, texts)["text_a"]})
    return TextData(spec, "classification", _labelled(table, texts, label))


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
