"""SVG written by hand: elements whose every attribute and text is escaped, scales and axes.

Colours are classes of the page's style sheet, so that a figure follows its light and dark theme.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from headtool.reports.colours import DASHES, HUES, Look
from headtool.reports.wording.text import visible

__all__ = ["Scale", "clip", "element", "path", "series_class", "ticks"]


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Write an element; text and attributes are escaped, `Markup` children are not again.

    Attributes that are None are left out; ``class_`` is ``class``, ``data_x`` is ``data-x``.

    Parameters
    ----------
    name
        Such as ``rect``.
    children
        Text and elements; None is left out.
    attributes
        By name, with an underscore for a hyphen; None is left out.

    Examples
    --------
    >>> from headtool.reports.charts.svg import element
    >>> print(element("text", "a < b", x=1.5, class_="name"))
    <text x="1.5" class="name">a &lt; b</text>
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(escape(child) for child in children if child is not None)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def _number(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def series_class(place: int) -> str:
    """Classes of the colour and dash of a model or other series that is no method."""
    return Look(place % len(HUES), place % len(DASHES)).css


def path(points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
    """The ``d`` of a line through the points; a point that is not finite interrupts it.

    Parameters
    ----------
    points
        Positions in pixels.
    closed
        Whether the line returns to its beginning.
    """
    steps, pen_down = [], False
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            pen_down = False
            continue
        steps.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
        pen_down = True
    return "".join(steps) + ("Z" if closed and steps else "")


def clip(text: str, length: int) -> str:
    """Shorten a name in its middle, where names differ least, to at most `length` characters.

    Parameters
    ----------
    text
        The name.
    length
        Most characters.
    """
    line = visible(text)
    if len(line) <= length:
        return line
    tail = (length - 1) // 2
    return f"{line[: length - 1 - tail]}…{line[len(line) - tail :]}"


@dataclass(frozen=True)
class Scale:
    """A linear map from values to positions on the page.

    Attributes
    ----------
    low, high
        Values at its ends.
    start, end
        Positions of these, in pixels.
    """

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(
        cls,
        values: Iterable[float],
        start: float,
        end: float,
        *,
        margin: float = 0.04,
        include: Sequence[float] = (),
    ) -> Scale:
        """Hold all finite values, with a margin of the span at both ends.

        Parameters
        ----------
        values
            What must have room; values that are not finite are left out.
        start, end
            Positions of the ends, in pixels.
        margin
            Room at both ends, as a share of the span of the values.
        include
            Further values that must have room.
        """
        finite = [value for value in (*values, *include) if math.isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        pad = (high - low) * margin or abs(high) * margin or 1.0
        return cls(low - pad, high + pad, start, end)

    def __call__(self, value: float) -> float:
        """Position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values within the scale, about `count` of them."""
        return ticks(self.low, self.high, count)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values from `low` to `high`, about `count` of them.

    Parameters
    ----------
    low, high
        Ends of the axis.
    count
        About how many.

    Examples
    --------
    >>> from headtool.reports.charts.svg import ticks
    >>> ticks(0.48, 0.93)
    [0.5, 0.6, 0.7, 0.8, 0.9]
    """
    raw = (high - low) / max(1, count)
    if not raw > 0 or not math.isfinite(raw):
        return [low]
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw * 0.7)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [round(number * step, decimals) + 0.0 for number in range(first, last + 1)]
