"""The parts that a report is made of, before any format is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from headtool.reports.wording.words import bare_p_value, digits, percent

__all__ = [
    "Cell",
    "Choices",
    "Column",
    "DataTable",
    "Figure",
    "Finding",
    "Panel",
    "Section",
    "View",
    "order",
]


@dataclass(frozen=True)
class Finding:
    """One finding: `topic` names its section, `headline` opens the report, `detail` the section."""

    topic: str
    headline: str
    detail: str = ""


@dataclass(frozen=True)
class Panel:
    """One drawing of a figure; `narrow` replaces it on a small screen."""

    drawing: Markup
    title: str = ""
    narrow: Markup | None = None
    css: str = ""


@dataclass(frozen=True)
class Figure:
    """Drawings side by side over one caption."""

    panels: Sequence[Panel]
    caption: str
    css: str = ""
    legend: Sequence[tuple[str, str]] = ()
    """Class (or `Markup`) and name of what the drawings' colours stand for."""


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are set flush right."""

    title: str
    is_number: bool = True


@dataclass(frozen=True)
class Cell:
    """What a table shows and what it is sorted by."""

    text: str
    order: float | None = None
    css: str = ""

    @classmethod
    def number(cls, value: float) -> Cell:
        """A number, as tables write it."""
        return cls(digits(value), order(value))

    @classmethod
    def count(cls, amount: float) -> Cell:
        """A whole number."""
        return cls(str(int(amount)), float(amount))

    @classmethod
    def share(cls, share: float) -> Cell:
        """A share, in percent."""
        return cls(percent(share), float(share))

    @classmethod
    def p_value(cls, p: float) -> Cell:
        """A p-value in a column that says so."""
        return cls(bare_p_value(p), order(p))

    @classmethod
    def interval(cls, low: float, high: float) -> Cell:
        """An interval, sorted by its lower end."""
        if math.isnan(low) or math.isnan(high):
            return cls("–")
        return cls(f"{digits(low)} to {digits(high)}", order(low))


@dataclass(frozen=True)
class DataTable:
    """A table that the page's script can sort."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    can_filter: bool = False


@dataclass(frozen=True)
class View:
    """A way to look at the heads: a method's scores, or their effects."""

    name: str
    css: str
    levels: Sequence[int]
    values: Sequence[str]
    ranks: Sequence[int] = ()
    kept: Mapping[int, Sequence[bool]] = field(default_factory=dict)
    """By budget; empty where nothing was chosen."""
    keeping: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """How many methods keep each head, by budget; empty for a single method."""
    by_role: bool = False
    """Whether heads have the colours of their roles."""


@dataclass(frozen=True)
class Choices:
    """What the reader can choose in the grid of heads."""

    views: Sequence[View]
    budgets: Sequence[tuple[int, str]]
    """Heads removed, and that share in percent."""
    view: int
    budget: int
    """Indices of what is shown first."""


@dataclass(frozen=True)
class Section:
    """A section of the report."""

    name: str
    title: str
    text: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[DataTable] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    """What the page's script needs to know."""
    choices: Choices | None = None


def order(value: float) -> float | None:
    """What a number is sorted by; nothing for one that was not computed."""
    return None if math.isnan(value) else float(value)
