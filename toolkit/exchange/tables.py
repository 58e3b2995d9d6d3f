"""Tables of scores: CSV with a row for each head, and DuoAttention's TSV of key/value groups."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

from headtool.errors import HeadtoolError
from headtool.exchange.foreign import (
    MOST_HEADS,
    Foreign,
    Row,
    plain_head,
    read_index,
    read_number,
    shown,
)
from headtool.heads import KINDS, Kind

__all__ = ["chosen_rows", "is_numeric", "read_csv", "read_duo", "row_of_record"]

_DELIMITERS = ("\t", ";", ",")


def read_csv(text: str, method: str | None) -> Foreign:
    """Read a table with the columns ``layer``, ``head`` and ``score``.

    ``kind``, ``stderr`` and ``method`` are read too, and all others passed over. Without ``layer``,
    ``head`` is a name such as ``L5H1``. Tabs, semicolons or commas divide the columns.

    Parameters
    ----------
    text
        The file.
    method
        Whose scores, where there are those of several methods.

    Raises
    ------
    HeadtoolError
        Naming the line.
    """
    head = text.lstrip("\ufeff").split("\n", 1)[0]
    delimiter = next((one for one in _DELIMITERS if one in head), ",")
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=delimiter)
    records: list[tuple[Mapping[str, str], str]] = []
    names: list[str] | None = None
    try:
        for cells in reader:
            if not any(map(str.strip, cells)):
                continue
            if names is None:
                names = _header(cells)
                continue
            place = f"line {reader.line_num}"
            if len(cells) != len(names):
                raise HeadtoolError(
                    f"{place} has {len(cells)} columns, and the header has {len(names)}"
                )
            records.append((dict(zip(names, cells, strict=True)), place))
            if len(records) > 100 * MOST_HEADS:
                raise HeadtoolError(f"{place}: there is no end of heads")
    except csv.Error as error:
        raise HeadtoolError(f"line {reader.line_num}: {error}") from error
    return Foreign("csv", tuple(row_of_record(*one) for one in chosen_rows(records, method)))


def _header(cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    for name in ("head", "score"):
        if name not in names:
            raise HeadtoolError(
                f"line 1: there is no column '{name}' (the columns: {shown(', '.join(cells))})"
            )
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise HeadtoolError(f"line 1: two columns are called {shown(twice)}")
    return names


def chosen_rows(
    records: Sequence[tuple[Mapping[str, object], str]], method: str | None
) -> list[tuple[Mapping[str, object], str]]:
    """Return the rows of one method, and the place of each.

    Parameters
    ----------
    records
        All rows, with their places.
    method
        The method; None where there is one only.

    Raises
    ------
    HeadtoolError
        If there are several methods, or none of that name.
    """
    kept = list(records)
    names = list(dict.fromkeys(str(row.get("method", "")) for row, _ in kept))
    if method is None:
        if len(names) > 1:
            known = shown(", ".join(names))
            raise HeadtoolError(f"it has scores of several methods ({known}); give `method`")
        return kept
    if method not in names:
        raise HeadtoolError(
            f"it has no scores of the method {shown(method)} (it has: {shown(', '.join(names))})"
        )
    return [(row, place) for row, place in kept if str(row.get("method", "")) == method]


def row_of_record(record: Mapping[str, object], place: str) -> Row:
    """Read a row with named columns.

    Parameters
    ----------
    record
        ``head``, ``score``, and where given ``layer``, ``kind`` and ``stderr``.
    place
        Where it stands, for messages.

    Raises
    ------
    HeadtoolError
        If one of them is missing or no head, number or kind.
    """
    for name in ("head", "score"):
        if name not in record:
            raise HeadtoolError(f"{place} has no '{name}'")
    kind = _kind(record.get("kind"), place)
    if "layer" in record:
        layer = read_index(record["layer"], "layer", place)
        head = read_index(record["head"], "head", place)
    else:
        named, layer, head = plain_head(str(record["head"]), place)
        kind = kind or named
    score = read_number(record["score"], place)
    error = record.get("stderr")
    stderr = math.nan if error is None or str(error).strip().lower() in ("", "nan") else None
    if stderr is None:
        stderr = read_number(error, f"{place}, stderr")
        if stderr < 0:
            raise HeadtoolError(f"{place}: the standard error {shown(error)} is below 0")
    return Row(kind, layer, head, score, stderr, place=place)


def _kind(value: object, place: str) -> Kind | None:
    if value is None or value == "":
        return None
    for kind in KINDS:
        if value == kind:
            return kind
    raise HeadtoolError(f"{place}: the kind {shown(value)} is none of {', '.join(KINDS)}")


def is_numeric(line: str) -> bool:
    """Whether a line holds numbers only, separated by white space or commas."""
    cells = line.replace(",", " ").split()
    try:
        return bool([float(cell) for cell in cells])
    except ValueError:
        return False


def read_duo(text: str) -> Foreign:
    """Read DuoAttention's ``full_attention_heads.tsv``: a row a layer, a column a key/value group.

    Parameters
    ----------
    text
        The file.

    Raises
    ------
    HeadtoolError
        Naming the line.

    References
    ----------
    Xiao et al. (2024), DuoAttention; ``attn_patterns/`` of ``mit-han-lab/duo-attention``.
    """
    rows: list[Row] = []
    width: int | None = None
    layer = 0
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        cells = line.replace(",", " ").split()
        if not cells:
            continue
        if width not in (None, len(cells)):
            raise HeadtoolError(f"line {number} has {len(cells)} columns, and those before {width}")
        width = len(cells)
        if len(rows) + width > MOST_HEADS:
            raise HeadtoolError(f"line {number}: more than {MOST_HEADS:,} heads")
        rows += [
            Row(
                None,
                layer,
                group,
                read_number(cell, f"line {number}, column {group + 1}"),
                place=f"line {number}, column {group + 1}",
            )
            for group, cell in enumerate(cells)
        ]
        layer += 1
    return Foreign("duo", tuple(rows), None if width is None else (layer, width))
