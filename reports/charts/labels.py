"""Where the names of curves stand: at the widest gap between a curve and all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["HEIGHT", "Box", "at_gaps", "width_of"]

HEIGHT = 14.0
"""Pixels that a name needs from top to bottom."""

_GAP = 4.0  # pixels between a name and its curve
_LEAST = 3.0  # pixels between a name and anything else
_PLACES = 48  # that are tried along a curve


def width_of(text: str) -> float:
    """Pixels that a name needs, about."""
    return 7.4 * len(text)


@dataclass(frozen=True)
class Box:
    """A rectangle on the drawing, in pixels; `top` is the smaller y.

    Attributes
    ----------
    left, right, top, bottom
        Its sides.
    """

    left: float
    right: float
    top: float
    bottom: float

    def apart(self, other: Box) -> float:
        """Pixels between two boxes; 0 where they overlap."""
        across = max(self.left - other.right, other.left - self.right, 0.0)
        up = max(self.top - other.bottom, other.top - self.bottom, 0.0)
        return math.hypot(across, up)


def at_gaps(
    texts: Sequence[str],
    curves: Sequence[Sequence[tuple[float, float]]],
    area: Box,
    taken: Sequence[Box] = (),
) -> list[Box] | None:
    """Find a place beside each curve, as far as can be from all other curves and names.

    Parameters
    ----------
    texts
        The curves' names.
    curves
        Points of each in pixels, from left to right.
    area
        Where names may stand.
    taken
        What they must not cover.

    Returns
    -------
    list of Box, or None
        A place for each name; None if one of them has no room.
    """
    placed: dict[int, Box] = {}
    found = list(taken)
    # The curves that are furthest from others leave most room: they come last.
    for number in sorted(range(len(curves)), key=lambda i: _loneliness(i, curves)):
        others = [curve for i, curve in enumerate(curves) if i != number]
        best = max(
            _candidates(width_of(texts[number]), curves[number], area),
            key=lambda box: _room(box, others, found),
            default=None,
        )
        if best is None or _room(best, others, found) < _LEAST:
            return None
        placed[number] = best
        found.append(best)
    return [placed[number] for number in range(len(curves))]


def _loneliness(number: int, curves: Sequence[Sequence[tuple[float, float]]]) -> float:
    """The widest gap between a curve and the nearest other one."""
    own = curves[number]
    gaps = [
        min((abs(y - other) for c in curves if c is not own for other in _heights(c, x, x)[:1]),
            default=math.inf)
        for x, y in own
    ]  # fmt: skip
    return max(gaps, default=0.0)


def _candidates(width: float, curve: Sequence[tuple[float, float]], area: Box) -> list[Box]:
    """Places above and below a curve, from left to right."""
    if not curve:
        return []
    start = max(area.left, curve[0][0])
    end = min(area.right, curve[-1][0]) - width
    boxes = []
    for step in range(_PLACES + 1):
        left = start + (end - start) * step / _PLACES
        heights = _heights(curve, left, left + width)
        if end < start or not heights:
            continue
        for bottom in (min(heights) - _GAP, max(heights) + _GAP + HEIGHT):
            box = Box(left, left + width, bottom - HEIGHT, bottom)
            if box.top >= area.top and box.bottom <= area.bottom:
                boxes.append(box)
    return boxes


def _room(box: Box, others: Sequence[Sequence[tuple[float, float]]], taken: Sequence[Box]) -> float:
    """Pixels between a place and whatever is nearest; 0 where a curve runs through it."""
    room = min((box.apart(other) for other in taken), default=math.inf)
    for curve in others:
        heights = _heights(curve, box.left - _LEAST, box.right + _LEAST)
        if heights:
            above, below = box.top - max(heights), min(heights) - box.bottom
            room = min(room, max(above, below, 0.0))
    return room


def _heights(curve: Sequence[tuple[float, float]], left: float, right: float) -> list[float]:
    """Heights that a curve takes from `left` to `right`: at both, and at its points between."""
    if not curve or right < curve[0][0] or left > curve[-1][0]:
        return []
    inside = [y for x, y in curve if left <= x <= right]
    ends = []
    for at in (left, right):
        for (x0, y0), (x1, y1) in pairwise(curve):
            if x0 <= at <= x1 and x1 > x0:
                ends.append(y0 + (y1 - y0) * (at - x0) / (x1 - x0))
                break
    return ends + inside
