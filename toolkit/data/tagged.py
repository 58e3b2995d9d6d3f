"""Sentences with a tag for every token: columns as CoNLL writes them, and tables of lists."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from headtool.data.dataset import TextData
from headtool.data.messages import quoted
from headtool.data.picking import named_column
from headtool.data.tables import Table
from headtool.data.textfile import quoted_path, read_lines
from headtool.errors import HeadtoolError

__all__ = ["read_conll", "tagged_data"]

_BOUNDARY = "-DOCSTART-"


def read_conll(path: Path) -> Table:
    """Read columns as the CoNLL shared tasks write them: a token a line, a blank line in between.

    Columns are separated by tabs, or by white space in a file without any. The first is called
    ``tokens``, the last ``tags``, and those between them ``column2`` and on. Lines that say where a
    document starts, and comments (``#``) before a sentence, are left out.

    Raises
    ------
    HeadtoolError
        If the file cannot be read, has no sentences, or a line has another number of columns.
    """
    lines = read_lines(path)
    separator = "\t" if any("\t" in line for line in lines) else None
    sentences: list[tuple[int, list[list[str]]]] = []
    width, inside = _width(lines, separator), False
    for number, line in enumerate(lines, start=1):
        fields = [field.strip() for field in line.strip().split(separator)]
        if not line.strip() or fields[0] == _BOUNDARY:
            inside = False
            continue
        if not inside and line.startswith("#") and len(fields) != width:
            continue
        if len(fields) != width or width < 2:
            wanted = "two or more" if width < 2 else f"{width}, as above"
            raise HeadtoolError(
                f"{quoted_path(path)}, line {number}: expected {wanted} columns (token, ..., tag), "
                f"found {len(fields)}; correct that line"
            )
        if not inside:
            sentences.append((number, []))
        sentences[-1][1].append(fields)
        inside = True
    if not sentences:
        raise HeadtoolError(
            f"{quoted_path(path)} has no sentences; write a line for each token and its tag"
        )
    header = ("tokens", *(f"column{place}" for place in range(2, width)), "tags")

    def cells(name: str, *, lists: bool = False) -> list[str | None]:
        place = header.index(name)
        return [_written([fields[place] for fields in tokens]) for _, tokens in sentences]

    return Table(
        source=quoted_path(path),
        header=header,
        cells=cells,
        place=lambda row: f"{quoted_path(path)}, sentence from line {sentences[row][0]}",
    )


def _width(lines: Sequence[str], separator: str | None) -> int:
    """How many columns the first line has that is no comment."""
    for line in lines:
        fields = line.strip().split(separator)
        if line.strip() and not line.startswith("#") and fields[0] != _BOUNDARY:
            return len(fields)
    return 0


def tagged_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Pick sentences of tokens and their tags out of a table.

    Parameters
    ----------
    table
        The table to read.
    columns
        Role to column name: ``tokens`` and ``tags``.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a column is missing, or tokens and tags are no lists of one length.
    """
    names = {role: named_column(table, columns.get(role, role)) for role in ("tokens", "tags")}
    cells = {role: table.cells(name, lists=True) for role, name in names.items()}
    kept: dict[str, list[str]] = {"tokens": [], "tags": []}
    for row, (tokens, tags) in enumerate(zip(cells["tokens"], cells["tags"], strict=True)):
        found = []
        for name, cell in zip(names.values(), (tokens, tags), strict=True):
            words = _listed(cell or "")
            if words is None:
                raise HeadtoolError(
                    f"{table.place(row)}: {quoted(cell or '')} in column {quoted(name)} is no list "
                    'of tokens or tags; write one like ["Ada", "slept"]'
                )
            found.append(words)
        if len(found[0]) != len(found[1]):
            raise HeadtoolError(
                f"{table.place(row)}: {len(found[0])} tokens and {len(found[1])} tags; every token "
                "needs one tag"
            )
        if found[0]:
            kept["tokens"].append(_written(found[0]))
            kept["tags"].append(_written(found[1]))
    if not kept["tokens"]:
        raise HeadtoolError(f"{table.source} has no tokens; give sentences with tags")
    return TextData(spec, "tokens", {role: tuple(values) for role, values in kept.items()})


def _written(words: Sequence[str]) -> str:
    return json.dumps(words, ensure_ascii=False)


def _listed(cell: str) -> list[str] | None:
    """Read a JSON list of strings; None if it is none."""
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        return None
    return found
