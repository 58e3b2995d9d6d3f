"""Scores on a terminal: a layer x head grid per attention kind, and the heads at both ends."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headtool.results import HeadScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["score_tables"]

_LOW, _HIGH = (30, 60, 110), (255, 200, 60)  # from dark blue to amber; both ends print in grey
_ENDS = 5


def score_tables(result: HeadScores, seconds: float) -> Iterator[RenderableType]:
    """Yield what a terminal shows of one method's scores.

    Parameters
    ----------
    result
        The scores.
    seconds
        How long they took.
    """
    data, model = result.provenance["data"], result.provenance["model"]
    options = ", ".join(f"{k}={v}" for k, v in result.provenance["options"].items())
    yield Text.assemble(
        (result.method, "bold"),
        f"  {model['spec']} on {data['spec']}, {data['examples']} examples, {seconds:.1f} s",
    )
    yield Text(f"  {options}", style="dim")
    for kind, part in result.frame.groupby("kind", sort=False):
        yield _grid(str(kind), part)
    yield _ends(result.frame)
    for name, table in result.tables.items():
        yield _plain(name, table)
    yield Text()


def _grid(kind: str, part: pd.DataFrame) -> Table:
    """Layers down, heads across, brighter for more important within the kind."""
    low, high = part["score"].min(), part["score"].max()
    table = Table(
        title=f"{kind} (rows: layers, columns: heads)",
        title_justify="left",
        title_style="",
        box=None,
        padding=0,
    )
    table.add_column("", justify="right", style="dim")
    for head in range(int(part["head"].max()) + 1):
        table.add_column(str(head), justify="right", header_style="dim")
    for layer, row in part.groupby("layer", sort=True):
        cells = [_cell(score, low, high) for score in row.sort_values("head")["score"]]
        table.add_row(f"{layer} ", *cells)
    return table


def _cell(score: float, low: float, high: float) -> Text:
    if not math.isfinite(score):
        return Text("  nan ", style="dim")
    share = 0.0 if high == low else (score - low) / (high - low)
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(_LOW, _HIGH, strict=True))
    ink = "black" if share > 0.5 else "white"
    return Text(f"{short(score):>7}", style=f"{ink} on rgb({red},{green},{blue})")


def _ends(frame: pd.DataFrame) -> Table:
    """The most and the least important heads side by side."""
    ordered = frame.sort_values("rank")
    count = min(_ENDS, max(1, len(ordered) // 2))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("most important", "score", "+-", "least important", "score", "+-"):
        table.add_column(title, justify="left" if "important" in title else "right")
    top, bottom = ordered.head(count), ordered.tail(count).iloc[::-1]
    for (_, high), (_, low) in zip(top.iterrows(), bottom.iterrows(), strict=True):
        table.add_row(*_described(high), *_described(low))
    return table


def _described(row: pd.Series) -> tuple[str, str, str]:
    stderr = "" if math.isnan(row["stderr"]) else short(row["stderr"])
    return f"{row['kind']}.{row['layer']}.{row['head']}", short(row["score"]), stderr


def _plain(name: str, frame: pd.DataFrame) -> Table:
    table = Table(title=name, title_justify="left", title_style="", box=None, padding=(0, 2, 0, 0))
    for column in frame.columns:
        table.add_column(str(column), header_style="dim")
    for values in frame.itertuples(index=False):
        table.add_row(*(short(v) if isinstance(v, float) else str(v) for v in values))
    return table


def short(number: float) -> str:
    """Write a number with three significant digits in few characters."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    if 1e-3 <= abs(number) < 1e4:
        decimals = max(0, 2 - math.floor(math.log10(abs(number))))
        return f"{number:.{min(decimals, 4)}f}"
    return f"{number:.0e}".replace("e-0", "e-").replace("e+0", "e")
