"""Tables of which a test is about some columns only."""

from __future__ import annotations

from typing import Any

import pandas as pd

from headtool.schema import TABLES

_FILL = {"string": "", "integer": 0, "number": float("nan"), "boolean": False}


def completed(name: str, columns: dict[str, Any] | pd.DataFrame) -> pd.DataFrame:
    """The table with these columns, and with all that it must have beside them."""
    frame = pd.DataFrame(columns)
    for column in TABLES[name].columns:
        if column.name not in frame.columns and not column.optional:
            frame[column.name] = pd.Series(_FILL[column.type], frame.index, dtype=column.dtype)
    names = [column.name for column in TABLES[name].columns if column.name in frame.columns]
    return frame[[*names, *(other for other in frame.columns if other not in names)]]
