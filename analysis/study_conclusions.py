"""Which statements about methods hold in all cells of a study, and which in some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headtool.analysis.study_cells import RANDOM
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["conclusions"]


def conclusions(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Count the cells that show each statement, and those that show the opposite.

    A statement is that a method is better than random masks, or one than another, the way round
    that more cells show.

    Parameters
    ----------
    tables
        The tables ``study_ranking`` and ``study_pairs``.

    Returns
    -------
    pandas.DataFrame
        The table ``study_conclusions``.
    """
    rows = []
    for row in tables["study_ranking"].to_dict("records"):
        rows.append((f"{row['method']} > {RANDOM}", row["cells"], row["better"], row["worse"]))
    for row in tables["study_pairs"].to_dict("records"):
        pair, ends = (row["method_x"], row["method_y"]), (row["better"], row["worse"])
        turn = -1 if ends[1] > ends[0] else 1
        if row["cells"]:
            rows.append((" > ".join(map(str, pair[::turn])), row["cells"], *ends[::turn]))
    return TABLES["study_conclusions"].frame(
        (statement, cells, hold, against, _where(cells, hold, against))
        for statement, cells, hold, against in rows
    )


def _where(cells: int, hold: int, against: int) -> str:
    if hold and against:
        return "mixed"
    if hold == cells and cells:
        return "everywhere"
    return "somewhere" if hold or against else "nowhere"
