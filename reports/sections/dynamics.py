"""The report's sections that are tables alone: heads over the course of training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Cell, Column, DataTable, Section
from headtool.reports.contents.run import Contents

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["dynamics_section", "frame_table"]


def dynamics_section(contents: Contents) -> Section | None:
    """What is left without heads at each checkpoint, and how their ranks change."""
    tables = [
        frame_table(name.replace("_", "-"), caption, frame)
        for name, caption in (
            ("prunability", "Whole models, and how many heads can be removed"),
            ("checkpoint_curves", "What is left when heads are removed"),
            ("rank_stability", "How alike the ranks of heads are at two checkpoints"),
        )
        if len(frame := contents.table(name))
    ]
    if not tables:
        return None
    return Section("dynamics", "Heads over the course of training", tables=tables)


def frame_table(
    name: str, caption: str, frame: pd.DataFrame, *, can_filter: bool = False
) -> DataTable:
    """A frame as it is, with numbers in short."""
    numeric = [frame[column].dtype.kind in "iuf" for column in frame.columns]
    columns = [
        Column(str(title).replace("_", " ").strip(), is_number)
        for title, is_number in zip(frame.columns, numeric, strict=True)
    ]
    rows = [
        [_cell(value, number) for value, number in zip(values, numeric, strict=True)]
        for values in frame.itertuples(index=False)
    ]
    return DataTable(name, caption, columns, rows, can_filter)


def _cell(value: Any, is_number: bool) -> Cell:
    if not is_number:
        return Cell(str(value))
    whole = isinstance(value, int)
    return Cell.count(value) if whole else Cell.number(float(value))
