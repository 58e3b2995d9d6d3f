"""Reading files that a user names: regular files only, and JSON that may be anything."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from headtool.errors import HeadtoolError

__all__ = ["parse_json", "read_file", "read_json"]


def read_file(path: Path) -> bytes:
    """Return a regular file's bytes.

    Parameters
    ----------
    path
        The file. Pipes and devices are refused: they may have no end.

    Raises
    ------
    OSError
        As `pathlib.Path.read_bytes`.
    HeadtoolError
        If there is something else than a file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer would block
    with open(handle, "rb") as file:
        kind = os.fstat(handle).st_mode
        if not stat.S_ISREG(kind):
            raise HeadtoolError(f"{str(path)!r} is no regular file; copy its content into one")
        return file.read()


def read_json(path: Path) -> Any:
    """Read a JSON file; see `parse_json`.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    FileNotFoundError
        If there is none.
    HeadtoolError
        If it cannot be read, or is not JSON.
    """
    try:
        content = read_file(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HeadtoolError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return parse_json(content, "it")
    except HeadtoolError as error:
        raise HeadtoolError(f"{path} cannot be read: {error}; restore it") from error


def parse_json(text: str | bytes, name: str, *, unique: bool = False) -> Any:
    """Parse JSON.

    Parameters
    ----------
    text
        The document.
    name
        What to call it in an error.
    unique
        Refuse objects that have a key twice, of which JSON keeps the last.

    Raises
    ------
    HeadtoolError
        If it is not UTF-8, not JSON, nested too deeply, or holds a number of thousands of digits.
    """
    hook = _once if unique else None
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(decoded, object_pairs_hook=hook)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(";")[0]
        raise HeadtoolError(f"{name} is not JSON: {reason}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its entries, each key of which may stand there once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:50]!r} is there twice")
            seen.add(key)
    return found
