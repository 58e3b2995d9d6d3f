"""Tables that fit a terminal of any width, and never cut a number, a name or a verdict.

Where a table has room, its titles stand on one line. Where it has not, in this order: titles break
at spaces, running text breaks at spaces, optional columns are left out and named below, and the
columns that remain stand in several blocks, each of which begins with the key columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from headtool.reports.wording.text import visible
from headtool.reports.wording.words import in_a_column

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "FittedTable", "field_table", "plain_table", "table"]

_TITLES = {
    "delta": "change",
    "delta_chosen_on": "change on the half that chose it",
    "ci_low": "low",
    "ci_high": "high",
    "p_adjusted": "p corrected",
    "mde": "least detectable",
    "n_examples": "examples",
    "sd": "standard deviation",
}
_PLACE = ("kind", "layer", "head")
_GAP = 2  # spaces between columns
_NARROW = 24  # running text takes at least this; longer words, such as paths, break


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    title
        Its title.
    cells
        Its cells, as many as those of the other columns.
    left
        Whether it is set flush left and may break at spaces; numbers are set flush right and stay
        whole.
    optional
        Whether it may be left out where there is no room for it.
    joined
        Whether it stands in the same block as the column before it.
    """

    title: str
    cells: tuple[str, ...]
    left: bool = False
    optional: bool = False
    joined: bool = False

    @property
    def wide(self) -> int:
        """Width with the title on one line."""
        return max(map(cell_len, (self.title, *self.cells)), default=0)

    @property
    def tight(self) -> int:
        """Width with the title broken at its spaces."""
        return max(map(cell_len, (*self.title.split(), *self.cells)), default=0)

    @property
    def least(self) -> int:
        """Width with running text broken at its spaces too."""
        if not self.left:
            return self.tight
        words = [word for cell in self.cells for word in cell.split()]
        return max(
            max(map(cell_len, self.title.split()), default=0),
            min(_NARROW, max(map(cell_len, words), default=0)),
            min(_NARROW, self.tight),
        )


@dataclass(frozen=True)
class FittedTable:
    """A table without lines.

    Attributes
    ----------
    columns
        Its columns.
    keys
        How many of the first columns say what a row is; they stand in every block.
    show_header
        Whether the titles are shown.
    """

    columns: tuple[Column, ...]
    keys: int = 1
    show_header: bool = True

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(
            min(options.max_width, _total([column.least for column in self.columns])),
            min(options.max_width, _total([column.wide for column in self.columns])),
        )

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        shown, left_out = self._kept(options.max_width)
        for block in shown:
            yield self._block(block, _widths(block, options.max_width))
        if left_out:
            names = ", ".join(column.title for column in left_out)
            yield Text(f"no room here for: {names}", style="dim")

    def _kept(self, width: int) -> tuple[list[tuple[Column, ...]], list[Column]]:
        """The columns of each block, and those that are left out."""
        kept = list(self.columns)
        left_out: list[Column] = []
        while _total([column.least for column in kept]) > width:
            last = next((column for column in reversed(kept) if column.optional), None)
            if last is None:
                return list(self._blocks(kept, width)), left_out
            kept.remove(last)
            left_out.insert(0, last)
        return [tuple(kept)], left_out

    def _blocks(self, columns: Sequence[Column], width: int) -> Iterator[tuple[Column, ...]]:
        keys, groups = columns[: self.keys], list[list[Column]]()
        for column in columns[self.keys :]:
            if column.joined and groups:
                groups[-1].append(column)
            else:
                groups.append([column])
        block: list[Column] = []
        for group in groups:
            if block and _total([one.least for one in (*keys, *block, *group)]) > width:
                yield (*keys, *block)
                block = []
            block += group
        yield (*keys, *block)

    def _block(self, columns: Sequence[Column], widths: Sequence[int]) -> Table:
        drawn = Table(
            box=None,
            padding=(0, _GAP, 0, 0),
            pad_edge=False,
            header_style="dim",
            show_header=self.show_header,
        )
        for column, width in zip(columns, widths, strict=True):
            drawn.add_column(
                Text(column.title),
                justify="left" if column.left else "right",
                overflow="fold",
                width=width,
            )
        for cells in zip(*(column.cells for column in columns), strict=True):
            drawn.add_row(*map(Text, cells))
        return drawn


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    keys: int = 1,
    optional: Collection[str] = (),
    show_header: bool = True,
) -> FittedTable:
    """Return a table of texts.

    Parameters
    ----------
    titles
        Titles of the columns.
    rows
        The cells of each row.
    left
        Places of the columns that are set flush left; the others are set flush right.
    keys
        How many of the first columns say what a row is.
    optional
        Titles of columns that may be left out where there is no room, the last one first.
    show_header
        Whether the titles are shown.
    """
    cells = [[visible(cell) for cell in row] for row in rows]
    columns = tuple(
        Column(visible(title), tuple(row[place] for row in cells), place in left, title in optional)
        for place, title in enumerate(titles)
    )
    return FittedTable(columns, keys, show_header)


def plain_table(
    frame: pd.DataFrame, *, keys: int = 1, optional: Collection[str] = ()
) -> FittedTable:
    """Return a frame as a table, with numbers in short.

    Parameters
    ----------
    frame
        The frame.
    keys
        How many of its first columns say what a row is.
    optional
        Names of columns that may be left out where there is no room, the last one first.
    """
    titles = [str(name) for name in frame.columns]
    cells = [_cells(values.tolist()) for _, values in frame.items()]
    found = table(titles, zip(*cells, strict=True), keys=keys, optional=optional)
    columns = tuple(
        replace(column, left=kind.kind not in "iuf")
        for column, kind in zip(found.columns, frame.dtypes, strict=True)
    )
    return replace(found, columns=columns)


def field_table(frame: pd.DataFrame, *, optional: Collection[str] = ()) -> FittedTable:
    """Return a table of `headtool.schema` with heads by name and columns in words.

    Parameters
    ----------
    frame
        The table.
    optional
        Names of columns that may be left out where there is no room, the last one first.
    """
    from headtool.heads import head_name  # numpy, which the help of commands does without

    found = frame
    if set(_PLACE) <= set(frame.columns):
        found = frame.drop(columns=list(_PLACE))
        found.insert(0, "head", [head_name(row) for row in frame.to_dict("records")])
    titles = {name: _TITLES.get(str(name), str(name).replace("_", " ")) for name in found.columns}
    return plain_table(
        found.rename(columns=titles), optional={titles[name] for name in optional if name in titles}
    )


def _cells(values: Sequence[object]) -> list[str]:
    """The values of a column as texts."""
    numbers = iter(in_a_column([value for value in values if isinstance(value, float)]))
    return [next(numbers) if isinstance(value, float) else str(value) for value in values]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(0, len(widths) - 1)


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """Widths of the columns of a block: as wide as there is room for."""
    for widths in ([one.wide for one in columns], [one.tight for one in columns]):
        if _total(widths) <= room:
            return widths
    widths = [column.least for column in columns]
    lacking = [column.tight - width for column, width in zip(columns, widths, strict=True)]
    # What room is left goes to running text, first to that which lacks least.
    for place in sorted(range(len(columns)), key=lambda at: lacking[at]):
        widths[place] += max(0, min(room - _total(widths), lacking[place]))
    return widths
