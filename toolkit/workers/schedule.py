"""Units handed out to workers, results taken in; what a lost worker leaves is done by another."""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from headtool.engine.units import Unit, UnitResult
from headtool.errors import HeadtoolError
from headtool.workers.cluster import node_name
from headtool.workers.worker import About, Task

__all__ = ["Pool"]

_LOG = logging.getLogger("headtool")

_AT_ONCE = 2  # units that a worker has: one that runs, and one that waits
_AHEAD = 64  # units that a worker may be ahead of the first one that is unfinished
_PATIENCE = 180.0  # seconds without any worker
_TRIES = 2  # failures of one unit, or of workers that start, that end a run

State = Literal["starting", "idle", "preparing", "ready"]


@dataclass(eq=False)
class _Member:
    """A worker as the pool sees it.

    Attributes
    ----------
    number
        Counts workers from 0, those that replace others included.
    actor
        Ray's handle.
    node
        Name of its node, once it is known.
    state
        What it is doing.
    models
        Keys of the models that it has.
    units
        What it was given, in the order in which it runs.
    """

    number: int
    actor: Any
    node: str = ""
    state: State = "starting"
    models: frozenset[int] = frozenset()
    units: list[Unit] = field(default_factory=list)


class Pool:
    """Workers, and the units that they run.

    Parameters
    ----------
    count
        How many workers there are to be.
    start
        Starts one: an actor of `headtool.workers.worker.Worker`.
    own
        What this process runs on, which workers are compared with.
    """

    def __init__(self, count: int, start: Callable[[], Any], own: About) -> None:
        self.count, self.start, self.own = count, start, own
        self.members: list[_Member] = []
        self._numbers = itertools.count()
        self._expected: dict[Any, tuple[_Member, Unit | None]] = {}
        self._failed_starts = 0
        self._lonely_since = time.monotonic()
        self._run: _Run | None = None

    @property
    def alive(self) -> int:
        """Workers that have started and are not lost."""
        return sum(member.state != "starting" for member in self.members)

    def run(self, task: Task, units: Sequence[Unit]) -> Iterator[tuple[Unit, UnitResult]]:
        """Run units, and yield each with its result as it is finished.

        Parameters
        ----------
        task
            What runs them.
        units
            The units.

        Raises
        ------
        HeadtoolError
            If a unit fails on two workers, a model cannot be loaded, or no worker can be started.
        """
        self._abandon()  # a run that was left half way, and that nobody has closed yet
        self._run = run = _Run(self, task, units)
        try:
            yield from run.results()
        finally:
            if self._run is run:
                self._abandon()

    def close(self) -> None:
        """End all workers."""
        for member in self.members:
            ray.kill(member.actor)
        self.members.clear()
        self._expected.clear()

    # -- what a run needs ---------------------------------------------------------------------

    def works_on(self, run: _Run) -> bool:
        """Whether a run is the one that is going on."""
        return self._run is run

    def fill(self) -> None:
        """Start workers until there are enough."""
        while len(self.members) < self.count:
            member = _Member(next(self._numbers), self.start())
            self.members.append(member)
            self.expect(member.actor.place.remote(), member)

    def expect(self, reference: Any, member: _Member, unit: Unit | None = None) -> None:
        """Remember whose answer a reference will be.

        Parameters
        ----------
        reference
            What Ray returned for the call.
        member
            The worker that was called.
        unit
            What it was given; None for its start.
        """
        self._expected[reference] = member, unit

    def next(self) -> tuple[_Member, Unit | None, Any]:
        """Wait for an answer; return whose it is, to which unit, and a reference to it."""
        while True:
            found, _ = ray.wait(list(self._expected), num_returns=1, timeout=1.0)
            if self.alive:
                self._lonely_since = time.monotonic()
            if found:
                return *self._expected.pop(found[0]), found[0]
            if time.monotonic() - self._lonely_since > _PATIENCE:
                raise HeadtoolError(
                    f"no worker could be started within {_PATIENCE:.0f} seconds; see ray status "
                    "for what the cluster has left"
                )

    def started(self, member: _Member, node_id: str, found: About) -> None:
        """Take a new worker in, if it computes with what this process computes with.

        Parameters
        ----------
        member
            The worker.
        node_id
            Ray's name of the machine that it runs on.
        found
            What it says of itself.
        """
        member.node, member.state = node_name(node_id), "idle"
        if found.versions != self.own.versions:
            names = sorted(found.versions.keys() | self.own.versions.keys())
            differing = (n for n in names if found.versions.get(n) != self.own.versions.get(n))
            name = next(differing)
            raise HeadtoolError(
                f"node {member.node} has {name} {found.versions.get(name, 'not at all')}, and this "
                f"machine {self.own.versions.get(name, 'not at all')}; install the same everywhere"
            )
        if found.arithmetic != self.own.arithmetic:
            _LOG.warning(
                "node %s computes with %s, this machine with %s: last digits can differ",
                *(member.node, found.arithmetic, self.own.arithmetic),
            )

    def prepared(self) -> None:
        """Note that a worker got as far as to be ready."""
        self._failed_starts = 0

    def lost(self, member: _Member, error: RayError) -> None:
        """Let a worker go that died, or must.

        Parameters
        ----------
        member
            The worker.
        error
            Why.
        """
        self.members.remove(member)
        for reference, (whose, _) in list(self._expected.items()):
            if whose is member:
                del self._expected[reference]
        where = f"on node {member.node} " if member.node else ""
        if member.state in ("starting", "preparing"):
            self._failed_starts += 1
            if self._failed_starts >= _TRIES:
                raise HeadtoolError(
                    f"{_TRIES} workers could not start, the last one {where}: {_line(error)}"
                ) from error
        _LOG.warning(
            "a worker %swas lost (%s); %d of %d are left until another one has started",
            *(where, _line(error), self.alive, self.count),
        )

    def _abandon(self) -> None:
        """Forget what is still expected; results of a run that nobody waits for are not wanted."""
        self._run = None
        for reference, (member, unit) in list(self._expected.items()):
            if unit is not None:
                ray.cancel(reference)
            elif member.state == "starting":
                continue
            del self._expected[reference]
        for member in self.members:
            member.units.clear()
            if member.state != "starting":
                member.state = "idle"


