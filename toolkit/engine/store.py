"""Results of finished units, kept in a folder until the run is written."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from headtool.engine.units import Unit, UnitResult
from headtool.errors import StorageError
from headtool.reading import read_file
from headtool.results.folders import check_output, holds_work, unfinished_folder
from headtool.results.replacing import discard

__all__ = ["UnitStore", "store_beside"]

_CHECKSUM = "checksum"
_DESCRIPTION = "description.json"
_LOCK = "lock"
# What numpy, zipfile and zlib raise for bytes that are no archive of arrays.
_DAMAGE = (
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    ArithmeticError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class UnitStore:
    """Results of finished units in a folder of their own.

    If the block raises before any is finished, the folder goes.

    Parameters
    ----------
    folder
        The folder; made where missing.
    description
        What the units belong to. A folder that holds units of something else is refused.

    Raises
    ------
    StorageError
        If another process is at work there, or the folder is of another run.
    """

    def __init__(self, folder: Path, description: Mapping[str, object]) -> None:
        self.folder = folder
        self._key = json.dumps(description, sort_keys=True, indent=1)
        self._stack = contextlib.ExitStack()
        self._absent: list[Path] = []

    def __enter__(self) -> UnitStore:
        self._absent = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            self._check()  # nothing is put into a folder of something else
            self.folder.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(FileLock(self.folder / _LOCK).acquire(timeout=0))
            if not self._check():
                _write_whole(self.folder / _DESCRIPTION, self._key.encode())
        except Timeout:
            self._stack.close()
            raise StorageError(
                f"another process is at work in {self.folder}; wait for it, or choose another `out`"
            ) from None
        except OSError as error:
            if self.folder in self._absent:
                self._remove()
            self._stack.close()
            raise self._unwritable(error) from error
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not holds_work(self.folder):
            self._remove()
        self._stack.close()

    def _remove(self) -> None:
        """Remove the folder, and those above it that were made for it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # somebody else put something there
            for path in self._absent:
                if path.exists():
                    path.rmdir()

    def _check(self) -> bool:
        """Whether the folder is this run's already; one of something else is refused."""
        path = self.folder / _DESCRIPTION
        if not os.path.lexists(path):
            own = {_LOCK, path.with_suffix(".tmp").name}
            if self.folder.is_dir() and any(held.name not in own for held in self.folder.iterdir()):
                raise StorageError(
                    f"{path} is missing, which says what the rest of the folder is of; delete "
                    f"{self.folder} to start again, or choose another `out`"
                )
            return False
        try:
            held = read_file(path)
        except OSError as error:
            raise StorageError(
                f"cannot read {path}: {error.strerror}; delete {self.folder} to start again"
            ) from error
        if held != self._key.encode():
            raise StorageError(
                f"{self.folder} holds an unfinished run of something else (its description.json "
                "says what); delete it, or choose another `out`"
            )
        return True

    def _unwritable(self, error: OSError) -> StorageError:
        if isinstance(error, FileNotFoundError):
            return StorageError(
                f"{self.folder} was removed while the command was at work; give the command again"
            )
        return StorageError(
            f"cannot write {self.folder}: {error.strerror or error}; choose another `out`"
        )

    def load(self, unit: Unit) -> UnitResult | None:
        """Return a finished unit's result, or None."""
        path = self._path(unit)
        damaged = StorageError(f"{path} is damaged; delete it to compute it again")
        try:
            content = io.BytesIO(read_file(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise damaged from error
        try:
            with np.load(content, allow_pickle=False) as arrays:
                result = {name: arrays[name] for name in arrays.files}
                checksum = str(result.pop(_CHECKSUM))
        except _DAMAGE as error:
            raise damaged from error
        if checksum != _checksum(unit, result):
            raise damaged
        return result

    def save(self, unit: Unit, result: UnitResult) -> None:
        """Keep a unit's result; it is there completely or not at all, even after a power cut.

        Parameters
        ----------
        unit
            The unit.
        result
            Its result: arrays by name.
        """
        temporary = self._path(unit).with_suffix(".tmp")
        try:
            with temporary.open("wb") as file:
                checksum = np.array(_checksum(unit, result))
                np.savez(file, allow_pickle=False, **{**result, _CHECKSUM: checksum})
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path(unit))
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()  # a full disk needs the space
            raise self._unwritable(error) from error

    def _path(self, unit: Unit) -> Path:
        return self.folder / f"unit-{unit.number:06d}.npz"


@contextlib.contextmanager
def store_beside(
    folder: Path, description: Mapping[str, object], *, force: bool
) -> Iterator[UnitStore]:
    """Keep what is finished in ``FOLDER.unfinished`` until the run is at `folder`.

    Parameters
    ----------
    folder
        The run to be, which the block writes.
    description
        What makes it the same run; what is left of another one is refused.
    force
        Whether a run at `folder` will be replaced.

    Raises
    ------
    StorageError
        If another process is at work there, or there is something else.
    """
    with UnitStore(unfinished_folder(folder), description) as store:
        check_output(folder, force=force)  # another process may have finished meanwhile
        yield store
        discard(store.folder)


def _checksum(unit: Unit, result: UnitResult) -> str:
    """SHA-256 (hex) of a unit's result, by which a file that was damaged or swapped shows."""
    found = hashlib.sha256(str(unit.number).encode())
    for name, array in sorted(result.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)
