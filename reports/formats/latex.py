"""The report's tables in LaTeX: booktabs, one file each, and a document that shows them all."""

from __future__ import annotations

from collections.abc import Iterator

from headtool.reports.blocks import DataTable
from headtool.reports.contents.run import Contents
from headtool.reports.marks import LATEX_MARK
from headtool.reports.sections.page import build_page
from headtool.reports.wording.text import visible

__all__ = ["DOCUMENT", "escape_latex", "render_latex"]

DOCUMENT = "all.tex"
"""The file that inputs the others and compiles as it is."""

_LONG = 40  # rows that fit on a page
_ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": "{-}",  # no dash out of two hyphens
    "−": "$-$",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "≤": r"$\leq$",
    "\N{NO-BREAK SPACE}": "~",
}
_PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\usepackage{booktabs}
\usepackage{longtable}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\begin{document}
"""


def render_latex(contents: Contents) -> dict[str, str]:
    """Render a run's tables; file names with what they hold."""
    page = build_page(contents)
    tables = [table for section in page.sections for table in section.tables]
    files = {f"{table.name}.tex": "\n".join(_table(table)) + "\n" for table in tables}
    inputs = "".join(f"\\input{{{table.name}}}\n" for table in tables)
    title = f"\\section*{{{escape_latex(page.title)}}}\n"
    text = "".join(f"{escape_latex(paragraph)}\n\n" for paragraph in page.opening)
    files[DOCUMENT] = f"{_PREAMBLE}{title}{text}{inputs}\\end{{document}}\n"
    return {name: LATEX_MARK + text for name, text in files.items()}


def escape_latex(text: str) -> str:
    r"""Write text so that LaTeX sets it as it is; what its fonts lack is written as its code point.

    Examples
    --------
    >>> from headtool.reports.formats.latex import escape_latex
    >>> print(escape_latex("50% of \\input{x} & 日"))
    50\% of \textbackslash{}input\{x\} \& \textbackslash{}u65e5
    """
    return "".join(_escaped(character) for character in visible(text))


def _escaped(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if character.isascii() or "À" <= character <= "ÿ":
        return character
    return r"\textbackslash{}" + character.encode("unicode_escape").decode()[1:]


def _table(table: DataTable) -> Iterator[str]:
    """A float, or a table that runs over pages if it is long; with nothing but booktabs' rules."""
    columns = "".join("r" if column.is_number else "l" for column in table.columns)
    head = " & ".join(escape_latex(column.title) for column in table.columns) + r" \\"
    caption = rf"\caption{{{escape_latex(table.caption)}}}\label{{tab:{table.name}}}"
    rows = [" & ".join(escape_latex(cell.text) for cell in row) + r" \\" for row in table.rows]
    yield r"% needs \usepackage{booktabs} and \usepackage{longtable}"
    if len(rows) > _LONG:
        yield rf"\begin{{longtable}}{{{columns}}}"
        yield caption + r" \\"
        yield from (r"\toprule", head, r"\midrule", r"\endfirsthead")
        yield from (r"\toprule", head, r"\midrule", r"\endhead")
        yield from (r"\bottomrule", r"\endfoot")
        yield from rows
        yield r"\end{longtable}"
    else:
        yield from (r"\begin{table}[htbp]", r"\centering", caption)
        yield rf"\begin{{tabular}}{{{columns}}}"
        yield from (r"\toprule", head, r"\midrule")
        yield from rows
        yield from (r"\bottomrule", r"\end{tabular}", r"\end{table}")
