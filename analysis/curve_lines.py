"""From the masks of curves to the lines that are drawn, each different mask numbered once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.curve_bootstrap import Line
from headtool.heads import HeadMask, Sites
from headtool.masks.curves import CurveMasks

__all__ = ["MaskNumbers", "lines_of"]


class MaskNumbers:
    """Different masks in the order of their first use, so that each is evaluated once."""

    def __init__(self) -> None:
        self._numbers: dict[HeadMask, int] = {}

    def add(self, mask: HeadMask) -> int:
        """Return the number of a mask; -1 for the one that closes nothing: the whole model."""
        if mask.open.all():
            return -1
        return self._numbers.setdefault(mask, len(self._numbers))

    @property
    def masks(self) -> tuple[HeadMask, ...]:
        """The masks by number."""
        return tuple(self._numbers)


def lines_of(
    masks: CurveMasks,
    again: Mapping[str, NDArray[np.bool_]],
    model: Sites,
    number: Callable[[HeadMask], int],
    *,
    again_tied: Mapping[str, NDArray[np.bool_]] | None = None,
    again_at: Sequence[int] | None = None,
) -> list[Line]:
    """Turn masks into curves, giving every mask its number.

    Parameters
    ----------
    masks
        What is closed at every point.
    again
        What the methods close if they select on the evaluation examples.
    model
        All sites of the model.
    number
        Gives a mask its number, such as `MaskNumbers.add`.
    again_tied
        As `CurveMasks.tied`, of `again`.
    again_at
        Places of the points that `again` is measured at; None for all.
    """

    def numbers(closed: NDArray[np.bool_]) -> NDArray[np.int64]:
        rows = closed.reshape(-1, closed.shape[-1])
        found = [number(masks.mask(row, model)) for row in rows]
        return np.array(found, dtype=np.int64).reshape(closed.shape[:-1])

    total = masks.sites.n_heads
    everywhere = range(len(masks.budgets))
    lines = []
    for chosen, tied, is_again in (
        (masks.closed, masks.tied, False),
        (again, again_tied or {}, True),
    ):
        for name, closed in chosen.items():
            at = list(everywhere if again_at is None or not is_again else again_at)
            orders = numbers(tied[name][:, at]) if name in tied else None
            budgets, own = tuple(masks.budgets[place] for place in at), numbers(closed[at])
            lines.append(Line(masks.kind, name, budgets, total, own, again=is_again, orders=orders))
    if masks.dealt is not None:
        points = [number(masks.mask(closed, model)) for closed in np.moveaxis(masks.dealt, 1, 0)]
        lines.append(
            Line(masks.kind, "random", masks.budgets, total, np.array([points]), is_dealt=True)
        )
    if len(masks.random):
        lines.append(Line(masks.kind, "random", masks.budgets, total, numbers(masks.random)))
        lines += [
            Line(masks.kind, f"random-matched:{name}", masks.budgets, total, numbers(closed), name)
            for name, closed in masks.matched.items()
        ]
    return lines
