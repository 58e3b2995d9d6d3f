"""Several methods at once: a pass that more than one reads is made once for all of them."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from headtool.engine.sharing import Reading, pass_of, read_together
from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method
from headtool.methods.checking import BUGS

__all__ = ["SharedPasses"]

_LOG = logging.getLogger("headtool")
_FAILURES = (HeadtoolError, MemoryError, *BUGS)


class SharedPasses:
    """Reads for several methods what they read off the same passes; the numbers stay the same.

    Give it to the `score` of each as `reader`, with the same model, examples, kinds and seed. A
    pass is made when the first method that reads it is due. Methods that read nothing off such
    passes run their own.

    Parameters
    ----------
    methods
        The methods, in the order in which they will be asked for their scores.

    Attributes
    ----------
    owed
        Seconds by method that are to be added to those that its `score` took, so that a pass counts
        in equal parts for all who read it.
    """

    def __init__(self, methods: Sequence[Method]) -> None:
        self.owed: dict[str, float] = defaultdict(float)
        self._waiting = [_Asked(method) for method in methods]

    def __call__(self, method: Method, job: Job) -> Sequence[Reading]:
        """Return what a method reads; see `headtool.methods.base.Reader`."""
        own = next((one for one in self._waiting if one.method == method), _Asked(method))
        self._waiting = [one for one in self._waiting if one is not own]
        if own.is_read:
            return own.readings
        own.ask(job)
        sharing = [own, *self._others({pass_of(one) for one in own.readings}, job)]
        if len(sharing) > 1:
            try:
                self._together(sharing, job)
            except _FAILURES as error:  # whose fault it is shows when each runs alone
                _LOG.info("a shared pass failed, and is made for each method: %s", error)
                self._waiting, own = [], _Asked(method)
                own.ask(job)
        return own.readings if own.is_read else _read(own.readings, job)

    def _others(self, passes: set[str], job: Job) -> list[_Asked]:
        """Those still to come that read off these passes and no others."""
        for one in list(self._waiting):
            try:
                one.ask(job)
            except _FAILURES as error:  # told when it is due
                _LOG.info("%s shares no pass: %s", one.method.name, error)
                self._waiting.remove(one)
        return [
            one
            for one in self._waiting
            if not one.is_read and one.readings and set(map(pass_of, one.readings)) <= passes
        ]

    def _together(self, sharing: Sequence[_Asked], job: Job) -> None:
        """Make the passes that several read."""
        started = time.perf_counter()
        done = iter(_read([reading for one in sharing for reading in one.readings], job))
        for one in sharing:
            one.readings, one.is_read = [next(done) for _ in one.readings], True
        part = (time.perf_counter() - started) / len(sharing)
        for one in sharing:
            self.owed[one.method.name] += part
        self.owed[sharing[0].method.name] -= part * len(sharing)


@dataclass(eq=False)
class _Asked:
    """A method, and what it asks for once it was asked; the results, if it is read."""

    method: Method
    readings: Sequence[Reading] = ()
    is_asked: bool = False
    is_read: bool = False

    def ask(self, job: Job) -> None:
        """Ask the method, once."""
        if not self.is_asked:
            self.readings, self.is_asked = self.method.reads(job), True


def _read(readings: Sequence[Reading], job: Job) -> Sequence[Reading]:
    return read_together(
        job.model, job.examples, readings, execute=job.execute, progress=job.progress
    )
