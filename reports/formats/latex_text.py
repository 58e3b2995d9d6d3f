"""Text, numbers and names as LaTeX sets them."""

from __future__ import annotations

import re

from headtool.reports.wording.text import visible

__all__ = ["cell_text", "escape_latex", "running_text"]

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
    "λ": r"$\lambda$",
    "\N{NO-BREAK SPACE}": "~",
}

_NUMBER = r"[−-]?(?:\d[\d,]*(?:\.\d+)?(?:e[−+-]?\d+)?|∞)%?"
_EXPONENT = re.compile(r"e([−+-]?)0*(\d+)")
_FORMS = (  # whole cells that are mathematics, with what is between their numbers
    (re.compile(rf"(<?)({_NUMBER})"), "{{{0}}}{1}"),
    (re.compile(rf"({_NUMBER}) ± ({_NUMBER})"), r"{0} \pm {1}"),
    (re.compile(rf"({_NUMBER}) to ({_NUMBER})"), "[{0}, {1}]"),
    (re.compile(rf"({_NUMBER}) \[({_NUMBER}), ({_NUMBER})\]"), r"{0} \; [{1}, {2}]"),
)
_INSIDE = re.compile(r"(?<=[^\W\d])[/:._](?=\w)")  # marks within a name
_KINDS = {"enc-self": "encoder", "dec-self": "decoder", "cross": "cross"}
_PLACE = re.compile(rf"({'|'.join(_KINDS)})(?:\.(\d+(?:\.\d+)?))?")


def escape_latex(text: str) -> str:
    r"""Write text so that LaTeX sets it as it is; what its fonts lack is written as its code point.

    Parameters
    ----------
    text
        Any text.

    Examples
    --------
    >>> from headtool.reports.formats.latex_text import escape_latex
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


def running_text(text: str) -> str:
    """Escape a paragraph whose long names may be broken into lines.

    Parameters
    ----------
    text
        The paragraph.
    """
    shown = visible(text)
    breaks = {found.end() - 1 for found in _INSIDE.finditer(shown)}
    return "".join(
        _escaped(character) + (r"\allowbreak{}" if place in breaks else "")
        for place, character in enumerate(shown)
    )


def cell_text(text: str) -> str:
    r"""Write a table's cell: numbers as mathematics, kinds of attention as words.

    Parameters
    ----------
    text
        What the report's page shows.

    Examples
    --------
    >>> from headtool.reports.formats.latex_text import cell_text
    >>> print(cell_text("−0.193 to 0.0531"), cell_text("4.00e−4"), cell_text("40.6%"))
    $[-0.193, 0.0531]$ $4.00 \times 10^{-4}$ $40.6\%$
    >>> print(cell_text("enc-self.0.3"), cell_text("50% off"))
    encoder 0.3 50\% off
    """
    for form, written in _FORMS:
        if found := form.fullmatch(text):
            written = written.format(*map(_mathematics, found.groups()))
            return f"${written.removeprefix('{}')}$"
    if found := _PLACE.fullmatch(text):
        return " ".join(filter(None, (_KINDS[found[1]], found[2])))
    return escape_latex(text)


def _mathematics(number: str) -> str:
    number = number.replace("∞", r"\infty").replace("%", r"\%").replace(",", "{,}")
    number = _EXPONENT.sub(
        lambda e: rf" \times 10^{{{'-' if e[1] in '−-' and e[1] else ''}{e[2]}}}", number
    )
    return number.replace("−", "-")
