"""How results show themselves in a notebook: a small table, with everything in it escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Tabled", "html_result"]

_SHOWN = 8  # rows, and columns, in a notebook
_NAMED = 6  # columns in a terminal
_CELL = "padding:.15em .8em .15em 0;text-align:"


class Tabled:
    """A result with a table, of which a terminal shows one line and a notebook the first rows.

    What derives from it has the table as `frame`.
    """

    def __repr__(self) -> str:
        return f"<{self._described()}>"

    def _repr_html_(self) -> str:
        """Show the first rows, in a notebook."""
        frame = self._table()
        top = frame.iloc[:_SHOWN, :_SHOWN]
        rest, wider = len(frame) - len(top), len(frame.columns) - len(top.columns)
        more = [f"{rest:,} more rows"] * (rest > 0) + [f"{wider} more columns"] * (wider > 0)
        lines = [f"and {' and '.join(more)}: .frame has all of them"] if more else []
        columns = [str(name) for name in top.columns]
        return html_result(
            self._described(), columns, top.itertuples(index=False, name=None), lines=lines
        )

    def _table(self) -> pd.DataFrame:
        return self.frame  # type: ignore[attr-defined,no-any-return]

    def _described(self) -> str:
        """What it is, in a few words."""
        frame = self._table()
        names = [str(name) for name in frame.columns]
        listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        rows = "1 row" if len(frame) == 1 else f"{len(frame):,} rows"
        return f"{type(self).__name__}: {rows} of {listed}"


def html_result(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    lines: Sequence[str] = (),
) -> str:
    """Write a title, a table and some lines below it as HTML.

    Parameters
    ----------
    title
        What the result is.
    columns
        Headings of the table; none for a result without one.
    rows
        Its cells: text, or numbers, which are rounded to three digits.
    lines
        What else there is to say.

    Returns
    -------
    str
        HTML without scripts, styles or links; names in it are text, whatever they hold.

    Examples
    --------
    >>> from headtool.results.display import html_result
    >>> print(html_result("a < b", [], [], lines=["and so on"]))
    <div><strong>a &lt; b</strong><div>and so on</div></div>
    """
    parts = [f"<strong>{_text(title)}</strong>"]
    if columns:
        heads = "".join(f'<th style="{_CELL}left">{_text(name)}</th>' for name in columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        parts.append(f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")
    parts += [f"<div>{_text(line)}</div>" for line in lines]
    return f"<div>{''.join(parts)}</div>"


def _cell(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    side = "right" if is_number else "left"
    return f'<td style="{_CELL}{side}">{_text(_written(value))}</td>'


def _written(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3g}"
    return str(value)


def _text(text: str) -> str:
    """Escape text, and write out what a browser would obey without showing it."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return html.escape(shown)
