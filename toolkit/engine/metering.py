"""How much of a plan is done, how long it took, and how long the rest will take."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from headtool.progress import Counter, Progress, silent
from headtool.work import Phase

__all__ = ["Display", "Meter"]

T = TypeVar("T")

_OTHER = "other"


@runtime_checkable
class Display(Protocol):
    """Shows how far a plan is; told of it instead of wrapping items as `Progress` does."""

    def begin(self, meter: Meter) -> None:
        """Take a meter whose work is about to begin.

        Parameters
        ----------
        meter
            The meter.
        """

    def step(self, meter: Meter, label: str) -> None:
        """Take notice that something was done.

        Parameters
        ----------
        meter
            The meter.
        label
            What was done.
        """


class Meter(Counter):
    """Counts work against a plan.

    Time is counted by phase and by sort of work (forward passes, backward passes, training,
    decoding). What is left of a phase takes as long a token-pass as its sort of work did, or as all
    work did where there was none of this sort yet.

    Parameters
    ----------
    phases
        The plan.
    show
        A `Display`, or plain progress that wraps the items of each loop.
    clock
        Tells the time in seconds.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        show: Display | Progress = silent,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.phases = tuple(phases)
        self._show = show
        self._clock = clock
        heaviest = sorted(self.phases, key=lambda phase: phase.most)
        self._kind = {phase.name: phase.kind for phase in heaviest}
        self._done: dict[str, float] = defaultdict(float)
        self._over: set[str] = set()
        self._timed: dict[str, tuple[float, float]] = {}  # seconds and token-passes by sort
        self._seconds: dict[str, float] = defaultdict(float)
        self._current = self.phases[0].name if len(self._kind) == 1 else _OTHER
        self._inside = False
        self._began = clock()
        if isinstance(show, Display):
            show.begin(self)

    def __call__(
        self,
        items: Iterable[T],
        *,
        total: int,
        label: str,
        work: Callable[[T], float] | None = None,
    ) -> Iterator[T]:
        """Yield the items, counting the work in each once it is done."""
        shown: Iterable[T] = items
        if not isinstance(self._show, Display):
            shown = self._show(items, total=total, label=label)
        before = self._clock()
        for item in shown:
            yield item  # the work is done in making the item, or by who takes it
            if work is not None:
                now = self._clock()
                self._count(work(item), now - before)
                before = now
                if isinstance(self._show, Display):
                    self._show.step(self, label)

    def skip(self, work: float) -> None:
        """Count work that was done earlier."""
        self._done[self._current] += work

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what is done inside as a phase; what was planned of it and not needed is dropped.

        Parameters
        ----------
        name
            Its name. One that is not in the plan counts for the phase that is around it.
        """
        if self._inside and name not in self._kind:
            yield
            return
        before = self._current, self._inside
        self._current, self._inside = name, True
        self._over.discard(name)
        started = self._clock()
        try:
            yield
        finally:
            self._seconds[name] += self._clock() - started
            self._over.add(name)
            self._current, self._inside = before

    @property
    def current(self) -> str:
        """Name of the phase that is under way."""
        return self._current

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began

    @property
    def share(self) -> float:
        """How much of the work is done, from 0 to 1, if nothing that is left ends early."""
        done = sum(self._done.values())
        total = done + sum(most for _, _, most in self._left())
        return done / total if total else 1.0

    def left(self) -> tuple[float, float] | None:
        """How many seconds the rest takes at least and at most; None before anything was timed."""
        seconds = sum(seconds for seconds, _ in self._timed.values())
        work = sum(work for _, work in self._timed.values())
        if not work or not seconds:
            return None
        low = high = 0.0
        for kind, least, most in self._left():
            own_seconds, own_work = self._timed.get(kind, (seconds, work))
            low += least * own_seconds / own_work
            high += most * own_seconds / own_work
        return low, high

    def record(self) -> list[dict[str, Any]]:
        """What was done by phase, as JSON: token-passes, and seconds."""
        names = dict.fromkeys([*(phase.name for phase in self.phases), *self._done])
        return [
            {
                "phase": name,
                "token_passes": round(self._done[name]),
                "seconds": round(self._seconds[name], 3),
            }
            for name in names
            if self._done[name] or self._seconds[name]
        ]

    def _count(self, work: float, seconds: float) -> None:
        name = self._current
        self._done[name] += work
        if not self._inside:
            self._seconds[name] += seconds
        kind = self._kind.get(name, _OTHER)
        before = self._timed.get(kind, (0.0, 0.0))
        if work:
            self._timed[kind] = before[0] + seconds, before[1] + work

    def _left(self) -> Iterator[tuple[str, float, float]]:
        """Sort of work, and token-passes at least and at most, of each phase that is not over."""
        for name, kind in self._kind.items():
            if name not in self._over:
                parts = [phase for phase in self.phases if phase.name == name]
                least, most = sum(part.least for part in parts), sum(part.most for part in parts)
                yield kind, max(0.0, least - self._done[name]), max(0.0, most - self._done[name])
