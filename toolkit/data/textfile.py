"""Reading text files: UTF-8 checked by line, with a byte-order mark or CRLF tolerated."""

from __future__ import annotations

import os
from pathlib import Path

from headtool.errors import HeadtoolError
from headtool.reading import read_file

__all__ = ["quoted_path", "read_bytes", "read_lines", "read_text", "user_path"]


def user_path(text: str) -> Path:
    """Return the path that `text` writes, a leading ``~`` expanded."""
    return Path(os.path.expanduser(text))


def quoted_path(path: Path) -> str:
    """Return the path in quotes, escaped so that it stays on one line."""
    return repr(str(path))


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises
    ------
    HeadtoolError
        If the path is missing, a folder, unreadable or empty.
    """
    try:
        content = read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        raise HeadtoolError(f"no such file: {quoted_path(path)}; check the path") from None
    except IsADirectoryError:
        raise HeadtoolError(f"{quoted_path(path)} is a folder; name one file in it") from None
    except (OSError, ValueError) as error:  # a name that no file can have
        reason = error.strerror if isinstance(error, OSError) else error
        raise HeadtoolError(f"cannot read {quoted_path(path)}: {reason}") from None
    if not content:
        raise HeadtoolError(f"{quoted_path(path)} is empty; give a file with at least one example")
    return content


def read_text(path: Path) -> str:
    """Return a file's text without byte-order mark; line endings are left as they are.

    Raises
    ------
    HeadtoolError
        If the file cannot be read, is empty, holds NUL bytes or is not UTF-8 (naming the line).
    """
    content = read_bytes(path)
    nul = content.find(b"\0")
    if nul >= 0:
        line = content.count(b"\n", 0, nul) + 1
        raise HeadtoolError(
            f"{quoted_path(path)}, line {line}: a NUL byte; this is a binary or UTF-16 file, "
            "save it as UTF-8 text"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind the byte-order mark.
        undecoded: bytes = error.object
        line = undecoded.count(b"\n", 0, error.start) + 1
        raise HeadtoolError(
            f"{quoted_path(path)}, line {line}: byte 0x{undecoded[error.start]:02x} is not UTF-8; "
            "convert the file to UTF-8 (iconv -f ... -t utf-8)"
        ) from None
    if not text:
        raise HeadtoolError(f"{quoted_path(path)} is empty; give a file with at least one example")
    return text


def read_lines(path: Path) -> list[str]:
    """Return a file's lines; blank ones are kept, so that line-aligned files stay aligned.

    A line ends at a line feed, with or without a carriage return before it. The other characters
    that :meth:`str.splitlines` splits at (form feeds, U+2028) occur inside real sentences.

    Raises
    ------
    HeadtoolError
        As :func:`read_text`.
    """
    lines = read_text(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
