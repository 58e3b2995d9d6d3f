"""Pieces of terminal output: a layer x head heat map, and how translations were searched."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.text import Text

__all__ = ["HeatMap", "search_in_words"]

_LOW, _HIGH = (30, 60, 110), (255, 200, 60)  # from dark blue to amber; both ends print in grey


@dataclass(frozen=True)
class HeatMap:
    """Layers down, heads across, brighter for more important within the kind.

    Numbers get as many digits as the terminal has room for.

    Attributes
    ----------
    kind
        Attention kind of the heads.
    rows
        Scores of the heads by layer; what is not finite is a dash.
    """

    kind: str
    rows: dict[int, list[float]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        margin = len(str(max(self.rows))) + 1
        heads = max(map(len, self.rows.values()))
        layouts = list(self._layouts())
        explanation, cells, width = next(
            (layout for layout in layouts if margin + heads * layout[2] <= options.max_width),
            layouts[-1],
        )
        yield Text(f"{self.kind} (rows: layers, columns: heads{explanation})")
        # Where there is no room for a head's number, its last digit will do.
        names = [str(head) if width > 2 else str(head % 10) for head in range(heads)]
        low, high = min(self._finite, default=0.0), max(self._finite, default=0.0)
        fitting = max(1, (options.max_width - margin) // width)
        for start in range(0, heads, fitting):
            part = slice(start, start + fitting)
            if heads > fitting:
                yield Text(f"heads {start} to {min(start + fitting, heads) - 1}", style="dim")
            titles = "".join(f"{name:>{width}}" for name in names[part])
            yield Text(" " * margin + titles, style="dim")
            for layer, scores in self.rows.items():
                line = Text(f"{layer:>{margin - 1}} ", style="dim", no_wrap=True)
                for score, cell in zip(scores[part], cells[layer][part], strict=True):
                    line.append(f"{cell:>{width}}", style=_colour(score, low, high))
                yield line

    @property
    def _finite(self) -> list[float]:
        return [score for row in self.rows.values() for score in row if math.isfinite(score)]

    def _layouts(self) -> Iterator[tuple[str, dict[int, list[str]], int]]:
        """Explanation, cells by layer and width of a column, the widest layout first."""
        largest = max(map(abs, self._finite), default=0.0)
        magnitude = math.floor(math.log10(largest)) if largest else 0
        written = 0 if -3 < magnitude < 4 else magnitude
        decimals = max(0, 2 - (magnitude - written))
        yield self._fixed(10.0**written, decimals)
        yield self._fixed(10.0 ** (magnitude - 1), 0)
        low = min(self._finite, default=0.0)
        span = (max(self._finite, default=0.0) - low) or 1.0
        tenths = self._written(lambda score: str(min(9, int((score - low) / span * 10))))
        for width in (2, 1):
            yield ", 0 lowest to 9 highest tenth", tenths, width

    def _fixed(self, unit: float, decimals: int) -> tuple[str, dict[int, list[str]], int]:
        cells = self._written(lambda score: f"{score / unit:z.{decimals}f}")
        widest = max(len(cell) for row in cells.values() for cell in row)
        heads = max(map(len, self.rows.values()))
        explanation = "" if unit == 1 else f", in units of {unit:g}"
        return explanation, cells, 1 + max(widest, len(str(heads - 1)), 2)

    def _written(self, write: Callable[[float], str]) -> dict[int, list[str]]:
        return {
            layer: [write(score) if math.isfinite(score) else "-" for score in scores]
            for layer, scores in self.rows.items()
        }


def _colour(score: float, low: float, high: float) -> str:
    if not math.isfinite(score):
        return "dim"
    share = 0.0 if high == low else (score - low) / (high - low)
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(_LOW, _HIGH, strict=True))
    ink = "black" if share > 0.5 else "white"
    return f"{ink} on rgb({red},{green},{blue})"


def search_in_words(search: Mapping[str, Any]) -> str:
    """Say how translations were searched, such as ``beam 5, length penalty 1``."""
    if search["beam"] == 1:
        return "greedy"
    return f"beam {search['beam']}, length penalty {search['length_penalty']:g}"
