"""How far a whole study is: one bar over all of its cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from headtool.engine.metering import Display, Meter
from headtool.progress import Progress, labelled, silent

__all__ = ["Overall", "cell_progress"]

T = TypeVar("T")


class Overall(Meter):
    """Counts cells; of the one under way, its own meter says how far it is.

    What cells take that nothing is known of yet is the mean of those that are done, or what the one
    under way takes.

    Parameters
    ----------
    cells
        How many there are to run.
    clock
        Tells the time in seconds.
    """

    def __init__(self, cells: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__((), silent, clock=clock)
        self.cells = cells
        self.took: list[float] = []
        self.name = ""
        self.meter: Meter | None = None

    def begin(self, name: str) -> None:
        """Take a cell that begins now."""
        self.name, self.meter = name, None

    def end(self, seconds: float) -> None:
        """Take the time of a cell that is done."""
        self.took.append(seconds)
        self.meter = None

    @property
    def current(self) -> str:
        """Name of the cell under way, and which of how many it is."""
        return f"{self.name} ({min(len(self.took) + 1, self.cells)} of {self.cells})"

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1, each cell as much as any other."""
        own = 0.0 if self.meter is None else self.meter.share
        return (len(self.took) + own) / max(1, self.cells)

    def left(self) -> tuple[float, float] | None:
        """How many seconds the rest takes at least and at most; None before anything was timed."""
        own = None if self.meter is None else self.meter.left()
        if self.meter is None or own is None:
            return None
        further = self.cells - len(self.took) - 1
        if self.took:
            mean = sum(self.took) / len(self.took)
            low = high = mean
        else:
            low, high = (self.meter.elapsed + seconds for seconds in own)
        return own[0] + further * low, own[1] + further * high


def cell_progress(show: Progress, overall: Overall) -> Progress:
    """Progress of the cell under way, shown as a part of all.

    Parameters
    ----------
    show
        A `Display`, which is shown one bar over all cells, or plain progress, whose labels get the
        name of the cell.
    overall
        Counts the cells.
    """
    return _Part(show, overall) if isinstance(show, Display) else labelled(show, overall.name)


class _Part:
    """A display of one cell's meter."""

    def __init__(self, show: Display, overall: Overall) -> None:
        self._show, self._overall = show, overall

    def begin(self, meter: Meter) -> None:
        self._overall.meter = meter

    def step(self, meter: Meter, label: str) -> None:
        self._show.step(self._overall, label)

    def __call__(self, items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        yield from items  # work that nobody planned
