"""One table in LaTeX: what it leaves out, how wide it is, and how it is divided."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from headtool.reports.blocks import Cell, Column, DataTable
from headtool.reports.formats.latex_text import cell_text, escape_latex, running_text
from headtool.reports.wording.text import visible

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

__all__ = ["WIDTH", "chosen", "latex_table"]

WIDTH = 360.0
"""Points: the width of the text of an article of 11 points on A4."""

# Names with their points, and how much wider than those of 10 points Computer Modern's letters are.
_SIZES = (("small", 10.0), ("footnotesize", 9.0 * 1.028), ("scriptsize", 8.0 * 1.063))
_SEPARATION = 3.0  # points on either side of a column
_WIDEST = 150.0  # points of a column of text; longer cells are broken into lines
_LONG = 40  # rows that fit on a page
_ALIKE = {  # what is as wide as what the font lacks, or as mathematics
    "e-": "++10",
    "e−": "++10",
    "−": "+",
    "–": "n",
    "±": "n+n",
    "…": "mm",
    "≤": "+",
    "∞": "m",
    " [": "xx[",
    "<": "+",
    ">": "+",
    "|": "i",
    "λ": "m",
}
_MEASURED = 100.0  # points: so large that no width is rounded
_SPARE = 1.02  # spaces of mathematics are a little wider than those measured
_KIND = re.compile(r"(enc-self|dec-self|cross)(?=\.\d)")
_KIND_NAMES = {
    "enc-self": "encoder self-attention",
    "dec-self": "decoder self-attention",
    "cross": "cross-attention",
}


@dataclass(frozen=True)
class _Line:
    """A column that is set: its heading in lines, its cells, and how it is aligned."""

    heading: list[str]
    cells: list[str]
    is_number: bool
    plain: list[str]

    def width(self, size: float) -> float:
        """Points that it needs."""
        longest = max((_points(text, size) for text in [*self.heading, *self.plain]), default=0.0)
        return min(longest, _WIDEST) if not self.is_number else longest

    def is_broken(self, size: float) -> bool:
        """Whether its cells are broken into lines."""
        return not self.is_number and any(_points(t, size) > _WIDEST for t in self.plain)


def chosen(table: DataTable, titles: Sequence[str]) -> DataTable | None:
    """The table with some of its columns, and those that name its rows; None if it has none.

    Parameters
    ----------
    table
        The table.
    titles
        Titles of the columns that stay.
    """
    keys = _keys(table.columns)
    stay = [i for i, column in enumerate(table.columns) if i < keys or column.title in titles]
    if not any(table.columns[i].title in titles for i in stay):
        return None
    return _with(table, stay)


def latex_table(table: DataTable) -> Iterator[str]:
    """Lines of a table that is at most `WIDTH` wide, in several parts if it must be.

    Columns that say the same of every row are told in the caption instead, and columns that were
    not computed are left out.

    Parameters
    ----------
    table
        The table.
    """
    shown, notes = _without_constants(table)
    lines = _lines(shown)
    keys = _keys(shown.columns)
    parts = _parts(lines, keys)
    yield r"% needs \usepackage{array}, \usepackage{booktabs} and \usepackage{longtable}"
    for number, (size, members) in enumerate(parts, 1):
        caption = table.caption + (f" ({'; '.join(notes)})" if notes else "")
        if len(parts) > 1:
            caption += f", part {number} of {len(parts)}"
        label = table.name if number == 1 else f"{table.name}-{number}"
        yield from _part([lines[i] for i in members], size, running_text(caption), label)


def _keys(columns: Sequence[Column]) -> int:
    """How many columns in front name the rows: the first, and columns of text after it."""
    count = 1
    while count < min(3, len(columns)) and not columns[count].is_number:
        count += 1
    return count if not columns[0].is_number else 1


def _with(table: DataTable, places: Sequence[int]) -> DataTable:
    return dataclasses.replace(
        table,
        columns=[table.columns[i] for i in places],
        rows=[[row[i] for i in places] for row in table.rows],
    )


def _without_constants(table: DataTable) -> tuple[DataTable, list[str]]:
    """The table without columns that are the same in every row, and what these said."""
    notes: list[str] = []
    if len(table.rows) > 1:
        stay = []
        for place, column in enumerate(table.columns):
            values = {row[place].text for row in table.rows}
            if place and values == {"–"}:
                continue
            if len(values) == 1 and len(table.columns) > 2:
                notes.append(f"{column.title}: {values.pop()}")
            else:
                stay.append(place)
        table = _with(table, stay) if stay else table
    firsts = [row[0].text for row in table.rows if row]
    kinds = {found[1] if (found := _KIND.match(text)) else "" for text in firsts}
    if len(kinds) == 1 and (kind := kinds.pop()):
        notes.append(_KIND_NAMES[kind])
        rows = [
            [Cell(row[0].text.removeprefix(f"{kind}."), row[0].order), *row[1:]]
            for row in table.rows
        ]
        table = dataclasses.replace(table, rows=rows)
    return table, notes


def _lines(table: DataTable) -> list[_Line]:
    best = table.best_cells()
    lines = []
    for place, column in enumerate(table.columns):
        plain = [row[place].text for row in table.rows]
        cells = []
        for number, text in enumerate(plain):
            written = cell_text(text)
            if (number, place) in best:
                written = rf"\textbf{{{written.replace('$', '')}}}" if "$" not in written else (
                    rf"$\mathbf{{{written.strip('$')}}}$"
                )  # fmt: skip
            cells.append(written)
        narrow = max((len(text) for text in plain), default=0)
        lines.append(_Line(_stacked(column.title, narrow), cells, column.is_number, plain))
    return lines


def _stacked(title: str, width: int) -> list[str]:
    """A heading in as many lines as make it no wider than its column, or than its longest word."""
    lines = [""]
    room = max(width, *(len(word) for word in title.split(" ")), 6)
    for word in title.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _parts(lines: Sequence[_Line], keys: int) -> list[tuple[str, list[int]]]:
    """Divide columns into parts that fit, with the size of each; the key columns are in all."""
    everything = list(range(len(lines)))
    for name, size in _SIZES:
        if _total(lines, everything, size) <= WIDTH:
            return [(name, everything)]
    name, size = _SIZES[1]  # parts can be larger
    front = list(range(keys))
    while len(front) > 1 and _total(lines, front, size) > WIDTH / 2:
        front.pop()
    parts, part = [], list(front)
    for place in everything[len(front) :]:
        if len(part) > len(front) and _total(lines, [*part, place], size) > WIDTH:
            parts.append((name, part))
            part = list(front)
        part.append(place)
    parts.append((name, part))
    return [
        (name if _total(lines, part, size) <= WIDTH else _SIZES[2][0], part)
        for name, part in parts
    ]  # fmt: skip


def _total(lines: Sequence[_Line], members: Sequence[int], size: float) -> float:
    widths = sum(lines[i].width(size) for i in members)
    return _SPARE * widths + 2 * _SEPARATION * (len(members) - 1)


def _part(lines: Sequence[_Line], size: str, caption: str, label: str) -> Iterator[str]:
    """A float, or a table that runs over pages if it is long; with nothing but booktabs' rules."""
    points = dict(_SIZES)[size]
    room = WIDTH - 2 * _SEPARATION * (len(lines) - 1)
    fixed = _SPARE * sum(line.width(points) for line in lines if not line.is_broken(points))
    broken = sum(line.is_broken(points) for line in lines)
    each = max(40.0, min(_WIDEST, (room - fixed) / broken)) if broken else 0.0
    columns = "".join(
        rf">{{\raggedright\arraybackslash}}p{{{each:.0f}pt}}"
        if line.is_broken(points)
        else "r" if line.is_number else "l"
        for line in lines
    )  # fmt: skip
    spec = f"@{{}}{columns}@{{}}"
    head = " & ".join(_heading(line) for line in lines) + r" \\"
    body = [" & ".join(cells) + r" \\" for cells in zip(*(x.cells for x in lines), strict=True)]
    said = rf"\caption{{{caption}}}\label{{tab:{label}}}"
    settings = rf"\{size}\setlength{{\tabcolsep}}{{{_SEPARATION:g}pt}}"
    if len(body) > _LONG:
        yield f"{{{settings}"
        yield rf"\begin{{longtable}}{{{spec}}}"
        yield said + r" \\"
        yield from (r"\toprule", head, r"\midrule", r"\endfirsthead")
        yield from (r"\toprule", head, r"\midrule", r"\endhead")
        yield from (r"\bottomrule", r"\endfoot")
        yield from body
        yield r"\end{longtable}"
        yield "}"
    else:
        yield from (r"\begin{table}[htbp]", r"\centering", said, settings)
        yield rf"\begin{{tabular}}{{{spec}}}"
        yield from (r"\toprule", head, r"\midrule")
        yield from body
        yield from (r"\bottomrule", r"\end{tabular}", r"\end{table}")


def _heading(line: _Line) -> str:
    texts = [escape_latex(text) for text in line.heading]
    if len(texts) == 1:
        return texts[0]
    side = "r" if line.is_number else "l"
    stacked = r"\\".join(texts)
    return rf"\shortstack[{side}]{{{stacked}}}"


def _points(text: str, size: float) -> float:
    """Width of a text in Computer Modern."""
    font = _font()
    for written, alike in _ALIKE.items():
        text = text.replace(written, alike)
    # A character that LaTeX's fonts lack is written as its code point.
    text = "".join(c if c.isascii() else "m" if c <= "ÿ" else "m" * 6 for c in visible(text))
    font.set_text(text)
    return float(font.get_width_height()[0]) / 64 * size / _MEASURED


@cache
def _font() -> FT2Font:
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    font = FT2Font(f"{get_data_path()}/fonts/ttf/cmr10.ttf")
    font.set_size(_MEASURED, 72)
    return font
