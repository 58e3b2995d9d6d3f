"""The report's tables in LaTeX: booktabs, one file each, and a document that shows them all."""

from __future__ import annotations

from collections.abc import Sequence

from headtool.errors import HeadtoolError
from headtool.reports.blocks import DataTable
from headtool.reports.contents.run import Contents
from headtool.reports.formats.latex_tables import chosen, latex_table
from headtool.reports.formats.latex_text import running_text
from headtool.reports.marks import LATEX_MARK
from headtool.reports.sections.page import Page, build_page

__all__ = ["DOCUMENT", "latex_files", "render_latex"]

DOCUMENT = "all.tex"
"""The file that inputs the others and compiles as it is."""

_PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\usepackage{array}
\usepackage{booktabs}
\usepackage{longtable}
\emergencystretch=4em
\begin{document}
"""


def render_latex(contents: Contents, *, columns: Sequence[str] | None = None) -> dict[str, str]:
    """Render a run's tables; every one fits the text of an A4 article of 11 points.

    A table that is too wide is set smaller, and divided if that is not enough: its parts have their
    first column in common.

    Parameters
    ----------
    contents
        The run.
    columns
        Titles of columns: only these, and those that name a row, are shown, and only tables that
        have one of them. None: all columns.

    Returns
    -------
    dict
        What files hold, by name.

    Raises
    ------
    HeadtoolError
        If no table has a column of `columns`.
    """
    return latex_files(build_page(contents), columns=columns)


def latex_files(page: Page, *, columns: Sequence[str] | None = None) -> dict[str, str]:
    """Render the tables of a page; see `render_latex`.

    Parameters
    ----------
    page
        The page.
    columns
        As for `render_latex`.
    """
    tables = [table for section in page.sections for table in section.tables]
    tables = [page.methods, *tables] if page.methods is not None else tables
    if columns is not None:
        tables = _with_columns(tables, columns)
    files = {f"{table.name}.tex": "\n".join(latex_table(table)) + "\n" for table in tables}
    inputs = "".join(f"\\input{{{table.name}}}\n" for table in tables)
    title = f"\\section*{{{running_text(page.title)}}}\n"
    text = "".join(f"{running_text(paragraph)}\n\n" for paragraph in page.opening)
    files[DOCUMENT] = f"{_PREAMBLE}{title}{text}{inputs}\\end{{document}}\n"
    return {name: LATEX_MARK + text for name, text in files.items()}


def _with_columns(tables: Sequence[DataTable], titles: Sequence[str]) -> list[DataTable]:
    known = {column.title: None for table in tables for column in table.columns}
    for title in titles:
        if title not in known:
            raise HeadtoolError(
                f"no table has a column {title!r} (`columns`); choose from {', '.join(known)}"
            )
    return [found for table in tables if (found := chosen(table, titles)) is not None]
