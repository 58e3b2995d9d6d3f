"""Output folders: checked before any work, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headtool.errors import HeadtoolError
from headtool.reading import read_json

__all__ = ["PRUNED_RECORD", "SCHEMA", "check_output", "new_folder", "unfinished_folder"]


SCHEMA = "headtool/run/1"


MANIFEST = "manifest.json"


PRUNED_RECORD = "headtool-pruned.json"


_HIDDEN = ".headtool-"  # how the names of unfinished runs begin


def check_output(folder: Path | None, *, force: bool) -> None:
    """Refuse, before any work is done, an output folder that could not be written later.

    Parameters
    ----------
    folder
        The folder; None for none, which `force` does not go with.
    force
        Whether a run that is there may be replaced.

    Raises
    ------
    HeadtoolError
        If `folder` exists and `force` is not given, if it exists and is no run (which is never
        overwritten), if its parent takes no files, or if there is no folder to force.
    """
    if folder is None:
        if force:
            raise HeadtoolError("`force` replaces a run at `out`, which is missing; give `out`")
        return
    try:
        if folder.resolve() in (Path.cwd(), *Path.cwd().parents):
            raise HeadtoolError(
                f"you are in the folder '{folder}', which a run would replace; choose another `out`"
            )
        taken = _exists(folder)
        if taken and not force:
            raise HeadtoolError(
                f"{folder} exists already; choose another `out` or add `force=True`"
            )
        if taken and not _is_replaceable(folder):
            raise HeadtoolError(
                f"{folder} is no headtool run, so `force=True` does not replace it; choose "
                "another `out`"
            )
        # Nothing may be left behind by a command that fails later, so no folder is made yet.
        with tempfile.TemporaryFile(dir=_missing_parents(folder)[1]):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error


def unfinished_folder(folder: Path) -> Path:
    """Folder beside a run's that keeps what is finished of it while the run is made.

    Parameters
    ----------
    folder
        The run's folder.
    """
    return Path(f"{os.path.abspath(folder)}.unfinished")


@contextlib.contextmanager
def new_folder(folder: Path, *, force: bool) -> Iterator[Path]:
    """Fill a folder that appears at `folder` when the block ends, or, if it raises, not at all.

    Parameters
    ----------
    folder
        Where it is to appear.
    force
        Replace what headtool wrote there before.

    Raises
    ------
    HeadtoolError
        As `check_output`, or if the files cannot be written.
    """
    from safetensors import SafetensorError

    check_output(folder, force=force)
    place = folder.resolve()  # behind a link lies the folder that is replaced
    missing, _ = _missing_parents(place)
    made: Path | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=place.parent))
        made.chmod(0o777 & ~_umask())
        yield made
        _replace(place, made)
    except (OSError, SafetensorError) as error:
        raise _unwritable(folder, error) from error
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        for above in missing:
            with contextlib.suppress(OSError):  # it holds the new folder
                above.rmdir()


def _replace(folder: Path, made: Path) -> None:
    """Put `made` at `folder`; an old run steps aside first and comes back if that fails."""
    if not folder.exists():
        os.rename(made, folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=folder.parent))
    old = aside / "run"
    try:
        os.rename(folder, old)
        os.rename(made, folder)
    except BaseException:
        if old.exists():
            os.rename(old, folder)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exists(path: Path) -> bool:
    """Whether there is anything at `path`, a dangling link included; else why not may be raised."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _missing_parents(folder: Path) -> tuple[list[Path], Path]:
    """Folders above `folder` that do not exist, the innermost first, and the first that does."""
    missing: list[Path] = []
    for above in folder.absolute().parents:
        if _exists(above):
            return missing, above
        missing.append(above)
    raise AssertionError("the root folder exists")


def _is_replaceable(folder: Path) -> bool:
    """Whether headtool wrote a folder, in whatever version, or it is empty."""
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    for name, schema in ((MANIFEST, "headtool/run/"), (PRUNED_RECORD, "headtool/pruned/")):
        try:
            record = read_json(folder / name)
        except (FileNotFoundError, HeadtoolError):
            continue
        if isinstance(record, dict) and str(record.get("schema")).startswith(schema):
            return True
    return False


def _unwritable(folder: Path, error: Exception) -> HeadtoolError:
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())
    return HeadtoolError(f"cannot write {folder}: {reason}; choose another `out`")


def describe_file(path: Path) -> dict[str, Any]:
    """Return a file's size in ``bytes`` and its ``sha256``, for the manifest."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _umask() -> int:
    """Return the process's umask; reading it means setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
