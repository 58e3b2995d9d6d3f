"""Questions whose answers are spans of a text: SQuAD's JSON, and tables in the hub's form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headtool.data.dataset import TextData
from headtool.data.messages import quoted
from headtool.data.picking import named_column, text_columns
from headtool.data.tables import Table
from headtool.data.textfile import quoted_path, read_bytes
from headtool.errors import HeadtoolError
from headtool.reading import parse_json

__all__ = ["question_data", "read_squad"]

_FORM = (
    '{"data": [{"paragraphs": [{"context": "...", "qas": [{"question": "...", "answers": []}]}]}]}'
)


def read_squad(path: Path) -> Table:
    """Read a JSON file of the Stanford Question Answering Dataset, version 1.1 or 2.0.

    Raises
    ------
    HeadtoolError
        If the file cannot be read, or is not of that form.
    """
    found = parse_json(read_bytes(path), quoted_path(path))
    rows = list(_rows(found, quoted_path(path)))
    if not rows:
        raise HeadtoolError(f"{quoted_path(path)} has no questions; give a file that has some")
    header = ("question", "context", "answers")

    def cells(name: str, *, lists: bool = False) -> list[str | None]:
        return [row[header.index(name)] for row in rows]

    return Table(
        source=quoted_path(path),
        header=header,
        cells=cells,
        place=lambda row: f"{quoted_path(path)}, question {row + 1}",
    )


def _rows(found: Any, source: str) -> Iterator[tuple[str, str, str]]:
    for article in _list(found, "data", source):
        for paragraph in _list(article, "paragraphs", source):
            context = _text(paragraph, "context", source)
            for asked in _list(paragraph, "qas", source):
                answers = _list(asked, "answers", source)
                yield _text(asked, "question", source), context, json.dumps(answers)


def _list(holder: Any, name: str, source: str) -> list[Any]:
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, list):
        raise _other_form(source, name, "list")
    return value


def _text(holder: Any, name: str, source: str) -> str:
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, str):
        raise _other_form(source, name, "text")
    return value


def _other_form(source: str, name: str, what: str) -> HeadtoolError:
    return HeadtoolError(
        f"{source} is not in SQuAD's form: {name!r} is missing or no {what}; write {_FORM}, or one "
        "object per line in a .jsonl file"
    )


def question_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Pick questions, contexts and answers out of a table.

    Parameters
    ----------
    table
        The table to read.
    columns
        Role to column name: ``question``, ``context`` and ``answers``. A cell of the last is a
        list of objects with ``text`` and ``answer_start``, or an object with a list of each.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a column is missing, or an answer does not stand in its context where it says.
    """
    names = {role: named_column(table, columns.get(role, role)) for role in ("question", "context")}
    found = text_columns(table, names)
    answers = []
    for row, cell in enumerate(_answers(table, columns)):
        spans = _spans(cell)
        if spans is None:
            raise HeadtoolError(
                f"{table.place(row)}: {quoted(cell)} is no list of answers; write one like "
                '[{"text": "Ada", "answer_start": 7}]'
            )
        context = found["context"][row]
        for text, start in spans:
            if not text or start < 0 or context[start : start + len(text)] != text:
                raise HeadtoolError(
                    f"{table.place(row)}: the answer {quoted(text)} does not stand at character "
                    f"{start} of the context; correct answer_start"
                )
        answers.append(json.dumps(spans, ensure_ascii=False))
    found["answers"] = tuple(answers)
    if any(cell == "[]" for cell in answers):
        found["answerable"] = tuple("no" if cell == "[]" else "yes" for cell in answers)
    return TextData(spec, "questions", found)


def _answers(table: Table, columns: Mapping[str, str]) -> list[str]:
    """Cells of the answers; the hub's tables have their two parts side by side."""
    name = columns.get("answers", "answers").removesuffix(".text")
    parts = [f"{name}.text", f"{name}.answer_start"]
    if name in table.header or not set(parts) <= set(table.header):
        return [cell or "" for cell in table.cells(named_column(table, name), lists=True)]
    texts, starts = (table.cells(part, lists=True) for part in parts)
    return [
        f'{{"text": {text}, "answer_start": {start}}}'
        for text, start in zip(texts, starts, strict=True)
    ]


def _spans(cell: str) -> list[tuple[str, int]] | None:
    """Read answers as pairs of text and first character; None if they are none."""
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        texts, starts = found.get("text"), found.get("answer_start")
    elif isinstance(found, list) and all(isinstance(answer, dict) for answer in found):
        texts = [answer.get("text") for answer in found]
        starts = [answer.get("answer_start") for answer in found]
    else:
        return None
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        return None
    numbers = [_number(start) for start in starts]
    if not all(isinstance(text, str) for text in texts) or None in numbers:
        return None
    return list(zip(texts, numbers, strict=True))  # type: ignore[arg-type]


def _number(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() else None
