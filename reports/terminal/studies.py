"""A study for the terminal: what it will cost, and how far it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headtool.reports.terminal.plan import short_number, short_time, time_range
from headtool.reports.terminal.tables import table
from headtool.reports.wording.text import visible

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

__all__ = ["cost_tables", "status_tables"]


def cost_tables(frame: pd.DataFrame, document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show a row per cell, and what they come to together.

    Parameters
    ----------
    frame
        Rows of ``study_plan``.
    document
        The same with its sums, as JSON.
    """
    total, done = document["total"], document["done"]
    yield Text(
        visible(
            f"{document['study']}: {_cells(len(frame))} to run{f', {done} done' if done else ''}; "
            "nothing was run but a batch of each, for its speed"
        )
    )
    titles = ("cell", "forward", "backward", "decoded", "operations", "memory", "time")
    yield table(
        titles,
        [
            (
                visible(row["cell"]),
                *(f"{row[name]:,.0f}" if row[name] else "" for name in titles[1:4]),
                short_number(row["operations"]),
                f"{short_number(row['memory'])}B",
                time_range(row["seconds_least"], row["seconds_most"]),
            )
            for row in frame.to_dict("records")
        ],
    )
    for name in document["unknown"]:
        yield Text(visible(f"{name}: does not say what it costs"))
    yield Text(
        f"{short_number(total['operations'])} operations; about "
        f"{short_number(total['memory'])}B of memory; "
        f"{time_range(total['seconds_least'], total['seconds_most'], 'time unknown')} in all"
    )


def status_tables(frame: pd.DataFrame, document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show a row per cell, and how many are done.

    Parameters
    ----------
    frame
        Rows of ``study_status``.
    document
        The same with its counts, as JSON.
    """
    told = bool(frame["error"].any())
    rows = [
        (
            visible(row["cell"]),
            row["state"],
            "" if math.isnan(row["seconds"]) else short_time(row["seconds"]),
            *([visible(row["error"])] if told else []),
        )
        for row in frame.to_dict("records")
    ]
    titles = ("cell", "state", "time", *(["why"] if told else []))
    yield table(titles, rows, left=(0, 1, 3))
    counts = [
        f"{document[state]} {state}"
        for state in ("done", "running", "failed", "left")
        if document[state] or state == "done"
    ]
    rest = document["seconds_left"]
    about = f"; about {short_time(rest)} to go" if rest else ""
    yield Text(visible(f"{document['study']} in {document['folder']}: {', '.join(counts)}{about}"))


def _cells(count: int) -> str:
    return f"{count} {'cell' if count == 1 else 'cells'}"
