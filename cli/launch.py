"""How ``compare`` and ``curve`` end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headtool.cli.console import note
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.analysis.comparison import Comparison

__all__ = ["finish"]


def finish(comparison: Comparison, *, quiet: bool) -> None:
    """Say where the run is, and which methods failed.

    The last thing that a command does: all results are printed and kept by now.

    Parameters
    ----------
    comparison
        The comparison.
    quiet
        Do not say where its report is.

    Raises
    ------
    HeadtoolError
        If a method failed.
    """
    if comparison.folder is not None:
        page = comparison.folder / "report.html"
        note(f"written to {comparison.folder}; open {page}", quiet=quiet)
    rows = comparison.failures.to_dict("records")
    if rows:
        reasons = "; ".join(f"{row['method']}: {row['error']}" for row in rows)
        raise HeadtoolError(f"{len(rows)} of the methods failed, the others are above. {reasons}")
