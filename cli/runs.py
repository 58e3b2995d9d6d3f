"""What commands that write a run directory have in common."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from headtool.errors import HeadtoolError

__all__ = ["check_out", "this_command"]


def check_out(folder: Path | None, *, force: bool) -> None:
    """Refuse, before any work is done, an --out that could not be written, or a stray --force."""
    from headtool.runs import check_output

    if folder is not None:
        check_output(folder, force=force)
    elif force:
        raise HeadtoolError("--force replaces a run at --out, which is missing; add --out DIR")


def this_command() -> str:
    """Return the command line as typed, for a shell."""
    return shlex.join(["headtool", *sys.argv[1:]])
