"""One line for a whole command: what it will cost, then how far it is and how long the rest takes.

On a terminal that is a bar; elsewhere a plain line at most every 30 seconds. Work of less than two
seconds shows nothing at all. Everything goes to stderr.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from headtool.engine.metering import Meter
    from headtool.experiments.planning import Plan

__all__ = ["Bar", "shown_progress"]

T = TypeVar("T")

_WORTH = 2.0  # seconds; less work than that is not spoken of
_EVERY = 30.0  # seconds between lines where there is no terminal
_PLAIN = 5e10  # operations a second of a processor without haste, before anything was timed
_RANGE = 1.5  # where least and most are further apart than this, both are told


class Bar:
    """Shows a meter; see `headtool.engine.metering.Display`.

    Parameters
    ----------
    console
        Where to; None: nowhere.
    dry_run
        Takes the plan, with its speed, instead of letting the work begin.
    workers
        Over how many workers the work is spread.
    status
        Says in a few words how the work stands, such as who is at work.
    clock
        Tells the time in seconds.
    """

    def __init__(
        self,
        console: Console | None,
        *,
        dry_run: Callable[[Plan], None] | None = None,
        workers: int = 1,
        status: Callable[[], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._dry_run = dry_run
        self._workers = workers
        self._status = status
        self._clock = clock
        self._plan: Plan | None = None
        self._told = False
        self._last = 0.0
        self._live: Progress | None = None
        self._began = clock()

    def planned(self, plan: Plan, timed: Callable[[], Plan]) -> None:
        """Say what the work will cost, if it is much; a dry run ends here.

        Parameters
        ----------
        plan
            The plan.
        timed
            Makes the plan with its speed.
        """
        if self._dry_run is not None:
            self._dry_run(replace(timed(), workers=self._workers))
            raise typer.Exit
        self._plan, self._told = plan, False
        total = plan.total
        if (total["forward_flops"] + total["backward_flops"]) / _PLAIN / self._workers >= _WORTH:
            self._tell()

    def begin(self, meter: Meter) -> None:
        """Start the clock.

        Parameters
        ----------
        meter
            What counts the work.
        """
        self._began = self._last = self._clock()

    def step(self, meter: Meter, label: str) -> None:
        """Show how far the work is.

        Parameters
        ----------
        meter
            What counts the work.
        label
            What was done.
        """
        left = meter.left()
        if self._console is None or left is None:
            return
        elapsed = self._clock() - self._began
        if not self._told and elapsed + left[1] < _WORTH:
            return
        self._tell()
        name = label if meter.current in label else f"{meter.current}: {label}"
        if self._console.is_terminal:
            self._update(name, meter.share, left)
            return
        if self._last == self._began or self._clock() - self._last >= _EVERY:
            self._last = self._clock()
            done = f"{meter.share:.0%} after {_clock_time(elapsed)}"
            self._print(f"{name}: {done}, {_range(left)} left{self._standing(', ')}")

    def __call__(self, items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        """Yield items of work that nobody planned."""
        yield from items

    def close(self) -> None:
        """Remove the bar."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _tell(self) -> None:
        if self._plan is not None and not self._told:
            self._print(summary(self._plan))
        self._told = True

    def _update(self, name: str, share: float, left: tuple[float, float]) -> None:
        assert self._console is not None
        if self._live is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]} left{task.fields[standing]}"),
            )
            self._live = Progress(*columns, console=self._console, transient=True)
            self._live.start()
            self._task = self._live.add_task(name, total=1.0, left="", standing="")
        self._live.update(
            self._task,
            description=name,
            completed=share,
            left=_range(left),
            standing=self._standing(" "),
        )

    def _standing(self, before: str) -> str:
        """How the work stands, if there is anything to say."""
        said = "" if self._status is None else self._status()
        return before + said if said else ""

    def _print(self, text: str) -> None:
        if self._console is not None:
            with contextlib.suppress(OSError):  # nobody listens
                self._console.print(text, style="dim", soft_wrap=True, highlight=False)


@contextlib.contextmanager
def shown_progress(
    console: Console | None,
    *,
    dry_run: Callable[[Plan], None] | None = None,
    workers: int = 1,
    status: Callable[[], str] | None = None,
) -> Iterator[Bar]:
    """Show progress while the block runs.

    Parameters
    ----------
    console, dry_run, workers, status
        As for `Bar`.
    """
    bar = Bar(console, dry_run=dry_run, workers=workers, status=status)
    try:
        yield bar
    finally:
        bar.close()


def summary(plan: Plan) -> str:
    """Say in a line what a plan comes to.

    Parameters
    ----------
    plan
        The plan.
    """
    total = plan.total
    parts = []
    for name, words in (("forward", "forward"), ("backward", "backward"), ("decoded", "decoding")):
        if total[name]:
            parts.append(f"{_number(total[name])} {words}")
    examples = max((phase.examples for phase in plan.phases), default=0)
    tokens = max((phase.tokens for phase in plan.phases), default=0)
    most = any(phase.passes.least < 1 for phase in plan.phases)
    passes = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    flops = total["forward_flops"] + total["backward_flops"]
    unknown = f"; unknown: {', '.join(plan.unknown)}" if plan.unknown else ""
    return (
        f"plan: {'at most ' if most else ''}{passes or 'no'} passes over up to {examples:,} "
        f"examples ({tokens:,} tokens), {flops:.1e} operations{unknown}"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def _range(left: tuple[float, float]) -> str:
    low, high = left
    if high <= _RANGE * low:
        return f"about {_clock_time((low + high) / 2)}"
    return f"{_clock_time(low)} to {_clock_time(high)}"


def _clock_time(seconds: float) -> str:
    whole = round(seconds)
    minutes, hours = whole // 60 % 60, whole // 3600
    if hours:
        return f"{hours}:{minutes:02d}:{whole % 60:02d}"
    return f"{minutes}:{whole % 60:02d}"
