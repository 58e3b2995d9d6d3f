"""What methods get wrong on models whose truth is known, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headtool.reports.wording.words import listed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "found_by", "mistakes", "variant_name"]

KINDS = {
    "necessary": "necessary heads no higher than idle ones",
    "interchangeable": "both interchangeable heads no higher than idle ones",
    "harmful": "the harmful head above heads that are needed",
    "constant": "the constant head above necessary ones",
}
"""By kind of head, the mistake that a method makes with it."""

_RIGHT = 0.8
"""Share of pairs in the right order from which on a method is right about a kind of head."""


def mistakes(row: Mapping[Any, Any] | pd.Series[Any]) -> list[str]:
    """Return the kinds of heads that a method gets wrong.

    Parameters
    ----------
    row
        A row of ``validation``.
    """
    return [kind for kind in KINDS if row[kind] < _RIGHT]


def variant_name(row: Mapping[Any, Any] | pd.Series[Any]) -> str:
    """Return a method with its options, as tables write it.

    Parameters
    ----------
    row
        A row of ``validation``.
    """
    return f"{row['method']} {row['variant']}".strip()


def found_by(frame: pd.DataFrame) -> str:
    """Say which methods get all kinds of heads right.

    Parameters
    ----------
    frame
        Rows of ``validation``.
    """
    rows = [row for _, row in frame.iterrows()]
    right = [variant_name(row) for row in rows if not mistakes(row)]
    if not right:
        return "No method is right about all kinds of heads."
    are = "is" if len(right) == 1 else "are"
    return f"{listed(right)} {are} right about all kinds of heads."
