"""Columns that many tables have."""

from __future__ import annotations

from headtool.heads import KINDS
from headtool.schema.columns import Column, integer, number, string

__all__ = [
    "BUDGET",
    "BY_DATA",
    "DELTA",
    "HEAD",
    "METHOD",
    "METRIC",
    "coefficient",
    "interval",
]

METHOD = string("method", "name of the scoring method")
METRIC = string("metric", "name of the metric that the numbers are in")
DELTA = number("delta", "the metric's", "masked minus whole")

HEAD = (
    string("kind", "kind of attention: `enc-self`, `dec-self` or `cross`", among=KINDS),
    integer("layer", "", "number of the layer, from 0"),
    integer("head", "", "number of the head in its layer, from 0"),
)
"""What names a head."""

BY_DATA = string("data", "SPEC of the data set; in tables of several data sets only", optional=True)

BUDGET = (
    integer("budget", "heads", "how many heads are removed"),
    number("share", "share", "the same, of all heads that were up for removal", known=True),
)
"""How much is removed."""


def interval(of: str, unit: str, prefix: str = "") -> tuple[Column, Column]:
    """Return the columns of both ends of a confidence interval.

    Parameters
    ----------
    of
        What the interval is of, as a phrase.
    unit
        Unit of the ends.
    prefix
        Stands before ``low`` and ``high`` in the names.
    """
    return (
        number(f"{prefix}low", unit, f"lower end of the interval of {of}"),
        number(f"{prefix}high", unit, f"upper end of the interval of {of}"),
    )


def coefficient(name: str, title: str, *, over: str = "", p: bool = False) -> tuple[Column, ...]:
    """Return a coefficient with its interval and p-values.

    Parameters
    ----------
    name, title
        Name of the column, and what it is called in a sentence.
    over
        What the interval is over; empty without an interval.
    p
        Whether there are p-values.
    """
    columns = [number(name, "coefficient", title)]
    if over:
        columns += [
            number(f"{name}_low", "coefficient", f"lower end of its interval over {over}"),
            number(f"{name}_high", "coefficient", f"upper end of its interval over {over}"),
        ]
    if p:
        columns += [
            number(f"{name}_p", "", "its two-sided p-value if heads could come in any order"),
            number(
                f"{name}_p_within_layers", "", "the same with heads exchanged in their layers only"
            ),
        ]
    return tuple(columns)
