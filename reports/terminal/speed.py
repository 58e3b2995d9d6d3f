"""Latency and throughput of models, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headtool.reports.terminal.pieces import bare_table
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
        table = bare_table(
            *("batch", "latency whole", "pruned"),
            *(f"{unit}/s whole", "masked", "pruned"),
            *("speedup masked", "", "pruned", ""),
            *("peak MB whole", "pruned"),
            left=0,
        )
        for size, group in rows.groupby("batch_size", sort=False):
            by = {row["model"]: row for _, row in group.iterrows()}
            rate = f"{unit}_per_second"
            whole, masked, pruned = by["whole"], by["masked"], by["pruned"]
            table.add_row(
                str(size),
                _milliseconds(whole["latency"]),
                _milliseconds(pruned["latency"]),
                *(f"{row[rate]:,.0f}" for row in (whole, masked, pruned)),
                *_speedup(masked),
                *_speedup(pruned),
                *(f"{row['peak_memory'] / 1e6:,.1f}" for row in (whole, pruned)),
            )
        yield table


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def _speedup(row: pd.Series[Any]) -> tuple[str, str]:
    if math.isnan(row["speedup_low"]):
        return f"{row['speedup']:.2f}x", ""
    return f"{row['speedup']:.2f}x", f"[{row['speedup_low']:.2f}, {row['speedup_high']:.2f}]"
