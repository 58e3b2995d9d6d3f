"""A progress bar for notebooks, and for programs in a terminal."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["ProgressBar"]

T = TypeVar("T")

_PAUSE = 0.1  # seconds between two drawings
_WIDTH = 20


class ProgressBar:
    """Show how far the work is: below the cell of a notebook, or on one line of a terminal.

    Give one to anything that takes `progress`. Where stderr is neither, nothing is shown.

    Examples
    --------
    >>> import headtool
    >>> bar = headtool.ProgressBar()
    >>> headtool.score("builtin:nli", limit=8, progress=bar).frame.shape[0]
    32
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn = float("-inf")

    def __call__(self, items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        """Yield `items` unchanged, and show how many of `total` are done.

        Parameters
        ----------
        items
            What is worked through.
        total
            How many items there are.
        label
            What is being done.
        """
        for done, item in enumerate(items):
            self._draw(label, done, total)
            yield item
        self._draw(f"{label}: done", total, total, last=True)

    def _draw(self, label: str, done: int, total: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if now - self._drawn < _PAUSE and not last:
            return
        self._drawn = now
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if hasattr(shell, "kernel"):
            self._draw_in_notebook(sys.modules["IPython.display"], label, done, total)
        elif sys.stderr.isatty():
            full = _WIDTH * done // max(total, 1)
            line = f"{'#' * full}{'.' * (_WIDTH - full)} {done}/{total} {label}"
            print(f"\r\x1b[K{'' if last else line}", end="", file=sys.stderr, flush=True)

    def _draw_in_notebook(self, display: Any, label: str, done: int, total: int) -> None:
        bar = f'<progress value="{done}" max="{max(total, 1)}"></progress>'
        drawing = display.HTML(f"<div>{bar} {done}/{total} {html.escape(label)}</div>")
        if self._handle is None:
            self._handle = display.display(drawing, display_id=True)
        else:
            self._handle.update(drawing)
