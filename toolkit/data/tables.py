"""Files with named columns: TSV as GLUE writes it, CSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headtool.data.cells import image_uri
from headtool.data.messages import first_line, listing, quoted
from headtool.data.textfile import quoted_path, read_bytes, read_lines, read_text
from headtool.errors import HeadtoolError
from headtool.reading import parse_json

__all__ = ["TABLE_READERS", "Table", "as_cells"]


class Cells(Protocol):
    """Reads one column of a table."""

    def __call__(self, name: str, *, lists: bool = False) -> list[str | None]:
        """Return a column as strings.

        Parameters
        ----------
        name
            Name of the column, one of the header's.
        lists
            Whether lists and objects are allowed, which become JSON, and encoded images, which
            become data URIs.
        """
        ...


@dataclass(frozen=True)
class Table:
    """Give access to the columns of a file, with the place of every row for error messages.

    Parameters
    ----------
    source
        The file or hub name as it appears in messages.
    header
        Names of the columns that are there.
    cells
        Returns one column as strings; None stands for a label that the data set itself declares
        absent.
    place
        Returns where a row (counted from zero) stands, such as ``'dev.tsv', line 7``.
    values
        Returns one column as it is, also arrays; None where the table is a file.
    """

    source: str
    header: tuple[str, ...]
    cells: Cells
    place: Callable[[int], str]
    values: Callable[[str], Iterable[object]] | None = None


def read_tsv(path: Path) -> Table:
    """Read tab-separated values in the GLUE convention: a header, no quoting, no escaping.

    A double quote is a character like any other. Blank lines at the end are ignored.

    Raises
    ------
    HeadtoolError
        If the file cannot be read, has no rows, or a row has another number of columns.
    """
    lines = read_lines(path)
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    numbered = enumerate((line.split("\t") for line in lines), start=1)
    return _from_rows(path, list(numbered), separator="tab")


def read_csv(path: Path) -> Table:
    """Read comma-separated values by the rules of the csv module, quoted line breaks included.

    The module's strict mode is on: it reports a quote that never closes, which would otherwise
    swallow the rest of the file. Blank lines are ignored, as :class:`csv.DictReader` does.

    Raises
    ------
    HeadtoolError
        If the file cannot be read or parsed, has no rows, or a row has another number of columns.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    line = 1
    try:
        for row in reader:
            if row:
                rows.append((line, row))
            line = reader.line_num + 1
    except csv.Error as error:
        raise HeadtoolError(
            f"{quoted_path(path)}, line {line}: not valid CSV ({error}); quote the field and "
            "double the quotes inside it, or save the file as .tsv or .jsonl"
        ) from None
    return _from_rows(path, rows, separator="comma")


def _from_rows(path: Path, rows: Sequence[tuple[int, list[str]]], *, separator: str) -> Table:
    if len(rows) < 2:
        raise HeadtoolError(f"{quoted_path(path)} has no rows below its header; add examples there")
    header = tuple(name.strip() for name in rows[0][1])
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise HeadtoolError(
                f"{quoted_path(path)}, line {line}: expected {len(header)} columns as in the "
                f"header, found {len(row)}; check the {separator}s of that line"
            )

    def cells(name: str, *, lists: bool = False) -> list[str | None]:
        index = header.index(name)
        return [row[index] for _, row in rows[1:]]

    return Table(
        source=quoted_path(path),
        header=header,
        cells=cells,
        place=lambda index: f"{quoted_path(path)}, line {rows[index + 1][0]}",
    )


def read_jsonl(path: Path) -> Table:
    """Read JSON lines: one object per line, its keys the columns; blank lines are ignored.

    The first object's keys are the header; other keys may come and go.

    Raises
    ------
    HeadtoolError
        If the file cannot be read, a line is not an object, or a needed key is missing on a line.
    """
    rows: list[tuple[int, dict[str, object]]] = []
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            # The position that json itself reports counts lines within this one.
            column = f", column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            reason = error.msg if isinstance(error, json.JSONDecodeError) else first_line(error)
            raise HeadtoolError(
                f"{quoted_path(path)}, line {line}{column}: not valid JSON ({reason}); "
                "write one object per line"
            ) from None
        if not isinstance(row, dict):
            raise HeadtoolError(
                f"{quoted_path(path)}, line {line}: not a JSON object but {quoted(text.strip())}; "
                'write one object per line, such as {"text": "...", "label": "..."}'
            )
        rows.append((line, row))
    if not rows:
        raise HeadtoolError(f"{quoted_path(path)} has no rows; write one JSON object per line")

    def place(index: int) -> str:
        return f"{quoted_path(path)}, line {rows[index][0]}"

    def cells(name: str, *, lists: bool = False) -> list[str | None]:
        for index, (_, row) in enumerate(rows):
            if name not in row:
                raise HeadtoolError(
                    f"{place(index)}: no key {quoted(name)} (it has {listing(row)}); "
                    "every line needs it"
                )
        return as_cells((row[name] for _, row in rows), name, place, lists=lists)

    return Table(source=quoted_path(path), header=tuple(rows[0][1]), cells=cells, place=place)


