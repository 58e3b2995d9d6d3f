"""The report as Markdown: the findings, the tables and what reproduces them, for a repository."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headtool.reports.blocks import DataTable
from headtool.reports.contents.run import Contents
from headtool.reports.marks import MARKDOWN_MARK
from headtool.reports.sections.page import Page, build_page
from headtool.reports.wording.text import visible

__all__ = ["escape_markdown", "markdown_of", "render_markdown"]

# What could become markup, a link or HTML in any of the common dialects. Images and link targets
# need a bracket before them, so an exclamation mark and parentheses may stand as they are.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&@]|:(?!\s|$))")
# What begins a list, a rule or an underlined heading; 0.5 and +1 begin none.
_START = re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[-+=](?:[-=\s]|$)))(.)")


def render_markdown(contents: Contents) -> str:
    """Render a run as one Markdown document."""
    return markdown_of(build_page(contents))


def markdown_of(page: Page) -> str:
    """Render a page as one Markdown document.

    Parameters
    ----------
    page
        The page.
    """
    return "\n".join(_lines(page)).rstrip() + f"\n\n{MARKDOWN_MARK}\n"


def escape_markdown(text: str) -> str:
    r"""Write text so that Markdown shows it as it is, on one line.

    Examples
    --------
    >>> from headtool.reports.formats.markdown import escape_markdown
    >>> print(escape_markdown("![x](http://a.b) *c*"))
    !\[x\](http\://a.b) \*c\*
    >>> print(escape_markdown("0.1 (2%)"), escape_markdown("1. April"))
    0.1 (2%) 1\. April
    """
    return _START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", visible(text)))


def _lines(page: Page) -> Iterator[str]:
    yield from (f"# {escape_markdown(page.title)}", "")
    yield from (escape_markdown(page.subtitle), "")
    for paragraph in page.opening:
        yield from (escape_markdown(paragraph), "")
    if page.methods is not None:
        yield from (*_table(page.methods), "")
    if page.verdicts:
        yield from ("| verdict | heads |", "| --- | ---: |")
        yield from (f"| {verdict} | {amount} |" for verdict, amount in page.verdicts)
        yield ""
    if page.warnings:
        yield from ("To keep in mind:", "")
        yield from (f"- {escape_markdown(line)}" for line in page.warnings)
        yield ""
    for section in page.sections:
        if not (section.tables or any(section.text)):
            continue
        yield from (f"## {escape_markdown(section.title)}", "")
        for paragraph in section.text:
            yield from (escape_markdown(paragraph), "")
        for table in section.tables:
            yield from (f"**{escape_markdown(table.caption)}**", "")
            yield from _table(table)
            yield ""
    if page.procedure.sentences:
        yield from ("## Methods", "", escape_markdown(" ".join(page.procedure.sentences)), "")
        yield from (f"- {escape_markdown(line)}" for line in page.procedure.references)
        yield ""
    yield from ("## To reproduce", "")
    if page.command:
        yield from (f"    {visible(page.command)}", "")
    yield from (
        f"- {escape_markdown(name)}: {escape_markdown(value)}" for name, value in page.origin
    )


def _table(table: DataTable) -> Iterator[str]:
    yield "| " + " | ".join(escape_markdown(column.title) for column in table.columns) + " |"
    yield "| " + " | ".join("---:" if c.is_number else "---" for c in table.columns) + " |"
    for row in table.rows:
        yield "| " + " | ".join(escape_markdown(cell.text) for cell in row) + " |"
