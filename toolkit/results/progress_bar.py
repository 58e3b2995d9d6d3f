"""A progress bar for notebooks, and for programs in a terminal."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from headtool.progress import Progress, ProgressLike, silent

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

__all__ = ["ProgressBar", "shown"]

T = TypeVar("T")

_PAUSE = 0.1  # seconds between two drawings


def shown(progress: ProgressLike) -> Progress:
    """Return who reports progress: a bar of its own for True, nobody for False.

    Parameters
    ----------
    progress
        What a user gave.
    """
    if isinstance(progress, bool):
        return ProgressBar() if progress else silent
    return progress


class ProgressBar:
    """Show how far the work is: below the cell of a notebook, or on one line of a terminal.

    ``progress=True`` makes one. Where stderr is neither, nothing is shown.

    Examples
    --------
    >>> import headtool
    >>> bar = headtool.ProgressBar()
    >>> headtool.score("builtin:nli", limit=8, progress=bar).frame.shape[0]
    32
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._live: RichProgress | None = None
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
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if hasattr(shell, "kernel"):
            yield from self._in_notebook(items, total, label)
        elif sys.stderr.isatty():
            yield from self._in_terminal(items, total, label)
        else:
            yield from items

    def _is_due(self) -> bool:
        """Whether it is time for the next drawing."""
        now = time.monotonic()
        if now - self._drawn < _PAUSE:
            return False
        self._drawn = now
        return True

    def _in_terminal(self, items: Iterable[T], total: int, label: str) -> Iterator[T]:
        """A line of rich, which is gone when the work is done, or work around it."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        first = self._live is None
        if self._live is None:
            columns = (TextColumn("{task.description}", markup=False), BarColumn())
            times = (MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._live = Progress(
                *(*columns, *times),
                console=Console(stderr=True),
                transient=True,
                auto_refresh=False,
            )
            self._live.start()
        live, self._drawn = self._live, float("-inf")
        task = live.add_task(label, total=total)
        try:
            for done, item in enumerate(items):
                live.update(task, completed=done)
                if self._is_due():
                    live.refresh()
                yield item
        finally:
            live.remove_task(task)
            if first:
                live.stop()
                self._live = None

    def _in_notebook(self, items: Iterable[T], total: int, label: str) -> Iterator[T]:
        for done, item in enumerate(items):
            if self._is_due():
                self._draw(label, done, total)
            yield item
        self._draw(f"{label}: done", total, total)

    def _draw(self, label: str, done: int, total: int) -> None:
        display = sys.modules["IPython.display"]
        bar = f'<progress value="{done}" max="{max(total, 1)}"></progress>'
        drawing = display.HTML(f"<div>{bar} {done}/{total} {html.escape(label)}</div>")
        if self._handle is None:
            self._handle = display.display(drawing, display_id=True)
        else:
            self._handle.update(drawing)
