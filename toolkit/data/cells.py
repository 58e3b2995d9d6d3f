"""Cells that are no text: images and arrays of numbers as data URIs, images also as paths."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headtool.data.textfile import quoted_path, read_bytes
from headtool.errors import HeadtoolError

__all__ = ["array_of", "array_uri", "image_bytes", "image_uri", "rate_of"]

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


def array_uri(array: NDArray[np.float32], rate: int | None = None) -> str:
    """Write an array of numbers as text.

    Parameters
    ----------
    array
        The numbers, of any shape.
    rate
        Of sound, how many samples a second has; None where that is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.data.cells import array_of, array_uri, rate_of
    >>> cell = array_uri(np.array([[0.5, 2.0]], np.float32), 16000)
    >>> array_of(cell), rate_of(cell)
    (array([[0.5, 2. ]], dtype=float32), 16000)
    """
    shape = "x".join(map(str, array.shape))
    content = base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode("ascii")
    return f"data:;shape={shape};rate={rate or ''};base64,{content}"


def array_of(cell: str) -> NDArray[np.float32]:
    """Return the array that `array_uri` wrote.

    Parameters
    ----------
    cell
        What it wrote.
    """
    head, _, content = cell.partition(",")
    shape = [int(size) for size in head.split(";")[1].removeprefix("shape=").split("x")]
    return np.frombuffer(base64.b64decode(content), "<f4").reshape(shape)


def rate_of(cell: str) -> int | None:
    """Return the sampling rate that `array_uri` was given.

    Parameters
    ----------
    cell
        What it wrote.
    """
    return int(cell.partition(",")[0].split(";")[2].removeprefix("rate=") or 0) or None
