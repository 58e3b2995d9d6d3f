"""What charts of several methods share: the colour of each, and an axis for all panels."""

from __future__ import annotations

from collections.abc import Sequence

from headtool.reports.charts.svg import Scale
from headtool.reports.colours import look_of
from headtool.reports.contents.run import Contents

__all__ = ["method_class", "shared_span"]


def method_class(contents: Contents, method: str) -> str:
    """Classes of a method's colour and dash; any other name is taken for random masks.

    Parameters
    ----------
    contents
        The run.
    method
        One of its methods, or the name of a baseline.
    """
    return look_of(method).css if method in contents.methods else "random"


def shared_span(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis that several panels share."""
    scale = Scale.around(values, 0.0, 1.0)
    return scale.low, scale.high