def read_parquet(path: Path) -> Table:
    """Read a Parquet file; label names that the `datasets` library stored in it are used.

    Raises
    ------
    HeadtoolError
        If the file cannot be read, is not Parquet, is damaged, or has no rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    damaged = f"{quoted_path(path)} is not a readable Parquet file; write or download it again"
    try:
        file = pq.ParquetFile(io.BytesIO(read_bytes(path)))
    except (pa.ArrowException, OSError) as error:
        raise HeadtoolError(f"{damaged} ({first_line(error)})") from None
    if file.metadata.num_rows == 0:
        raise HeadtoolError(f"{quoted_path(path)} has no rows; give a file with examples")
    label_names = _stored_label_names(path, file.schema_arrow.metadata or {})

    def place(index: int) -> str:
        return f"{quoted_path(path)}, row {index + 1}"

    def cells(name: str, *, lists: bool = False) -> list[str | None]:
        try:
            values = file.read(columns=[name]).column(name).to_pylist()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise HeadtoolError(f"{damaged} ({first_line(error)})") from None
        return as_cells(values, name, place, label_names=label_names.get(name), lists=lists)

    return Table(
        source=quoted_path(path), header=tuple(file.schema_arrow.names), cells=cells, place=place
    )


def _stored_label_names(path: Path, metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return column -> label names from the features that `datasets` writes into Parquet files."""
    if b"huggingface" not in metadata:
        return {}
    place = f"the metadata 'huggingface' of {quoted_path(path)}"
    found: Any = parse_json(metadata[b"huggingface"], place)
    for name in ("info", "features"):
        found = found.get(name, {}) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise HeadtoolError(f"{place} describes no features; write the file again, or save as .csv")
    label_names: dict[str, list[str]] = {}
    for column, feature in found.items():
        inside = feature
        while isinstance(inside, dict) and isinstance(inside.get("feature"), dict):
            inside = inside["feature"]  # of a list
        if isinstance(inside, list) and len(inside) == 1:
            inside = inside[0]
        if not isinstance(inside, dict) or inside.get("_type") != "ClassLabel":
            continue
        names = inside.get("names")
        if not isinstance(names, list) or not all(
            isinstance(name, str) and _encodable(name) for name in names
        ):
            raise HeadtoolError(
                f"{place} gives no names for the classes of {quoted(column)}; write the file "
                "again, or save as .csv"
            )
        label_names[column] = names
    return label_names


def as_cells(
    values: Iterable[object],
    column: str,
    place: Callable[[int], str],
    *,
    label_names: Sequence[str] | None = None,
    lists: bool = False,
) -> list[str | None]:
    """Turn typed values into strings, and class numbers into their names.

    Parameters
    ----------
    values
        Strings or numbers.
    column
        Name for messages.
    place
        Returns where a row stands, for messages.
    label_names
        If given, the values are numbers that index these names, -1 meaning "no label".
    lists
        Whether values may also be lists, objects or encoded images; see `Cells`.

    Returns
    -------
    list
        Strings; None for rows without a label.

    Raises
    ------
    HeadtoolError
        If a value is none of these, or text that UTF-8 cannot encode.
    """
    cells: list[str | None] = []
    for index, value in enumerate(values):
        if label_names is not None and isinstance(value, int):
            if not -1 <= value < len(label_names):
                raise HeadtoolError(
                    f"{place(index)}: class {value} in column {quoted(column)}, which declares "
                    f"{len(label_names)} classes; correct it"
                )
            cells.append(None if value == -1 else label_names[value])
        elif isinstance(value, str):
            if not _encodable(value):
                raise HeadtoolError(
                    f"{place(index)}: column {quoted(column)} holds half of a surrogate pair; "
                    "write the whole character"
                )
            cells.append(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            cells.append(str(value))
        elif (
            lists
            and isinstance(value, list)
            and value
            and all(isinstance(part, dict) for part in value)
        ):
            cells.append(_as_json(value, column, place(index)))
        elif lists and isinstance(value, list):

            def here(_: int, row: int = index) -> str:
                return place(row)

            inside = as_cells(value, column, here, label_names=label_names)
            cells.append(json.dumps(inside, ensure_ascii=False))
        elif lists and (encoded := _encoded(value)) is not None:
            cells.append(image_uri(encoded))
        elif lists and isinstance(value, dict):
            cells.append(_as_json(value, column, place(index)))
        else:
            shown = "null" if value is None else type(value).__name__
            raise HeadtoolError(
                f"{place(index)}: column {quoted(column)} holds {shown}; "
                "give a string or a number there"
            )
    return cells


def _encoded(value: object) -> bytes | None:
    """The content of an image, as it is or as `datasets` stores it; None if it is none."""
    if isinstance(value, dict) and set(value) <= {"bytes", "path"}:
        value = value.get("bytes")
    return value if isinstance(value, bytes) else None


def _as_json(value: object, column: str, place: str) -> str:
    """Write a list or an object as JSON."""
    try:
        written = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        written = None
    if written is None or not _encodable(written):
        raise HeadtoolError(
            f"{place}: column {quoted(column)} holds what JSON cannot; give text, numbers and lists"
        )
    return written


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


TABLE_READERS: dict[str, Callable[[Path], Table]] = {
    ".tsv": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
}
