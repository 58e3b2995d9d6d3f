"""How results show themselves in a notebook: a small table, with everything in it escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["html_result"]

_CELL = "padding:.15em .8em .15em 0;text-align:"


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
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3g}"
    return str(value)


def _text(text: str) -> str:
    """Escape text, and write out what a browser would obey without showing it."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return html.escape(shown)
