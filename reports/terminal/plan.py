"""What a command will cost, for the terminal."""

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

__all__ = ["plan_tables", "short_number", "short_time", "time_range"]

_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def plan_tables(frame: pd.DataFrame, document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Show a row per part of a command, and what they come to together.

    Parameters
    ----------
    frame
        Rows of ``plan``.
    document
        The plan as JSON.
    """
    model, total = document["model"], document["total"]
    yield Text(
        visible(
            f"{document['command']} of {model['spec']} "
            f"({short_number(total['parameters'])} parameters) on {model['device']}: "
            "nothing was run but one batch, for its speed"
        )
    )
    titles = (
        *("part", "examples", "tokens", "forward", "backward", "decoded", "steps"),
        *("operations", "units", "time"),
    )
    cells = []
    for row in frame.to_dict("records"):
        name = f"{row['phase']}: {row['what']}" if row["what"] else row["phase"]
        cells.append(
            (
                visible(name),
                f"{row['examples']:,}",
                f"{row['tokens']:,}",
                *(_passes(row[column]) for column in ("forward", "backward", "decoded")),
                f"{row['steps']:,}" if row["steps"] else "",
                short_number(row["forward_flops"] + row["backward_flops"]),
                f"{row['units']:,}" if row["units"] else "",
                time_range(row["seconds_least"], row["seconds_most"]),
            )
        )
    yield table(titles, cells)
    for name in document["unknown"]:
        yield Text(visible(f"{name}: does not say what it costs"))
    yield Text(
        f"{short_number(total['forward_flops'])} operations forwards, "
        f"{short_number(total['backward_flops'])} backwards; about "
        f"{short_number(total['memory'])}B of memory{' each' if document['workers'] > 1 else ''}; "
        f"{time_range(total['seconds_least'], total['seconds_most'], 'time unknown')} with "
        f"{document['workers']} {'worker' if document['workers'] == 1 else 'workers'}"
    )


def _passes(value: float) -> str:
    if not value:
        return ""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.2g}"


def short_number(value: float) -> str:
    """Write a large number with its prefix, such as 12.3 G."""
    for size, prefix in _UNITS:
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "


def time_range(least: float | None, most: float | None, unknown: str = "") -> str:
    """Seconds at least and at most, such as 12 s to 3.4 min.

    Parameters
    ----------
    least, most
        The seconds; None or NaN where nothing was timed.
    unknown
        What to say then.
    """
    if least is None or most is None or math.isnan(most):
        return unknown
    low, high = short_time(least), short_time(most)
    return high if low == high else f"{low} to {high}"


def short_time(value: float) -> str:
    """Write seconds in the unit that suits them, such as 3.4 min."""
    if value < 90:
        return f"{value:.2g} s"
    if value < 5400:
        return f"{value / 60:.2g} min"
    return f"{value / 3600:.2g} h" if value < 48 * 3600 else f"{value / 86400:.2g} d"
