"""Output folders: checked before any work, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headtool.errors import HeadtoolError, StorageError
from headtool.reading import read_file, read_json
from headtool.results.replacing import discard, longest_name, replacing, sweep

__all__ = [
    "AGAIN",
    "MANIFEST",
    "PRUNED_RECORD",
    "SCHEMA",
    "check_output",
    "describe_file",
    "holds_work",
    "new_folder",
    "read_described",
    "same_content",
    "unfinished_folder",
]


SCHEMA = "headtool/run/1"


MANIFEST = "manifest.json"


AGAIN = "make the run again with the command in its manifest"


PRUNED_RECORD = "headtool-pruned.json"


def check_output(folder: Path | None, *, force: bool) -> None:
    """Refuse, before any work is done, an output folder that could not be written later.

    What killed commands left of it is removed; what can be continued stays.

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
        missing, above = _missing_parents(folder)
        for path in (*missing, longest_name(folder)):
            _exists(above / path.name)  # or the name is too long
        _clear(folder)
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
        with tempfile.TemporaryFile(dir=above):
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
    missing: list[Path] = []
    try:
        place = folder.resolve()  # behind a link lies the folder that is replaced
        missing, _ = _missing_parents(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place, force=force) as made:
            made.mkdir()
            mode = made.stat().st_mode
            yield made
            for path in made.rglob("*"):  # some libraries let nobody else read what they write
                if path.is_file():
                    path.chmod(mode & 0o666)
    except (OSError, SafetensorError) as error:
        raise _unwritable(folder, error) from error
    finally:
        for above in missing:
            with contextlib.suppress(OSError):  # it holds the new folder
                above.rmdir()


def holds_work(unfinished: Path) -> bool:
    """Whether anything finished is kept in the folder of an unfinished run.

    Parameters
    ----------
    unfinished
        The folder.
    """
    kinds = ("unit-*.npz", "*/unit-*.npz", f"*/{MANIFEST}")
    return any(True for kind in kinds for _ in unfinished.glob(kind))


def same_content(kept: Path, place: Path) -> bool:
    """Whether two files are there and hold the same.

    Parameters
    ----------
    kept, place
        The files.
    """
    try:
        return read_file(kept) == read_file(place)
    except (OSError, HeadtoolError):
        return False


def _clear(folder: Path) -> None:
    """Remove what killed commands left of a run, unless it can be continued."""
    unfinished = unfinished_folder(folder)
    sweep(folder.resolve())
    sweep(unfinished)
    # The copy of the manifest tells that this is the work which became the run.
    if same_content(unfinished / MANIFEST, folder / MANIFEST):
        discard(unfinished)


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


def _unwritable(folder: Path, error: Exception) -> StorageError:
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())
    return StorageError(f"cannot write {folder}: {reason}; choose another `out`")


def describe_file(path: Path) -> dict[str, Any]:
    """Return a file's size in ``bytes`` and its ``sha256``, for the manifest."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def read_described(path: Path, expected: Mapping[str, Any]) -> bytes:
    """Read a file of a run.

    Parameters
    ----------
    path
        The file.
    expected
        What `describe_file` said of it when it was written.

    Raises
    ------
    HeadtoolError
        If it is missing, or not the file that was written.
    """
    try:
        content = read_file(path)
    except FileNotFoundError:
        raise HeadtoolError(f"{path} is missing from the run; {AGAIN}") from None
    except OSError as error:
        raise HeadtoolError(f"{path} cannot be read: {error.strerror}; {AGAIN}") from error
    if {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} != expected:
        raise HeadtoolError(f"{path} is damaged: it is not the file that the run wrote; {AGAIN}")
    return content
