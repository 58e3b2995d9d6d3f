"""What the machine refuses: memory, room on a disk, a stream, a file. No bug, so one line."""

from __future__ import annotations

import contextlib
import errno
import os
import sys

__all__ = ["discard_output", "open_streams", "refusal"]

_MEMORY = (
    "the memory is not enough; use fewer examples (--limit) or smaller batches (--batch-tokens) "
    "where the command has them, or allow more (ulimit -v)"
)
# How libraries put it that have no error of their own for it.
_NO_MEMORY = ("allocate memory", "out of memory", "failed to map segment", "start new thread")
# What is never a bug, and what to do about it.
_REMEDIES = {
    errno.EACCES: "change its permissions, or choose another place",
    errno.EBADF: "send the output to a file, or to /dev/null",
    errno.EDQUOT: "make room, or choose another place",
    errno.EFBIG: "allow larger files (ulimit -f), or choose another place",
    errno.EIO: "check the disk",
    errno.ELOOP: "name the file itself",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ENFILE: "close other programs",
    errno.ENOSPC: "make room, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.EROFS: "choose another place",
}


def open_streams() -> bool:
    """Whether there is a standard output; without a standard error, messages go nowhere.

    The number of a stream that was closed would go to the next file that is opened.
    """
    if sys.stderr is None:
        _to_nowhere(2)
        sys.stderr = os.fdopen(2, "w", closefd=False)
    return sys.stdout is not None


def discard_output() -> None:
    """Send nowhere what is still to be written: Python's own flush at the end must not complain."""
    with contextlib.suppress(OSError):  # it is no file
        _to_nowhere(sys.stdout.fileno())


def refusal(error: BaseException) -> str | None:
    """Return what the machine refused and the remedy; None if the error is something else.

    Parameters
    ----------
    error
        What was raised.

    Examples
    --------
    >>> import errno
    >>> from headtool.cli.machine import refusal
    >>> refusal(OSError(errno.ENOSPC, "No space left on device"))
    'cannot write: No space left on device; make room, or choose another place'
    >>> refusal(OSError(errno.EACCES, "Permission denied", "model/config.json"))
    'model/config.json: Permission denied; change its permissions, or choose another place'
    >>> refusal(RuntimeError("a bug")) is None
    True
    """
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return _MEMORY
    if not isinstance(error, OSError) or error.errno not in _REMEDIES:
        return None
    place = "cannot write" if error.filename is None else error.filename
    return f"{place}: {error.strerror}; {_REMEDIES[error.errno]}"


def _to_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
