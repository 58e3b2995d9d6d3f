"""Read scores made elsewhere, whatever their format."""

from __future__ import annotations

import os
from pathlib import Path

from headtool.errors import HeadtoolError, unknown
from headtool.exchange.documents import form_of, read_document
from headtool.exchange.foreign import Foreign
from headtool.exchange.tables import is_numeric, read_csv, read_duo
from headtool.reading import parse_json, read_file

__all__ = ["FORMATS", "read_foreign"]

FORMATS = ("csv", "json", "retrieval", "mib", "duo", "hf")
"""Formats of scores: a table, rows or keys, repeats by key, a graph, groups, heads that go."""

_MOST_BYTES = 2**29


def read_foreign(path: Path, *, format: str | None = None, method: str | None = None) -> Foreign:
    """Read a file of scores.

    Parameters
    ----------
    path
        The file.
    format
        One of `FORMATS`; None to tell it from the content.
    method
        Whose scores, where the file has those of several methods.

    Raises
    ------
    HeadtoolError
        If there is no such file, or it holds no scores of this format; names the place in it.
    """
    if format is not None and format not in FORMATS:
        raise unknown("format", format, FORMATS)
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise HeadtoolError(
                f"{path} has more than {_MOST_BYTES >> 20} MiB; keep the heads only"
            )
        text = read_file(path).decode("utf-8-sig")
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise HeadtoolError(f"{path} is no text: {error.reason}") from error
        raise HeadtoolError(f"no such file: {path}; check the path") from error
    except OSError as error:
        raise HeadtoolError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return _read(text, format, method)
    except HeadtoolError as error:
        raise HeadtoolError(f"{path}: {error}") from error


def _read(text: str, format: str | None, method: str | None) -> Foreign:
    start = text.lstrip()
    is_json = start[:1] in ("{", "[")
    if is_json and format in (None, "json", "retrieval", "mib", "hf"):
        document = parse_json(text, "it", unique=True)
        return read_document(document, format or form_of(document), method)
    if format is None:
        format = "duo" if is_numeric(start.split("\n", 1)[0]) else "csv"
    if format == "csv":
        return read_csv(text, method)
    if format == "duo":
        return read_duo(text)
    raise HeadtoolError(f"it is no JSON, which the format {format} is")
