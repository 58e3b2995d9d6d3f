"""The one exception that a user of headtool can do something about."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["HeadtoolError", "StorageError", "nearest", "unknown"]


_SHOWN = 100  # characters of a name


class HeadtoolError(Exception):
    """Raised for what the user can fix: one line that names the value and the remedy.

    The command line prints it without a traceback and exits with code 2. Everything else that is
    raised is a bug and keeps its traceback.
    """


class StorageError(HeadtoolError):
    """Raised where finished work cannot be kept or read again.

    It ends the whole command: where the disk is full, no method is to blame.
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest of `known`, or an empty string.

    Parameters
    ----------
    name
        What was given.
    known
        The names that exist.

    Examples
    --------
    >>> from headtool.errors import nearest
    >>> nearest("gradiant", ["ablation", "gradient"])
    "; did you mean 'gradient'?"
    >>> nearest("zzz", ["ablation", "gradient"])
    ''
    """
    folded = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.65)
    if not close and name.strip("-"):  # perhaps it is cut short
        close = [candidate for candidate in folded if candidate.startswith(name.lower())]
    return f"; did you mean '{folded[close[0]]}'?" if close else ""


def unknown(what: str, name: str, known: Iterable[str]) -> HeadtoolError:
    """Build the error for a name that does not exist, with the nearest one and all of them.

    Parameters
    ----------
    what
        The kind of thing, such as ``method``.
    name
        What was given.
    known
        The names that exist.

    Examples
    --------
    >>> from headtool.errors import unknown
    >>> print(unknown("method", "gradiant", ["ablation", "gradient"]))
    unknown method 'gradiant'; did you mean 'gradient'? (known: ablation, gradient)
    """
    names = sorted(known)
    listing = ", ".join(names) if names else "none"
    shown = repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")
    return HeadtoolError(f"unknown {what} {shown}{nearest(name, names)} (known: {listing})")
