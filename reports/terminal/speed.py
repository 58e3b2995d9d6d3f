"""Latency and throughput of models, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headtool.reports.terminal.tables import table
from headtool.reports.wording.text import visible

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

__all__ = ["speed_tables"]


def speed_tables(frame: pd.DataFrame, source: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show a table per kind of work, a row per batch size.

    Parameters
    ----------
    frame
        Rows of ``speed``.
    source
        Their provenance.
    """
    yield Text(
        visible(
            f"{source['model']} ({source['heads']}) against {source['heads_left']}, "
            f"{source['device']}, {source['threads']} threads, {source['dtype']}"
        )
    )
    for work, rows in frame.groupby("work", sort=False):
        unit = "tokens" if work == "decode" else "examples"
        yield Text(
            f"{work}: {source['length']} tokens, {unit} per second at the median of "
            f"{source['repetitions']}; speedup over the whole model with 95% interval",
            style="dim",
        )
        titles = (
            *("batch", "latency whole", "latency pruned"),
            *(f"{unit}/s whole", f"{unit}/s masked", f"{unit}/s pruned"),
            *("speedup masked", "speedup pruned"),
            *("peak MB whole", "peak MB pruned"),
        )
        cells = []
        for size, group in rows.groupby("batch_size", sort=False):
            by = {row["model"]: row for _, row in group.iterrows()}
            rate = f"{unit}_per_second"
            whole, masked, pruned = by["whole"], by["masked"], by["pruned"]
            cells.append(
                (
                    str(size),
                    _milliseconds(whole["latency"]),
                    _milliseconds(pruned["latency"]),
                    *(f"{row[rate]:,.0f}" for row in (whole, masked, pruned)),
                    _speedup(masked),
                    _speedup(pruned),
                    *(f"{row['peak_memory'] / 1e6:,.1f}" for row in (whole, pruned)),
                )
            )
        yield table(titles, cells, left=())


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def _speedup(row: pd.Series[Any]) -> str:
    if math.isnan(row["speedup_low"]):
        return f"{row['speedup']:.2f}x"
    return f"{row['speedup']:.2f}x [{row['speedup_low']:.2f}, {row['speedup_high']:.2f}]"
