"""Where output goes: results to stdout; progress, notes and errors to stderr."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from headtool.cli.fields import with_options
from headtool.progress import Progress as ProgressProtocol
from headtool.progress import silent
from headtool.reports.wording.text import visible

__all__ = ["complain", "note", "out", "prepare_messages", "progress_bar", "this_command"]

T = TypeVar("T")

_WIDE = 160  # columns of a result that goes to a file or a pipe


def out() -> Console:
    """Return the console for results. A terminal keeps its width; a pipe is given enough of it."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def _stderr() -> Console:
    return Console(stderr=True)


def note(text: str, *, quiet: bool = False) -> None:
    """Tell the user something in passing, on a line of its own on stderr.

    Parameters
    ----------
    text
        The note; names of fields in it become options.
    quiet
        Print nothing.
    """
    if not quiet:
        _say(Text(visible(with_options(text)), style="dim"))


def complain(text: str) -> None:
    """Tell the user, on one line, what to put right; fields become options."""
    _say(Text(f"error: {visible(with_options(text))}", style="red"))


def _say(text: Text) -> None:
    with contextlib.suppress(OSError):  # nobody listens, and the exit code still tells
        _stderr().print(text, soft_wrap=True)


def this_command() -> str:
    """Return the command line as typed, for a shell."""
    return shlex.join(["headtool", *sys.argv[1:]])


@contextlib.contextmanager
def progress_bar(
    *, quiet: bool, status: Callable[[], str] | None = None
) -> Iterator[ProgressProtocol]:
    """Show progress on stderr where that is a terminal.

    Parameters
    ----------
    quiet
        Show none.
    status
        Says in a few words how the work stands, such as who is at work.
    """
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
        *(() if status is None else (_Status(status),)),
    )
    with Progress(*columns, console=console, transient=True) as bars:

        def track(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
            task = bars.add_task(label, total=total)
            for item in items:
                yield item
                bars.advance(task)
            bars.remove_task(task)

        yield track


class _Status(ProgressColumn):
    """A column that says how the work stands."""

    def __init__(self, status: Callable[[], str]) -> None:
        super().__init__()
        self.status = status

    def render(self, task: Task) -> Text:
        """Ask anew each time."""
        return Text(self.status(), style="dim")


def prepare_messages(*, quiet: bool = False, verbose: bool = False) -> None:
    """Show headtool's own warnings as notes, and no chatter of the libraries underneath.

    Call it before the libraries are imported: some read their settings only then.

    Parameters
    ----------
    quiet
        Show no notes either.
    verbose
        Let the libraries say what they have to say.
    """
    own = logging.getLogger("headtool")
    own.handlers = [logging.NullHandler() if quiet else _Notes()]
    own.propagate = False
    own.setLevel(logging.INFO if verbose else logging.NOTSET)
    if verbose:
        return
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DATASETS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    warnings.simplefilter("ignore")
    # Records that no handler takes would go to stderr.
    logging.getLogger().addHandler(logging.NullHandler())


class _Notes(logging.Handler):
    """Show log records as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())
