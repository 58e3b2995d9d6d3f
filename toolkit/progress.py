"""How long work reports its progress; what is shown, and where, is the caller's business."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

__all__ = ["Progress", "labelled", "silent"]

T = TypeVar("T")


class Progress(Protocol):
    """Wraps an iterable of known length, in the manner of ``tqdm``."""

    def __call__(self, items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        """Yield `items` unchanged; `label` says in a few words what is being done."""
        ...


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


def labelled(progress: Progress, stage: str) -> Progress:
    """Put the name of a stage before every label.

    Parameters
    ----------
    progress
        Reports the progress.
    stage
        Name of the stage; it and a colon go before every label.
    """

    def track(items: Iterable[T], *, total: int, label: str) -> Iterator[T]:
        return progress(items, total=total, label=f"{stage}: {label}")

    return track
