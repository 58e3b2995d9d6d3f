"""The formats of reports, by the names that users give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headtool.errors import HeadtoolError, unknown

__all__ = ["DRAWINGS", "FORMATS", "Choice", "choice_of"]

DRAWINGS = ("pdf", "svg", "png")
"""What figures can be written as."""

FORMATS = {
    "html": ("report.html", ()),
    "markdown": ("report.md", ()),
    "latex": ("latex", (".tex",)),
    "csv": ("csv", (".csv",)),
    "figures": ("figures", (".pdf", ".svg", ".png")),
}
"""By format: the default name inside the run, and for folders what their files end in."""


_NARROWEST, _WIDEST = 1.5, 30.0  # inches


@dataclass(frozen=True)
class Choice:
    """What a run is to be rendered as.

    Attributes
    ----------
    format
        One of `FORMATS`.
    drawings
        Some of `DRAWINGS`, for figures.
    columns
        Titles of columns, for LaTeX; None for all.
    width, font
        Inches and the font's name, for figures; None for the defaults.
    """

    format: str
    drawings: tuple[str, ...] = DRAWINGS
    columns: tuple[str, ...] | None = None
    width: float | None = None
    font: str | None = None


def choice_of(
    format: str,
    *,
    columns: Sequence[str] | None = None,
    width: float | None = None,
    font: str | None = None,
) -> Choice:
    """Read the name of a format, or names of drawings such as ``pdf,svg``, which are figures.

    Parameters
    ----------
    format
        What a user gave.
    columns, width, font
        See `Choice`.

    Raises
    ------
    HeadtoolError
        If there is no such format, a drawing is named twice, or an option is bad or belongs to
        another format.

    Examples
    --------
    >>> from headtool.reports.formats.choice import choice_of
    >>> choice_of("latex").format, choice_of("pdf,svg").drawings
    ('latex', ('pdf', 'svg'))
    """
    drawings = DRAWINGS if format in FORMATS else _drawings(format)
    kind = format if format in FORMATS else "figures"
    for name, value, needed in (
        *(("columns", columns, "latex"), ("width", width, "figures"), ("font", font, "figures")),
    ):
        if value is not None and kind != needed:
            raise HeadtoolError(f"`{name}` has no effect on {kind}; leave it out")
    if columns is not None and not columns:
        raise HeadtoolError("`columns` names no column; leave it out for all of them")
    if width is not None and not _NARROWEST <= width <= _WIDEST:
        raise HeadtoolError(
            f"`width` must be between {_NARROWEST:g} and {_WIDEST:g} inches, got {width:g}"
        )
    return Choice(kind, drawings, None if columns is None else tuple(columns), width, font)


def _drawings(format: str) -> tuple[str, ...]:
    drawings = tuple(name.strip() for name in format.split(","))
    for name in drawings:
        if name in FORMATS and len(drawings) > 1:
            raise HeadtoolError(
                f"`format` {format} asks for {name} and others; several at once are for figures "
                f"({', '.join(DRAWINGS)}), so render {name} by itself"
            )
        if name not in DRAWINGS:
            raise unknown("format", name, [*FORMATS, *DRAWINGS])
    if len(set(drawings)) < len(drawings):
        raise HeadtoolError(f"`format` names one twice, got {format}; name each once")
    return drawings
