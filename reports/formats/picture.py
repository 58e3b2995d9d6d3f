"""A figure that shows itself in a notebook, and is saved with fonts that journals take."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from headtool.reports.formats.style import FIGURE_STYLE

__all__ = ["Picture"]

_NOTEBOOK_DPI = 120


class Picture(Figure):
    """A figure of Matplotlib that belongs to no window: a notebook shows it once, as a value."""

    def _repr_png_(self) -> bytes:
        """Show it in a notebook."""
        held = io.BytesIO()
        self.savefig(held, format="png", dpi=_NOTEBOOK_DPI)
        return held.getvalue()

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save it with the fonts and the size that it was drawn with.

        Parameters
        ----------
        fname, options
            As for Matplotlib's ``savefig``.
        """
        with mpl.rc_context(FIGURE_STYLE):
            super().savefig(fname, **options)
