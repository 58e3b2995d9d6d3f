"""Plan a command without running it: `headtool.plan`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from headtool.errors import HeadtoolError, unknown
from headtool.experiments.planning import Plan, Planned

__all__ = ["COMMANDS", "plan"]

T = TypeVar("T")

COMMANDS = {
    "ablate": "headtool.experiments.ablation:ablate",
    "ablate_sequentially": "headtool.experiments.sequential:ablate_sequentially",
    "compare": "headtool.experiments.compare:compare",
    "correlate": "headtool.experiments.correlation:correlate",
    "curve": "headtool.experiments.compare:curve",
    "dynamics": "headtool.experiments.dynamics:dynamics",
    "prune": "headtool.experiments.pruning:prune",
    "roles": "headtool.experiments.roles:roles",
    "score": "headtool.experiments.score:score",
    "speed": "headtool.experiments.speed:speed",
    "validate": "headtool.experiments.validation:validate",
}
"""What can be planned, and where it is."""


def plan(command: str, *given: Any, workers: int = 1, timed: bool = False, **options: Any) -> Plan:
    """Say what a command will cost: passes, operations, memory and time. Nothing is written.

    The model and the data are loaded and everything is checked as the command would; then it stops.

    Parameters
    ----------
    command
        Name of the function that would run: ``ablate``, ``ablate_sequentially``, ``compare``,
        ``correlate``, ``curve``, ``dynamics``, ``prune``, ``roles``, ``score``, ``speed`` or
        ``validate``.
    given
        Its positional arguments, such as model and data.
    workers
        Over how many workers the work would be spread, each as fast as this machine.
    timed
        Time the model on one batch, so that the plan has seconds.
    options
        Its further arguments.

    Returns
    -------
    Plan
        With a row per part of the command.

    Raises
    ------
    HeadtoolError
        If there is no such command, or it refuses its arguments.

    Examples
    --------
    >>> import headtool
    >>> found = headtool.plan("ablate", "builtin:nli", limit=64)
    >>> found.frame[["phase", "what", "examples", "forward"]]
        phase   what  examples  forward
    0  ablate  masks        64     33.0
    >>> found.total["seconds_most"]
    nan
    """
    if command not in COMMANDS:
        raise unknown("command", command, COMMANDS)
    if workers < 1:
        raise HeadtoolError(f"`workers` must be at least 1, got {workers}")
    module, _, name = COMMANDS[command].partition(":")
    try:
        getattr(importlib.import_module(module), name)(
            *given, **options, progress=_Stop(timed=timed)
        )
    except Planned as done:
        return replace(done.plan, workers=workers)
    raise AssertionError(f"{command} began without a plan")


class _Stop:
    """Progress that ends a command as soon as its plan is known."""

    def __init__(self, *, timed: bool) -> None:
        self.timed = timed

    def planned(self, plan: Plan, timed: Callable[[], Plan]) -> None:
        raise Planned(timed() if self.timed else plan)

    def __call__(self, items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        yield from items  # whatever a command does before it knows its plan
