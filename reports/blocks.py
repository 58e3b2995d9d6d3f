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
    """One finding: `topic` names its section, `headline` opens the report, `detail` the section.

    Attributes
    ----------
    topic
        Names the section that it belongs to.
    headline
        A sentence for the opening of the report; may be empty.
    detail
        A paragraph for the section; may be empty.
    """

    topic: str
    headline: str
    detail: str = ""


@dataclass(frozen=True)
class Panel:
    """One drawing of a figure; `narrow` replaces it on a small screen.

    Attributes
    ----------
    drawing
        An inline SVG.
    title
        What stands above it.
    narrow
        Replaces it on a small screen.
    css
        Classes of the panel.
    link
        Where the title leads; empty for nowhere.
    """

    drawing: Markup
    title: str = ""
    narrow: Markup | None = None
    css: str = ""
    link: str = ""


@dataclass(frozen=True)
class Figure:
    """Drawings side by side over one caption.

    Attributes
    ----------
    panels
        The drawings.
    caption
        What stands below them.
    css
        Classes of the figure.
    legend
        Class (or `Markup`) and name of what the drawings' colours stand for.
    """

    panels: Sequence[Panel]
    caption: str
    css: str = ""
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are set flush right.

    Attributes
    ----------
    title
        What stands above it.
    is_number
        Whether it is set flush right.
    best
        Whether the ``largest`` or the ``smallest`` of its values is the best; empty where none is.
    about
        What it means, in a phrase; the page fills it in.
    """

    title: str
    is_number: bool = True
    best: str = ""
    about: str = ""


@dataclass(frozen=True)
class Cell:
    """What a table shows and what it is sorted by.

    Attributes
    ----------
    text
        What is shown.
    order
        What the table is sorted by; None: never first.
    css
        Classes of the cell.
    link
        Where the text leads; empty for nowhere.
    """

    text: str
    order: float | None = None
    css: str = ""
    link: str = ""

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
        """An interval, sorted by its lower end.

        Parameters
        ----------
        low, high
            Its ends; NaN where there is none.
        """
        if math.isnan(low) or math.isnan(high):
            return cls("–")
        return cls(f"{digits(low)} to {digits(high)}", order(low))


@dataclass(frozen=True)
class DataTable:
    """A table that the page's script can sort.

    Attributes
    ----------
    name
        Identifies the table on the page and names its LaTeX file.
    caption
        What stands above it.
    columns, rows
        Titles, and the cells of every row.
    can_filter
        Whether the page offers to filter its rows.
    best
        Whether the ``largest`` or the ``smallest`` value of each row is the best, where columns
        compare; empty where they do not.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    can_filter: bool = False
    best: str = ""

    def best_cells(self) -> set[tuple[int, int]]:
        """Find the cells that hold the best value of their column, or of their row.

        Equal ones are all the best, unless all there are equal.

        Returns
        -------
        set of tuple
            Row and column of each, counted from 0.
        """
        lines = [
            (column.best, [(row, place) for row in range(len(self.rows))])
            for place, column in enumerate(self.columns)
        ]
        if self.best:
            across = range(1, len(self.columns))
            lines += [(self.best, [(row, p) for p in across]) for row in range(len(self.rows))]
        found: set[tuple[int, int]] = set()
        for which, places in lines:
            values = {
                (row, place): value
                for row, place in places
                if which and (value := self.rows[row][place].order) is not None
            }
            if len(set(values.values())) > 1:
                wanted = max(values.values()) if which == "largest" else min(values.values())
                found |= {place for place, value in values.items() if value == wanted}
        return found


@dataclass(frozen=True)
class View:
    """A way to look at the heads: a method's scores, or their effects.

    Attributes
    ----------
    name
        What it is called among the choices.
    css
        Class of its colour.
    levels
        Step of the colour scale of every head; -1 for a head without a value.
    values
        The value of every head, as it is written.
    ranks
        The rank of every head; 0 for a head without one.
    kept
        By budget, whether each head is kept; empty where nothing was chosen.
    keeping
        By budget, how many methods keep each head; empty for a single method.
    by_role
        Whether heads have the colours of their roles.
    extent
        For values of either sign: the end of the colour scale, whose middle is 0; NaN for scales
        from the least to the most important head.
    """

    name: str
    css: str
    levels: Sequence[int]
    values: Sequence[str]
    ranks: Sequence[int] = ()
    kept: Mapping[int, Sequence[bool]] = field(default_factory=dict)
    keeping: Mapping[int, Sequence[int]] = field(default_factory=dict)
    by_role: bool = False
    extent: float = math.nan

    @property
    def shades(self) -> str:
        """First letter of the classes of the colour scale."""
        return "s" if math.isnan(self.extent) else "d"


@dataclass(frozen=True)
class Choices:
    """What the reader can choose in the grid of heads.

    Attributes
    ----------
    views
        What there is to choose from.
    budgets
        Heads removed, and that share in percent.
    view, budget
        Which of them are shown first, counted from 0.
    """

    views: Sequence[View]
    budgets: Sequence[tuple[int, str]]
    view: int
    budget: int


@dataclass(frozen=True)
class Section:
    """A section of the report.

    Attributes
    ----------
    name
        Identifies it on the page.
    title
        Its heading.
    text
        Its opening paragraphs.
    figures, tables
        What it shows.
    data
        What the page's script needs to know.
    choices
        What the reader can choose; None where there is nothing to choose.
    """

    name: str
    title: str
    text: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[DataTable] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    choices: Choices | None = None


def order(value: float) -> float | None:
    """What a number is sorted by; nothing for one that was not computed."""
    return None if math.isnan(value) else float(value)
