"""Figures for a paper: PDF, SVG and PNG, with fonts that journals take (Type 42)."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError, unknown
from headtool.reports.contents.heads import Heads
from headtool.reports.contents.roles import HeadRoles
from headtool.reports.contents.run import Contents
from headtool.reports.formats.choice import DRAWINGS
from headtool.reports.formats.curve_figures import (
    against_random_figure,
    curves_figure,
    faithfulness_figure,
    sweep_figure,
)
from headtool.reports.formats.head_figures import effects_figure, heads_figure
from headtool.reports.formats.relation_figures import agreement_figure, data_sets_figure
from headtool.reports.formats.role_figures import scores_figure, survival_figure, survival_shape
from headtool.reports.formats.style import FIGURE_STYLE
from headtool.reports.marks import figure_marks
from headtool.reports.sections.gates import sweep_of
from headtool.reports.sections.views import choices_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figure_of", "write_figures"]

_LOGGER = logging.getLogger("headtool.reports")
_MISSING = r"Glyph (\d+) \(.*\) missing from"


def write_figures(
    contents: Contents,
    folder: Path,
    *,
    formats: Sequence[str] = DRAWINGS,
    width: float | None = None,
    font: str | None = None,
) -> list[Path]:
    """Write every figure that the run has tables for, in each of the formats.

    Letters that the font lacks, in a name of somebody's, are drawn as boxes; a log record says so.

    Parameters
    ----------
    contents
        The run.
    folder
        Where to; it exists.
    formats
        Some of `headtool.reports.formats.choice.DRAWINGS`.
    width
        Inches that each figure is wide; text keeps its size. None: as wide as it needs to be.
    font
        Name of an installed font; None: DejaVu Sans, which comes with Matplotlib.

    Raises
    ------
    HeadtoolError
        If the font is not installed.
    """
    import matplotlib as mpl

    written = []
    style = FIGURE_STYLE | ({"font.family": _installed(font)} if font else {})
    with (
        mpl.rc_context(style),
        _telling_missing_letters(font or FIGURE_STYLE["font.sans-serif"][0]),
    ):
        for name, draw in _drawings(contents):
            figure = draw()
            if width is not None:
                was, height = figure.get_size_inches()
                figure.set_size_inches(width, height * max(1.0, width / was))
            figure.draw_without_rendering()  # lays it out, once for all formats
            figure.set_layout_engine("none")
            for ending in formats:
                path = folder / f"{name}.{ending}"
                figure.savefig(path, format=ending, metadata=figure_marks(ending))
                written.append(path)
    return written


def _installed(font: str) -> str:
    """The name of a font that Matplotlib finds."""
    from matplotlib import font_manager

    known = sorted(set(font_manager.get_font_names()))
    if font not in known:
        raise unknown("font", font, known)
    return font


@contextlib.contextmanager
def _telling_missing_letters(font: str) -> Iterator[None]:
    """Say once which letters are missing, instead of Matplotlib for each time that it draws one."""
    letters: dict[str, None] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message=_MISSING)
        yield
    for warning in caught:
        if found := re.match(_MISSING, str(warning.message)):
            letters[chr(int(found[1]))] = None
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if letters:
        _LOGGER.warning(
            "the font of the figures (%s) lacks %s; boxes stand for them",
            font,
            " ".join(letters),
        )


def figure_of(contents: Contents, name: str, ax: Any = None) -> Figure:
    """Draw one of the figures.

    Parameters
    ----------
    contents
        The run.
    name
        Name of the figure, as files of figures have it.
    ax
        Where to draw; see `headtool.reports.formats.canvas.axes_on`.

    Raises
    ------
    HeadtoolError
        If there is nothing to draw it from, or `ax` has another number of axes.
    """
    import matplotlib as mpl

    drawings = dict(_drawings(contents, ax))
    if name not in drawings:
        known = ", ".join(drawings) or "none"
        raise HeadtoolError(f"there is nothing to draw as {name} here; figures that are: {known}")
    with mpl.rc_context(FIGURE_STYLE):
        return drawings[name]()


def _drawings(contents: Contents, ax: Any = None) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Names of the figures that there is something to draw as, and what draws them."""
    heads = Heads(contents)
    roles = HeadRoles(contents, heads)
    curves = contents.table("curves")
    if choices_of(contents, heads, roles) is not None:
        yield "heads", lambda: heads_figure(contents, heads, roles, ax)
    if len(curves):
        yield "curves", lambda: curves_figure(contents, ax)
        if curves["method"].astype(str).str.startswith("random-matched:").any():
            yield "against-random", lambda: against_random_figure(contents, ax)
    points = contents.table("faithfulness")
    if points[points["kind"] == "all"]["faithfulness"].notna().any():
        yield "faithfulness", lambda: faithfulness_figure(contents, ax)
    if sweep_of(contents) is not None:
        yield "sweep", lambda: sweep_figure(contents, ax)
    if len(contents.table("agreement")):
        yield "agreement", lambda: agreement_figure(contents, ax)
        yield "scores", lambda: scores_figure(contents, heads, roles, ax)
    if all(survival_shape(contents)):
        yield "role-survival", lambda: survival_figure(contents, ax)
    if heads.effects:
        yield "effects", lambda: effects_figure(contents, heads, ax)
    if len(contents.table("correlations")):
        yield "data-sets", lambda: data_sets_figure(contents, heads, ax)
