"""Keep other software's messages from the user's terminal."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator

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
    from huggingface_hub.utils import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )
    from transformers.utils import logging as transformers_logging

    bars = transformers_logging.is_progress_bar_enabled()
    hidden = are_progress_bars_disabled()
    transformers_logging.disable_progress_bar()
    disable_progress_bars()
    try:
        yield
    finally:
        if bars:
            transformers_logging.enable_progress_bar()
        if not hidden:
            enable_progress_bars()
        else:
            disable_progress_bars()
