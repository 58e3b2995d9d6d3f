"""Where output goes: results to stdout; progress, notes and errors to stderr."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from headtool.progress import Progress as ProgressProtocol
from headtool.progress import silent

__all__ = ["note", "out", "progress_bar", "quiet_libraries"]

T = TypeVar("T")

_WIDE = 160  # columns of a result that goes to a file or a pipe


def out() -> Console:
    """Return the console for results. A terminal keeps its width; a pipe is given enough of it."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def _stderr() -> Console:
    return Console(stderr=True)


def note(text: str, *, quiet: bool) -> None:
    """Tell the user something in passing."""
    if not quiet:
        _stderr().print(text, style="dim", markup=False, highlight=False)


@contextlib.contextmanager
def progress_bar(*, quiet: bool) -> Iterator[ProgressProtocol]:
    """Show progress on stderr where that is a terminal."""
    console = _stderr()
    if quiet or not console.is_terminal:
        yield silent
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:

        def track(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
            task = bars.add_task(label, total=total)
            for item in items:
                yield item
                bars.advance(task)
            bars.remove_task(task)

        yield track


def quiet_libraries(*, verbose: bool) -> None:
    """Keep the chatter of the libraries underneath from the user, unless they ask for it."""
    if verbose:
        return
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
