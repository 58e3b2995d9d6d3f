"""What a file of another tool says of heads, before it is held against a model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headtool.errors import HeadtoolError
from headtool.heads import Head, Kind

__all__ = [
    "MOST_HEADS",
    "Foreign",
    "Row",
    "mean_row",
    "plain_head",
    "read_index",
    "read_number",
    "shown",
]

MOST_HEADS = 100_000
"""Heads of a model, layers, and heads of a layer; more is a damaged file."""

_LARGEST = 1e100  # of a score, as tables of runs have it
_KEYS = (
    re.compile(r"[Ll](\d{1,6})\.?[Hh](\d{1,6})"),  # L5H1
    re.compile(r"[Aa](\d{1,6})\.[Hh](\d{1,6})"),  # a5.h1
    re.compile(r"(\d{1,6})[-.](\d{1,6})"),  # 5-1
)


@dataclass(frozen=True)
class Row:
    """A head, or a key/value group, and its score.

    Attributes
    ----------
    kind
        Kind of attention; None where the file names none.
    layer, head
        Its place, from 0.
    score
        The score.
    stderr
        Its standard error; NaN without one.
    repeats
        The single measurements that `score` is the mean of; empty without any.
    place
        Where it stands, for messages.
    """

    kind: Kind | None
    layer: int
    head: int
    score: float
    stderr: float = math.nan
    repeats: tuple[float, ...] = ()
    place: str = ""


@dataclass(frozen=True)
class Foreign:
    """The content of a file.

    Attributes
    ----------
    format
        Its format, one of `headtool.exchange.reading.FORMATS`.
    rows
        A row for each head, each once. Those of ``hf`` are only the heads that go.
    shape
        Layers and heads of a layer, where the file says it.
    width
        Width of the residual stream, where the file says it.
    """

    format: str
    rows: tuple[Row, ...]
    shape: tuple[int, int] | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        if not self.rows:
            raise HeadtoolError("it has no heads")
        if len(self.rows) > MOST_HEADS:
            raise HeadtoolError(f"it has {len(self.rows):,} heads; {MOST_HEADS:,} are the most")
        seen: dict[tuple[Kind | None, int, int], Row] = {}
        for row in self.rows:
            first = seen.setdefault((row.kind, row.layer, row.head), row)
            if first is not row:
                raise HeadtoolError(
                    f"{row.place}: layer {row.layer}, head {row.head} was there before "
                    f"({first.place}); keep one of them"
                )
        kinds = {row.kind is None for row in self.rows}
        if len(kinds) > 1:
            bare = next(row for row in self.rows if row.kind is None)
            raise HeadtoolError(f"{bare.place} names no kind of attention, and others do")


def plain_head(key: str, place: str) -> tuple[Kind | None, int, int]:
    """Read the name of a head: ``L5H1``, ``a5.h1``, ``5-1``, ``5.1`` or ``enc-self.5.1``.

    Parameters
    ----------
    key
        The name.
    place
        Where it stands, for the message.

    Raises
    ------
    HeadtoolError
        If it is none.

    Examples
    --------
    >>> from headtool.exchange.foreign import plain_head
    >>> plain_head("a5.h1", "line 1"), plain_head("cross.0.2", "line 2")
    ((None, 5, 1), ('cross', 0, 2))
    """
    for pattern in _KEYS:
        found = pattern.fullmatch(key.strip())
        if found:
            return None, read_index(found[1], "layer", place), read_index(found[2], "head", place)
    try:
        head = Head.parse(key)
    except HeadtoolError:
        raise HeadtoolError(
            f"{place}: {shown(key)} is no head; write L5H1, a5.h1, 5-1 or dec-self.5.1"
        ) from None
    if max(head.layer, head.index) >= MOST_HEADS:
        raise HeadtoolError(f"{place}: there is no head {head}")
    return head.kind, head.layer, head.index


def read_index(value: Any, what: str, place: str) -> int:
    """Read the number of a layer or head, counted from 0.

    Parameters
    ----------
    value
        A whole number, or one as text.
    what
        What it is the number of.
    place
        Where it stands, for the message.

    Raises
    ------
    HeadtoolError
        If it is none, or larger than any model.
    """
    number = value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value.strip()):
        number = int(value)
    if type(number) is not int or not 0 <= number < MOST_HEADS:
        raise HeadtoolError(f"{place}: {shown(value)} is no number of a {what}")
    return number


def read_number(value: Any, place: str) -> float:
    """Read a score.

    Parameters
    ----------
    value
        A number, or one as text.
    place
        Where it stands, for the message.

    Raises
    ------
    HeadtoolError
        If it is none, not finite, or beyond 1e100.
    """
    number = math.nan
    if not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if not abs(number) < _LARGEST:
        raise HeadtoolError(f"{place}: the score {shown(value)} is no finite number")
    return number


def mean_row(head: tuple[Kind | None, int, int], values: Sequence[float], place: str) -> Row:
    """Return the row of a head that was measured several times: mean and standard error.

    Parameters
    ----------
    head
        Kind, layer and head.
    values
        The measurements, one or more.
    place
        Where they stand.
    """
    if not values:
        raise HeadtoolError(f"{place}: the head has an empty list of scores")
    numbers = np.asarray(values, dtype=np.float64)
    count = len(numbers)
    stderr = float(numbers.std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan
    return Row(*head, float(numbers.mean()), stderr, tuple(values), place)


def shown(value: Any) -> str:
    """A value in a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
