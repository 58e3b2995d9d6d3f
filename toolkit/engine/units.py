"""Work cut into units that can be done anywhere, kept, and taken up again.

A unit is a batch of examples, for masked runs with a block of masks: a pure function of model, data
and masks. Whoever runs the units, in whatever order, the assembled result is the same to the bit.
"""

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from headtool.errors import HeadtoolError
from headtool.progress import Progress, silent
from headtool.reading import read_file

__all__ = [
    "Executor",
    "Keep",
    "Unit",
    "UnitResult",
    "UnitStore",
    "cut",
    "in_order",
    "in_turn",
    "run_units",
    "unkept",
]

_MASKS_PER_UNIT = 64

UnitResult = Mapping[str, NDArray[Any]]
"""Arrays by name, all that a unit's work has to say.

Of masked runs each is [1 + masks, examples]: the whole model first, then the unit's masks.
"""


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


@dataclass(frozen=True)
class Unit:
    """Some masks on some examples.

    Attributes
    ----------
    number
        Its place among the units of a run.
    examples
        Indices of the examples, which form one batch.
    masks
        Numbers of the masks.
    """

    number: int
    examples: NDArray[np.int64]
    masks: range


Keep = Callable[[str, Callable[[], Mapping[str, NDArray[Any]]]], Mapping[str, NDArray[Any]]]
"""Takes the name of a part of some work and what computes its arrays; returns them.

Where a run is kept while it is unfinished, a part that was finished before is not computed again.
"""


def unkept(
    name: str, compute: Callable[[], Mapping[str, NDArray[Any]]]
) -> Mapping[str, NDArray[Any]]:
    """Compute a part, and keep nothing; see `Keep`.

    Parameters
    ----------
    name
        Name of the part.
    compute
        Computes it.
    """
    return compute()


Executor = Callable[
    [Sequence[Unit], Callable[[Unit], UnitResult]], Iterator[tuple[Unit, UnitResult]]
]
"""Runs units with a function and yields each with its result, in any order.

The one seam for other ways to run them: over processes or machines, say. Every primitive and every
method takes one as `execute`.
"""


def in_turn(
    units: Sequence[Unit], work: Callable[[Unit], UnitResult]
) -> Iterator[tuple[Unit, UnitResult]]:
    """Run the units one after the other in this process; see `Executor`.

    Parameters
    ----------
    units
        The units.
    work
        Runs one of them.

    Yields
    ------
    tuple
        Each unit with its result.
    """
    for unit in units:
        yield unit, work(unit)


def cut(batches: Sequence[NDArray[np.int64]], n_masks: int = 0) -> list[Unit]:
    """Cut masks x examples into units: a batch and up to 64 masks each.

    Parameters
    ----------
    batches
        Indices of the examples, batch by batch.
    n_masks
        How many masks there are; without any, a unit is a batch.
    """
    blocks = [
        range(start, min(start + _MASKS_PER_UNIT, n_masks))
        for start in range(0, max(1, n_masks), _MASKS_PER_UNIT)
    ]
    pairs = [(index, masks) for index in batches for masks in blocks]
    return [Unit(number, index, masks) for number, (index, masks) in enumerate(pairs)]


def run_units(
    units: Sequence[Unit],
    prepare: Callable[[], Callable[[Unit], UnitResult]],
    *,
    label: str,
    execute: Executor = in_turn,
    store: UnitStore | None = None,
    progress: Progress = silent,
) -> Iterator[tuple[Unit, UnitResult]]:
    """Yield all units with their results: first those that are kept, then as they are finished.

    Parameters
    ----------
    units
        What is to be done.
    prepare
        Makes what runs a unit; called only if one is missing.
    label
        What is being done, for `progress`.
    execute
        Who runs the units.
    store
        Keeps finished units; those that it has already are not computed again.
    progress
        Reports progress.
    """
    missing = []
    for unit in units:
        kept = store.load(unit) if store else None
        if kept is None:
            missing.append(unit)
        else:
            yield unit, kept
    if not missing:
        return
    done = execute(missing, prepare())
    for unit, result in progress(done, total=len(missing), label=label):
        if store:
            store.save(unit, result)
        yield unit, result


def in_order(done: Iterable[tuple[Unit, UnitResult]]) -> Iterator[tuple[Unit, UnitResult]]:
    """Yield units by their numbers, which start at zero; hold back those that come too early."""
    early: dict[int, tuple[Unit, UnitResult]] = {}
    wanted = 0
    for unit, result in done:
        early[unit.number] = unit, result
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


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


def digest(texts: Sequence[str]) -> str:
    """SHA-256 over texts, for descriptions."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)
