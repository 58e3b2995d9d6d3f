"""Marks in what reports write, by which ``--force`` knows what it may replace."""

from __future__ import annotations

from pathlib import Path

from headtool.errors import HeadtoolError
from headtool.reading import read_file

__all__ = ["LATEX_MARK", "MARKDOWN_MARK", "figure_marks", "is_marked"]

LATEX_MARK = "% generator: headtool\n"
MARKDOWN_MARK = "<!-- generator: headtool -->"

_MARKS = (
    b'<meta name="generator" content="headtool">',
    LATEX_MARK.encode(),
    MARKDOWN_MARK.encode(),
    b"/Creator (headtool)",  # PDF
    b"<dc:title>headtool</dc:title>",  # SVG
    b"tEXtSoftware\0headtool",  # PNG
)
_ENDS = 8192  # bytes at either end of a file that are looked at


def figure_marks(ending: str) -> dict[str, str | None]:
    """Metadata of a figure for matplotlib: the mark, and no date.

    Parameters
    ----------
    ending
        The figure's format: ``pdf``, ``svg`` or ``png``.
    """
    marks: dict[str, dict[str, str | None]] = {
        "pdf": {"Creator": "headtool", "CreationDate": None},
        "svg": {"Creator": "headtool", "Date": None},
        "png": {"Software": "headtool"},
    }
    return marks[ending]


def is_marked(path: Path) -> bool:
    """Whether a file bears a mark of ours.

    Parameters
    ----------
    path
        The file.
    """
    try:
        content = read_file(path)
    except (OSError, HeadtoolError):
        return False
    ends = content[:_ENDS] + content[-_ENDS:]
    return any(mark in ends for mark in _MARKS)
