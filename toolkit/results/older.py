"""Tables as older versions wrote them, read as they are written today."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError
from headtool.reading import read_file

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["has_draws_among_curves", "modern"]


def has_draws_among_curves(folder: Path, tables: Mapping[str, Any]) -> bool:
    """Whether a run holds the draws of random masks among its curves, where -1 was no draw.

    Parameters
    ----------
    folder
        The run directory.
    tables
        Its tables by name, as the manifest lists them.
    """
    if "curves" not in tables or "curve_draws" in tables:
        return False
    import pyarrow as pa
    from pyarrow.parquet import read_schema

    try:
        return "draw" in read_schema(io.BytesIO(read_file(folder / "curves.parquet"))).names
    except (OSError, HeadtoolError, pa.ArrowException):
        return False  # whoever reads the table will say what is wrong with it


def modern(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of a run as it would be written today.

    Parameters
    ----------
    name
        ``curves`` or ``curve_draws`` take their rows of a table that held both; any other table is
        as it was.
    frame
        What the file holds.
    """
    import pandas as pd

    if name not in ("curves", "curve_draws") or not {"draw", "low", "high"} <= set(frame.columns):
        return frame
    drawn = pd.to_numeric(frame["draw"], errors="coerce") >= 0  # other text is no draw
    if name == "curves":
        return frame[~drawn].drop(columns="draw").reset_index(drop=True)
    return frame[drawn].drop(columns=["low", "high"]).reset_index(drop=True)
