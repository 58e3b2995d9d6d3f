"""Cells that are no text: lists and objects as JSON, images as data URIs or paths."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

from headtool.data.textfile import quoted_path, read_bytes
from headtool.errors import HeadtoolError

__all__ = ["image_bytes", "image_uri"]

_SCHEME = "data:;base64,"
_MOST_BYTES = 64 * 2**20


def image_uri(content: bytes) -> str:
    """Write an encoded image as text.

    Parameters
    ----------
    content
        The content of an image file.
    """
    return _SCHEME + base64.b64encode(content).decode("ascii")


def image_bytes(cell: str) -> bytes:
    """Return the content of an image file.

    Parameters
    ----------
    cell
        What `image_uri` wrote, or a path.

    Raises
    ------
    HeadtoolError
        If the file cannot be read, is no ordinary one or is larger than 64 MB.
    """
    if cell.startswith(_SCHEME):
        return base64.b64decode(cell.removeprefix(_SCHEME))
    path = Path(cell)
    try:
        found = os.stat(path)
    except OSError as error:
        raise HeadtoolError(f"cannot read {quoted_path(path)}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise HeadtoolError(f"{quoted_path(path)} is no ordinary file; remove it")
    if found.st_size > _MOST_BYTES:
        raise HeadtoolError(
            f"{quoted_path(path)} has {found.st_size / 2**20:.0f} MB, and an image may have "
            f"{_MOST_BYTES // 2**20}; make it smaller"
        )
    return read_bytes(path)
