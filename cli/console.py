"""Where output goes: results to stdout; progress, notes and errors to stderr."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
import warnings

from rich.console import Console
from rich.text import Text

from headtool.cli.fields import with_options
from headtool.reports.wording.text import visible

__all__ = ["complain", "note", "out", "prepare_messages", "stderr", "this_command"]

_WIDE = 160  # columns of a result that goes to a file or a pipe


def out() -> Console:
    """Return the console for results. A terminal keeps its width; a pipe is given enough of it."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def stderr() -> Console:
    """Return the console for everything else."""
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
        stderr().print(text, soft_wrap=True)


def this_command() -> str:
    """Return the command line as typed, for a shell."""
    return shlex.join(["headtool", *sys.argv[1:]])


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
