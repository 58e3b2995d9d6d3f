"""How values of a data set are shown in an error: short, quoted, on one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["first_line", "listing", "quoted"]

_WIDTH = 50
_ITEMS = 12


def quoted(value: str, width: int = _WIDTH) -> str:
    r"""Return `value` in quotes with control characters escaped, cut to `width` characters.

    Parameters
    ----------
    value
        The text.
    width
        Most characters that are shown.

    Examples
    --------
    >>> from headtool.data.messages import quoted
    >>> print(quoted("one\ttwo"), quoted("a long sentence", width=6))
    'one\ttwo' 'a long...'
    """
    return repr(value if len(value) <= width else value[:width] + "...")


def listing(values: Iterable[str]) -> str:
    """Return the distinct `values` quoted and comma-separated, the first dozen of them.

    Examples
    --------
    >>> from headtool.data.messages import listing
    >>> listing(["no", "yes", "no"])
    "'no', 'yes'"
    """
    distinct: Sequence[str] = list(dict.fromkeys(values))
    shown = ", ".join(quoted(value) for value in distinct[:_ITEMS])
    left = len(distinct) - _ITEMS
    return f"{shown} and {left} more" if left > 0 else shown


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type when it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
