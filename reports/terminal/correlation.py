"""Correlations across data sets on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from headtool.reports.contents.facts import why_uncorrected
from headtool.reports.terminal.tables import field_table, plain_table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import count, short

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Any

__all__ = ["correlation_tables"]

_NAMES = {"pearson": "Pearson's r", "spearman": "Spearman's rho", "kendall": "Kendall's tau-b"}


def correlation_tables(frame: pd.DataFrame, everywhere: pd.DataFrame) -> Iterator[RenderableType]:
    """Yield what a terminal shows of correlations, a pair of data sets at a time.

    Parameters
    ----------
    frame
        What `headtool.analysis.correlation.correlate` returned.
    everywhere
        The frame of `headtool.analysis.partial_conjunction.replicate`.
    """
    for row in frame.to_dict("records"):
        yield Text.assemble(
            ("correlation", "bold"),
            f"  {visible(row['data_x'])} and {visible(row['data_y'])}, {row['n_heads']} heads",
        )
        coefficients = [
            {
                "coefficient": _NAMES[name],
                "value": row[name],
                "low": row[f"{name}_low"],
                "high": row[f"{name}_high"],
                "p within layers": row[f"{name}_p_within_layers"],
                "p": row[f"{name}_p"],
            }
            for name in _NAMES
        ]
        yield plain_table(pd.DataFrame(coefficients))
        yield Text(_ceiling(row), style="dim")
    if not len(everywhere):  # scores without outcomes
        return
    counts = everywhere["data_sets"].value_counts().sort_index(ascending=False)
    sizes = "; ".join(
        f"on {f'{number} data sets' if number > 1 else 'one' if number else 'none'}: "
        f"{count(heads, 'head')}"
        for number, heads in zip(counts.index.astype(int), counts, strict=True)
    )
    yield Text.assemble(
        ("heads with an effect", "bold"), f"  {sizes} (level .05, corrected over all heads)"
    )
    found = everywhere[everywhere["data_sets"] > 0]
    if len(found):
        yield field_table(found.sort_values(["data_sets", "p_any"], ascending=[False, True]))


def _ceiling(row: Mapping[Hashable, Any]) -> str:
    """The noise ceiling in words."""
    reliabilities = f"reliability {short(row['reliability_x'])} and {short(row['reliability_y'])}"
    if math.isnan(row["disattenuated"]):
        return f"{reliabilities}; Pearson's r not corrected for noise: {why_uncorrected(row)}"
    return f"{reliabilities}; Pearson's r corrected for noise: {short(row['disattenuated'])}"
