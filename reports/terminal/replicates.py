"""What the same architecture, trained again, says, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import RenderableType
from rich.text import Text

from headtool.reports.contents.run import records
from headtool.reports.terminal.tables import plain_table
from headtool.reports.wording.text import visible
from headtool.reports.wording.words import names, short

if TYPE_CHECKING:
    from headtool.analysis.comparison import Comparison

__all__ = ["replicate_tables"]


def replicate_tables(comparison: Comparison, budget: int) -> Iterator[RenderableType]:
    """Yield what replicates are worth, and how alike their heads and layers are ranked.

    Parameters
    ----------
    comparison
        The comparison; nothing is shown of one without replicates.
    budget
        The heads removed where kept heads are compared.
    """
    if comparison.replicates.empty:
        return
    metric = comparison.settings["metric"]
    whole = comparison.replicates[comparison.replicates["metric"] == metric]
    called = names(whole["model"])
    yield Text.assemble(
        ("replicates", "bold"),
        f"  {len(whole)} models: {metric} "
        + ", ".join(f"{short(row['value'])} {called[row['model']]}" for row in records(whole)),
    )
    overlap = comparison.replicate_overlap
    at_budget = {
        (row["method"], row["model_x"], row["model_y"]): row
        for row in records(overlap[overlap["budget"] == budget])
    }
    rows = []
    for row in records(comparison.replicate_agreement):
        place = (row["method"], row["model_x"], row["model_y"])
        shown = {
            "method": visible(row["method"]),
            "first": called[row["model_x"]],
            "second": called[row["model_y"]],
            "tau-b": f"{short(row['tau_b'])} (p {short(row['tau_b_p'])})",
            "tau-b within layers": f"p {short(row['tau_b_p_within_layers'])}",
            "Spearman's rho": short(row["spearman"]),
            "Spearman's rho of layers": f"{short(row['layer_spearman'])} "
            f"(p {short(row['layer_spearman_p'])})",
        }
        if place in at_budget:
            same = at_budget[place]
            shown[f"Jaccard with {budget} removed"] = (
                f"{short(same['jaccard'])} (p within layers {short(same['p_within_layers'])})"
            )
        rows.append(shown)
    if rows:
        yield plain_table(pd.DataFrame(rows), keys=3)
