"""Files and folders that appear whole: made in a hidden folder beside their place, then renamed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["discard", "replacing", "sweep"]

_HIDDEN = ".headtool-"
_RANDOM = "x" * 8  # as many letters as tempfile.mkdtemp adds


@contextlib.contextmanager
def replacing(place: Path, *, force: bool = True) -> Iterator[Path]:
    """Give a path to make a file or a folder at, which takes its place when the block ends.

    If the block raises, everything stays as it was. A process that is killed leaves a hidden folder
    beside the place, which `sweep` removes.

    Parameters
    ----------
    place
        The place; its parent exists.
    force
        Whether a folder that lies there is replaced; one that is empty always is.

    Raises
    ------
    OSError
        If it cannot be written, or is there already.
    """
    with _workshop(place) as hidden:
        made = hidden / "new"
        yield made
        if made.is_file():
            os.replace(made, place)
        elif force and place.is_dir():
            _exchange(place, made, hidden / "old")
        else:
            os.rename(made, place)


def discard(folder: Path) -> None:
    """Remove a folder so that all of it is gone at once, even if the process is killed.

    Parameters
    ----------
    folder
        The folder; it may be gone already.
    """
    try:
        with _workshop(folder) as hidden:
            os.rename(folder, hidden / "new")
    except OSError:  # no place for another folder, or not allowed to rename
        shutil.rmtree(folder, ignore_errors=True)


def sweep(place: Path) -> None:
    """Remove what killed processes left hidden beside a place; put back what had stepped aside.

    What another process is still at work on stays.

    Parameters
    ----------
    place
        The place that they were to fill.
    """
    ours = re.compile(rf"{re.escape(_HIDDEN + place.name)}-[a-z0-9_]{{{len(_RANDOM)}}}")
    with contextlib.suppress(OSError):
        for hidden in place.parent.iterdir():
            if ours.fullmatch(hidden.name) and _is_own_folder(hidden):
                _sweep_one(hidden, place)


def longest_name(place: Path) -> Path:
    """Return a path as long as the longest that is made beside a place."""
    return place.with_name(f"{_HIDDEN}{place.name}-{_RANDOM}")


@contextlib.contextmanager
def _workshop(place: Path) -> Iterator[Path]:
    """Hidden folder beside a place, held by a lock as long as somebody is at work in it."""
    from filelock import FileLock

    sweep(place)
    hidden = Path(tempfile.mkdtemp(prefix=f"{_HIDDEN}{place.name}-", dir=place.parent))
    try:
        with FileLock(hidden / "lock").acquire(timeout=0):
            yield hidden
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _exchange(place: Path, made: Path, old: Path) -> None:
    """Put `made` at `place`; what lies there steps aside first and comes back if that fails."""
    try:
        os.rename(place, old)
        os.rename(made, place)
    except BaseException:
        if old.exists() and not place.exists():
            os.rename(old, place)
        raise


def _is_own_folder(path: Path) -> bool:
    """Whether there is a folder of this user's, and no link to one."""
    if path.is_symlink() or not path.is_dir():
        return False
    return not hasattr(os, "geteuid") or path.stat().st_uid == os.geteuid()


def _sweep_one(hidden: Path, place: Path) -> None:
    from filelock import FileLock

    with contextlib.suppress(OSError), FileLock(hidden / "lock").acquire(timeout=0):
        if (hidden / "old").exists() and not place.exists():
            os.rename(hidden / "old", place)
        shutil.rmtree(hidden, ignore_errors=True)
