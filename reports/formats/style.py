"""How figures for a paper look: fonts that journals take (Type 42), sizes, colours, dashes."""

from __future__ import annotations

from typing import Any

from headtool.reports.colours import DASHES, HUES, Look, look_of
from headtool.reports.contents.run import Contents

__all__ = [
    "DYNAMICS_STYLE",
    "FIGURE_STYLE",
    "GREY",
    "WIDTH",
    "line_style",
    "method_style",
]

GREY = "#6F757C"
"""Random masks, heads without a verdict or role, and rules."""

WIDTH = 5.5
"""Inches: the text width of most conferences."""

DYNAMICS_STYLE: Any = {
    "pdf.fonttype": 42,
    "svg.hashsalt": "headtool",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "text.parse_math": False,  # a name with dollar signs is a name
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
}
"""Matplotlib settings of the figure of dynamics, which all figures share."""

FIGURE_STYLE: Any = {
    **DYNAMICS_STYLE,
    "ps.fonttype": 42,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.4,
}
"""Matplotlib settings of the figures of a run."""


def method_style(contents: Contents, method: str) -> dict[str, Any]:
    """Colour and dash of a method's curve; thin and grey for random masks.

    Parameters
    ----------
    contents
        The run.
    method
        One of its methods; any other name is taken for random masks.
    """
    if method not in contents.methods:
        return {"color": GREY, "linestyle": "-", "linewidth": 1.0}
    return line_style(look_of(method))


def line_style(look: Look) -> dict[str, Any]:
    """Colour and dash of a line.

    Parameters
    ----------
    look
        Which of them.
    """
    lengths = tuple(float(length) / 1.6 for length in DASHES[look.dash].split())
    return {"color": HUES[look.hue], "linestyle": (0, lengths) if lengths else "-"}
