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
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from headtool.engine.units import Unit, UnitResult
from headtool.errors import HeadtoolError
from headtool.reading import read_file

__all__ = ["UnitStore"]

_CHECKSUM = "checksum"
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
    """Results of finished units in a folder of their own, beside the run they will become.

    Parameters
    ----------
    folder
        The folder; made where missing.
    description
        What the units belong to. A folder that holds units of something else is refused.

    Raises
    ------
    HeadtoolError
        If another process is at work there, or the folder is of another run.
    """

    def __init__(self, folder: Path, description: Mapping[str, object]) -> None:
        self.folder = folder
        self._key = json.dumps(description, sort_keys=True, indent=1)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> UnitStore:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._stack.enter_context(FileLock(self.folder / "lock").acquire(timeout=0))
        except Timeout:
            self._stack.close()
            raise HeadtoolError(
                f"another process is at work in {self.folder}; wait for it, or choose another `out`"
            ) from None
        except OSError as error:
            self._stack.close()
            raise HeadtoolError(f"cannot write {self.folder}: {error.strerror}") from error
        try:
            self._claim()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _claim(self) -> None:
        """Make the folder this run's, or check that it is."""
        path = self.folder / "description.json"
        if not os.path.lexists(path):
            if any(self.folder.glob("unit-*")):
                raise HeadtoolError(
                    f"{path} is missing, which says what the rest of the folder is of; delete "
                    f"{self.folder} to start again"
                )
            _write_whole(path, self._key.encode())
            return
        try:
            held = read_file(path)
        except OSError as error:
            raise HeadtoolError(
                f"cannot read {path}: {error.strerror}; delete {self.folder} to start again"
            ) from error
        if held != self._key.encode():
            raise HeadtoolError(
                f"{self.folder} holds an unfinished run of something else (its description.json "
                "says what); delete it, or choose another `out`"
            )

    def load(self, unit: Unit) -> UnitResult | None:
        """Return a finished unit's result, or None."""
        path = self._path(unit)
        damaged = HeadtoolError(f"{path} is damaged; delete it to compute it again")
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
        try:
            temporary = self._path(unit).with_suffix(".tmp")
            with temporary.open("wb") as file:
                checksum = np.array(_checksum(unit, result))
                np.savez(file, allow_pickle=False, **{**result, _CHECKSUM: checksum})
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path(unit))
        except OSError as error:
            raise HeadtoolError(f"cannot write {self.folder}: {error.strerror}") from error

    def remove_if_empty(self) -> None:
        """Delete the folder if no unit was ever finished in it."""
        if not any(self.folder.glob("unit-*.npz")):
            self.remove()

    def remove(self) -> None:
        """Delete the folder, when the run is written."""
        shutil.rmtree(self.folder)

    def _path(self, unit: Unit) -> Path:
        return self.folder / f"unit-{unit.number:06d}.npz"


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
