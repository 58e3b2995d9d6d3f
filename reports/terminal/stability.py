"""What random halves of the examples say about the rankings, on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from headtool.reports.terminal.tables import plain_table
from headtool.reports.wording.words import short

if TYPE_CHECKING:
    from headtool.analysis.comparison import Comparison

__all__ = ["stability_tables"]


def stability_tables(comparison: Comparison, budget: int) -> Iterator[RenderableType]:
    """Yield how far each method agrees with itself, and how many heads it always keeps.

    Parameters
    ----------
    comparison
        The comparison; nothing is shown of one without subsamples.
    budget
        The heads removed where kept heads are counted.
    """
    if comparison.subsamples.empty:
        return
    first = comparison.subsamples.iloc[0]
    yield Text.assemble(
        ("stability", "bold"),
        f"  {first['subsamples']} random halves of the selection examples, {first['examples']} "
        f"each: agreement of halves without a common example, and heads kept with {budget} removed",
    )
    at_budget = comparison.subsample_overlap[comparison.subsample_overlap["budget"] == budget]
    overlap = at_budget.set_index("method")
    rows = []
    for row in comparison.subsamples.to_dict("records"):
        shown = {
            "method": row["method"],
            "tau-b": short(row["tau_b"]) + _interval(row["tau_b_low"], row["tau_b_high"]),
            "Spearman's rho": short(row["spearman"]),
            "rank-biased overlap (by chance)": f"{short(row['rbo'])} "
            f"({short(row['rbo_expected'])})",
        }
        if row["method"] in overlap.index:
            kept = overlap.loc[row["method"]]
            shown |= {
                "Jaccard (random heads)": f"{short(kept['jaccard'])} "
                f"({short(kept['expected_within_layers'])})",
                "stably kept": f"{kept['stable_kept']:.0f} of {kept['kept']:.0f}",
                "stably removed": f"{kept['stable_removed']:.0f}",
                "of these by chance at most": f"{short(kept['false_kept'])} and "
                f"{short(kept['false_removed'])}",
                "tied at the cut": short(kept["tied"]),
            }
        rows.append(shown)
    yield plain_table(pd.DataFrame(rows))


def _interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f" [{short(low)}, {short(high)}]"
