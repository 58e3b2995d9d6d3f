"""Work cut into units that can be done anywhere, kept, and taken up again.

A unit is a batch of examples, for masked runs with a block of masks: a pure function of model, data
and masks. Whoever runs the units, in whatever order, the assembled result is the same to the bit.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headtool.progress import Counter, ProgressLike, counted, silent
from headtool.results.progress_bar import shown

__all__ = [
    "MASKS_PER_UNIT",
    "Executor",
    "Keep",
    "Store",
    "Unit",
    "UnitResult",
    "cut",
    "digest",
    "in_order",
    "in_turn",
    "run_units",
    "unkept",
]

MASKS_PER_UNIT = 64
"""How many masks a unit holds at most."""

UnitResult = Mapping[str, NDArray[Any]]
"""Arrays by name, all that a unit's work has to say.

Of masked runs each is [1 + masks, examples]: the whole model first, then the unit's masks.
"""


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
    """Cut masks x examples into units: a batch and up to 64 masks each, in equal shares.

    Parameters
    ----------
    batches
        Indices of the examples, batch by batch.
    n_masks
        How many masks there are; without any, a unit is a batch.
    """
    count = max(1, math.ceil(n_masks / MASKS_PER_UNIT))
    blocks = [range(n_masks * i // count, n_masks * (i + 1) // count) for i in range(count)]
    pairs = [(index, masks) for index in batches for masks in blocks]
    return [Unit(number, index, masks) for number, (index, masks) in enumerate(pairs)]


class Store(Protocol):
    """Keeps the results of units while a run is unfinished; see `headtool.engine.store`."""

    def load(self, unit: Unit) -> UnitResult | None:
        """Return a finished unit's result, or None."""

    def save(self, unit: Unit, result: UnitResult) -> None:
        """Keep a unit's result.

        Parameters
        ----------
        unit
            The unit.
        result
            Its result: arrays by name.
        """


def run_units(
    units: Sequence[Unit],
    prepare: Callable[[], Callable[[Unit], UnitResult]],
    *,
    label: str,
    execute: Executor = in_turn,
    store: Store | None = None,
    progress: ProgressLike = silent,
    work: Callable[[Unit], float] = lambda unit: 0.0,
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
        Reports progress; True shows a bar.
    work
        Token-passes of a unit; see `headtool.work`.
    """
    progress, missing = shown(progress), []
    for unit in units:
        kept = store.load(unit) if store else None
        if kept is None:
            missing.append(unit)
        else:
            if isinstance(progress, Counter):
                progress.skip(work(unit))
            yield unit, kept
    if not missing:
        return
    done = execute(missing, prepare())
    reported = counted(
        progress, done, total=len(missing), label=label, work=lambda item: work(item[0])
    )
    for unit, result in reported:
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


def digest(texts: Sequence[str]) -> str:
    """SHA-256 over texts, for descriptions."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
