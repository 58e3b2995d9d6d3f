"""How far work is; what is shown of it, and where, is the caller's business."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar

__all__ = ["Counter", "Progress", "ProgressLike", "counted", "labelled", "phase", "silent"]

T = TypeVar("T")


class Progress(Protocol):
    """Wraps an iterable of known length, in the manner of ``tqdm``."""

    def __call__(self, items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        """Yield `items` unchanged; `label` says in a few words what is being done."""
        ...


ProgressLike: TypeAlias = Progress | bool
"""Who reports progress; True is a bar in a terminal or a notebook, and False nobody."""


class Counter(ABC):
    """Progress that also counts work; see `headtool.engine.metering.Meter`."""

    @abstractmethod
    def __call__(
        self,
        items: Iterable[T],
        *,
        total: int,
        label: str,
        work: Callable[[T], float] | None = None,
    ) -> Iterator[T]:
        """Yield `items` unchanged, each of so many token-passes (None: they count for nothing)."""

    @abstractmethod
    def skip(self, work: float) -> None:
        """Count work that was done earlier, and takes no time now."""

    @abstractmethod
    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Count what is done inside as a phase of the plan, which is over afterwards."""


def silent(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
    """Yield the items and report nothing.

    Parameters
    ----------
    items
        What is worked through.
    total
        How many items there are.
    label
        What is being done.
    """
    yield from items


def counted(
    progress: Progress, items: Iterable[T], *, total: int, label: str, work: Callable[[T], float]
) -> Iterator[T]:
    """Report items with the work in each, where progress counts it.

    Parameters
    ----------
    progress
        Reports the progress.
    items, total, label
        As for `Progress`.
    work
        Token-passes of an item.
    """
    if isinstance(progress, Counter):
        return progress(items, total=total, label=label, work=work)
    return progress(items, total=total, label=label)


def phase(progress: Progress, name: str) -> contextlib.AbstractContextManager[None]:
    """Name a phase of the work, for progress that counts.

    Parameters
    ----------
    progress
        Reports the progress.
    name
        Name of the phase in the plan.
    """
    return progress.phase(name) if isinstance(progress, Counter) else contextlib.nullcontext()


def labelled(progress: Progress, stage: str) -> Progress:
    """Put the name of a stage before every label.

    Parameters
    ----------
    progress
        Reports the progress.
    stage
        Name of the stage; it and a colon go before every label.
    """
    if isinstance(progress, Counter):
        return _Labelled(progress, stage)

    def track(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        return progress(items, total=total, label=f"{stage}: {label}")

    return track


class _Labelled(Counter):
    """A counter whose labels begin with a stage."""

    def __init__(self, inner: Counter, stage: str) -> None:
        self.inner, self.stage = inner, stage

    def __call__(
        self,
        items: Iterable[T],
        *,
        total: int,
        label: str,
        work: Callable[[T], float] | None = None,
    ) -> Iterator[T]:
        return self.inner(items, total=total, label=f"{self.stage}: {label}", work=work)

    def skip(self, work: float) -> None:
        self.inner.skip(work)

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self.inner.phase(name)