@dataclass(frozen=True)
class _Failure:
    """A unit that failed on a worker."""

    member: _Member
    said: str
    error: BaseException


class _Run:
    """One task's units on a pool."""

    def __init__(self, pool: Pool, task: Task, units: Sequence[Unit]) -> None:
        self.pool, self.task, self.units = pool, task, units
        self.places = {unit.number: place for place, unit in enumerate(units)}
        self.todo = deque(range(len(units)))
        self.done = [False] * len(units)
        self.first = 0  # the first unit that is unfinished
        self.failures: dict[int, _Failure] = {}

    def results(self) -> Iterator[tuple[Unit, UnitResult]]:
        while self.first < len(self.units):
            if not self.pool.works_on(self):
                raise RuntimeError("workers do one task at a time, and another one has begun")
            self.pool.fill()
            self._prepare()
            self._hand_out()
            member, unit, reference = self.pool.next()
            try:
                answer = ray.get(reference)
            except RayTaskError as error:
                self._failed(member, unit, error)
            except RayError as error:
                self._lost(member, error)
            else:
                if unit is not None:
                    member.units.remove(unit)
                    self._finished(unit)
                    yield unit, answer
                elif member.state == "starting":
                    self.pool.started(member, *answer)
                else:
                    member.state, member.models = "ready", self.task.models_in_use
                    self.pool.prepared()

    def _prepare(self) -> None:
        """Let idle workers get ready; of those that must load a model, one a node at a time."""
        wanted = frozenset(model.key for model in self.task.models)
        loading = {
            member.node
            for member in self.pool.members
            if member.state == "preparing" and not wanted <= member.models
        }
        for member in self.pool.members:
            if member.state != "idle":
                continue
            if not wanted <= member.models:
                if member.node in loading:
                    continue
                loading.add(member.node)
            member.state = "preparing"
            self.pool.expect(member.actor.prepare.remote(self.task), member)

    def _hand_out(self) -> None:
        """Give every worker that is ready something to do, and then something to do next.

        The last units wait here instead, for whoever is first to have nothing to do.
        """
        limit = self.first + _AHEAD * self.pool.count
        ready = [member for member in self.pool.members if member.state == "ready"]
        for wanted in range(1, _AT_ONCE + 1):
            for member in ready:
                if len(member.units) >= wanted or (wanted > 1 and len(self.todo) < len(ready)):
                    continue
                place = self._next_for(member)
                if place is None or place > limit:
                    continue
                self.todo.remove(place)
                unit = self.units[place]
                member.units.append(unit)
                self.pool.expect(member.actor.run.remote(unit), member, unit)

    def _next_for(self, member: _Member) -> int | None:
        """The next unit that has not failed on this worker."""
        for place in self.todo:
            failure = self.failures.get(place)
            if failure is None or failure.member is not member:
                return place
        return None

    def _finished(self, unit: Unit) -> None:
        self.done[self.places[unit.number]] = True
        while self.first < len(self.units) and self.done[self.first]:
            self.first += 1

    def _failed(self, member: _Member, unit: Unit | None, error: RayTaskError) -> None:
        """A worker said what went wrong: for the user to put right, or perhaps its own trouble."""
        cause = error.cause if isinstance(error.cause, BaseException) else error
        if isinstance(cause, HeadtoolError):
            if unit is None:
                raise HeadtoolError(f"node {member.node}: {cause}{_remedy(cause)}") from error
            raise cause
        if unit is None:
            self._lost(member, error)
            return
        member.units.remove(unit)
        self._again(unit, _Failure(member, _line(cause), cause))
        # With no other worker to try it on, this one makes room for a new one.
        if not any(o is not member and o.state != "starting" for o in self.pool.members):
            self._lost(member, error, running=False)

    def _lost(self, member: _Member, error: RayError, *, running: bool = True) -> None:
        """A worker is gone: the unit that it was running failed, the one that waited did not."""
        units = list(member.units)
        ray.kill(member.actor)
        self.pool.lost(member, error)
        for unit in reversed(units[1:] if running else units):
            self.todo.appendleft(self.places[unit.number])
        if running and units:
            self._again(units[0], _Failure(member, _line(error), error))

    def _again(self, unit: Unit, failure: _Failure) -> None:
        place = self.places[unit.number]
        if place in self.failures:
            raise HeadtoolError(
                f"unit {place + 1} of {len(self.units)} ({_described(unit)}) failed on "
                f"{_TRIES} workers, the last one on node {failure.member.node}: {failure.said}"
            ) from failure.error
        self.failures[place] = failure
        self.todo.appendleft(place)


def _described(unit: Unit) -> str:
    """Say what a unit is."""
    numbers = sorted((unit.examples + 1).tolist())
    shown = ", ".join(map(str, numbers[:3])) + (", ..." if len(numbers) > 3 else "")
    masks = f", masks {unit.masks.start + 1} to {unit.masks.stop}" if len(unit.masks) else ""
    return f"examples {shown}{masks}"


def _line(error: BaseException) -> str:
    """Say on one line what went wrong."""
    if isinstance(error, RayActorError) and error.actor_init_failed:
        return str(error).strip().splitlines()[-1].strip()
    if isinstance(error, RayError) and not isinstance(error, RayTaskError):
        return _DEATHS.get(type(error).__name__, "its process was killed, or died")
    cause = error.cause if isinstance(error, RayTaskError) else error
    lines = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {lines[0]}" if lines else type(cause).__name__


_DEATHS = {
    "NodeDiedError": "its node was lost",
    "OutOfMemoryError": "its node had no memory left",
    "RuntimeEnvSetupError": "its environment could not be set up",
}


def _remedy(cause: HeadtoolError) -> str:
    return "" if "ship_weights" in str(cause) else "; put the model there, or use `ship_weights`"
