"""Scores as a terminal shows them: a heat map for each attention kind, the best and worst heads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headtool.reports.ablation_tables import written_search
from headtool.reports.tables import HeatMap, plain_table, short
from headtool.reports.text import visible
from headtool.results import HeadScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["score_tables"]

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
    options = ", ".join(
        f"{name}={'none' if value is None else value}"  # as --set takes it
        for name, value in result.provenance["options"].items()
    )
    yield Text.assemble(
        (result.method, "bold"),
        f"  {visible(model['spec'])} on {visible(data['spec'])}, {data['examples']} examples, "
        f"{seconds:.1f} s",
    )
    if options:
        yield Text(f"  {visible(options)}", style="dim")
    if "search" in result.provenance:
        search, signature = result.provenance["search"], result.provenance["signature"]
        yield Text(f"  {written_search(search)}; {signature}", style="dim")
    for kind, part in result.frame.groupby("kind", sort=False):
        rows = {
            int(str(layer)): row.sort_values("head")["score"].tolist()
            for layer, row in part.groupby("layer", sort=True)
        }
        yield HeatMap(str(kind), rows)
    yield _ends(result.frame)
    for name, table in result.tables.items():
        yield Text(visible(name))
        yield plain_table(table)
    yield Text()


def _ends(frame: pd.DataFrame) -> Table:
    """The most and the least important heads side by side."""
    ordered = frame.sort_values("rank")
    count = min(_ENDS, max(1, len(ordered) // 2))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("most important", "score", "+-", "least important", "score", "+-"):
        table.add_column(title, justify="left" if "important" in title else "right")
    top, bottom = ordered.head(count), ordered.tail(count).iloc[::-1]
    for (_, high), (_, low) in zip(top.iterrows(), bottom.iterrows(), strict=True):
        table.add_row(*_described(high), *_described(low))
    return table


def _described(row: pd.Series) -> tuple[str, str, str]:
    stderr = "" if math.isnan(row["stderr"]) else short(row["stderr"])
    return f"{row['kind']}.{row['layer']}.{row['head']}", short(row["score"]), stderr
