"""Levels of tests and intervals, checked in one place."""

from __future__ import annotations

from headtool.errors import HeadtoolError

__all__ = ["check_level"]

_LEAST = 1e-6  # p-values from resamples take a multiple of 1/alpha of them


def check_level(value: float, name: str = "alpha") -> float:
    """Return a level of tests, or refuse it.

    Parameters
    ----------
    value
        The level.
    name
        What the caller's argument is called.

    Raises
    ------
    HeadtoolError
        If it is not between 0 and 1, or so small that no number of resamples reaches it.

    Examples
    --------
    >>> from headtool.analysis.levels import check_level
    >>> check_level(0.05)
    0.05
    """
    if not 0 < value < 1:
        raise HeadtoolError(f"`{name}` must be between 0 and 1, got {value:g}")
    if value < _LEAST:
        raise HeadtoolError(
            f"`{name}` must be at least {_LEAST:g}, got {value:g}: p-values that small take "
            "millions of resamples"
        )
    return value
