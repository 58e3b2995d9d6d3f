"""Keep other software's messages from the user's terminal."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["no_bars", "no_stderr", "only_errors", "silence"]


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep fairseq quiet, and undo what its import does to the logging of the whole process."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)


@contextlib.contextmanager
def only_errors(name: str) -> Iterator[None]:
    """Keep a library's log to errors.

    Parameters
    ----------
    name
        Its logger.
    """
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def no_stderr() -> Iterator[None]:
    """Hide what the profiler's C++ code writes when it starts and stops."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """Hide the progress bars of transformers and huggingface_hub."""
    from transformers.utils import logging as transformers_logging

    bars: Any = transformers_logging  # it sees to those of huggingface_hub as well
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
