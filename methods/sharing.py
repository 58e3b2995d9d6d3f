"""Several methods at once: a pass that more than one reads is made once for all of them."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

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
        self._waiting = list(methods)
        self._ready: list[tuple[Method, Sequence[Reading]]] = []

    def __call__(self, method: Method, job: Job) -> Sequence[Reading]:
        """Return what a method reads; see `headtool.methods.base.Reader`."""
        for place, (other, found) in enumerate(self._ready):
            if other == method:
                del self._ready[place]
                return found
        self._waiting = [other for other in self._waiting if other != method]
        own = method.reads(job)
        sharing = [(method, own), *self._others({pass_of(one) for one in own}, job)]
        if len(sharing) > 1:
            try:
                return self._together(sharing, job)
            except _FAILURES as error:  # whose fault it is shows when each runs alone
                _LOG.info("a shared pass failed, and is made for each method: %s", error)
                self._waiting = []
                own = method.reads(job)
        return _read(own, job)

    def _others(self, passes: set[str], job: Job) -> Iterator[tuple[Method, Sequence[Reading]]]:
        """The methods still to come that read off these passes and no others."""
        for other in self._waiting:
            try:
                theirs = other.reads(job)
            except _FAILURES as error:  # told when it is due
                _LOG.info("%s shares no pass: %s", other.name, error)
                continue
            if theirs and {pass_of(one) for one in theirs} <= passes:
                yield other, theirs

    def _together(
        self, sharing: Sequence[tuple[Method, Sequence[Reading]]], job: Job
    ) -> Sequence[Reading]:
        """Make the passes; keep what the others read, and return what the first does."""
        started = time.perf_counter()
        done = iter(_read([one for _, readings in sharing for one in readings], job))
        ready = [(method, [next(done) for _ in readings]) for method, readings in sharing]
        part = (time.perf_counter() - started) / len(sharing)
        for method, _ in sharing:
            self.owed[method.name] += part
        (first, own), *others = ready
        self.owed[first.name] -= part * len(sharing)
        self._ready += others
        self._waiting = [m for m in self._waiting if all(m != other for other, _ in others)]
        return own


def _read(readings: Sequence[Reading], job: Job) -> Sequence[Reading]:
    return read_together(
        job.model, job.examples, readings, execute=job.execute, progress=job.progress
    )
