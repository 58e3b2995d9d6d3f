"""Tables of the page that are a frame as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headtool.reports.blocks import Cell, Column, DataTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame_table"]


def frame_table(
    name: str, caption: str, frame: pd.DataFrame, *, can_filter: bool = False
) -> DataTable:
    """A frame as it is, with numbers in short.

    Parameters
    ----------
    name, caption, can_filter
        As for `headtool.reports.blocks.DataTable`.
    frame
        Its columns and rows.
    """
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
