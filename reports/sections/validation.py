"""The report's section on methods that were tried on models whose truth is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Cell, Column, DataTable, Section
from headtool.reports.contents.run import Contents
from headtool.reports.sections.frames import frame_table
from headtool.reports.wording.known_truth import KINDS, mistakes, variant_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["validation_section", "validation_table"]

_TEXT = (
    "Each model has two necessary heads (a previous-token head and an induction head), two "
    "interchangeable ones of which either suffices, one that harms, one of large constant output "
    "that nothing reads, and six idle ones. AUROC single is the area under the ROC curve for the "
    "necessary heads, AUROC set that for the heads of the smallest sufficient sets, which are "
    "three of twelve; AP is the average precision; kept is how many of the highest ranked heads "
    "suffice. Intervals are t intervals over models. Passes are those that really ran, over all "
    "examples."
)


def validation_section(contents: Contents) -> Section | None:
    """Which methods find the heads that matter; None for other runs."""
    frame = contents.table("validation")
    if frame.empty:
        return None
    wrong = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    heads = contents.table("validation_heads")
    tables = []
    if not heads.empty:
        tables = [frame_table("validation-heads", "Scores of all heads", heads, can_filter=True)]
    return Section(
        "validation",
        "Heads that are known to matter",
        text=[_TEXT, f"Wrong about, in at least a fifth of the pairs: {wrong}."],
        tables=tables,
    )


def validation_table(contents: Contents) -> DataTable | None:
    """Make the table of methods; None for other runs."""
    frame = contents.table("validation")
    if frame.empty:
        return None
    titles = (
        *("AUROC single", "interval", "AUROC set", "interval", "AP single", "AP set", "kept"),
        *("forward", "backward", "seconds"),
    )
    columns = [
        Column("method", is_number=False),
        *map(Column, titles[:7]),
        Column("wrong about", is_number=False),
        *map(Column, titles[7:]),
    ]
    return DataTable(
        "validation", "Methods, the best first", columns, [_row(row) for _, row in frame.iterrows()]
    )


def _row(row: pd.Series[Any]) -> list[Cell]:
    return [
        Cell(variant_name(row)),
        Cell.number(row["auroc_single"]),
        _interval(row, "auroc_single"),
        Cell.number(row["auroc_set"]),
        _interval(row, "auroc_set"),
        *(Cell.number(row[name]) for name in ("ap_single", "ap_set", "kept")),
        Cell(", ".join(mistakes(row)) or "–"),
        *(Cell.number(row[name]) for name in ("forward", "backward", "seconds")),
    ]


def _interval(row: pd.Series[Any], name: str) -> Cell:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if math.isnan(low):
        return Cell("–")
    return Cell.interval(max(0.0, low), min(1.0, high))
