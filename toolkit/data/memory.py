"""Data in memory: pandas frames, data sets of the `datasets` library, lists of dictionaries."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from headtool.data.hub import dataset_table
from headtool.data.messages import listing, quoted
from headtool.data.tables import Table, as_cells
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import datasets
    import pandas as pd

__all__ = ["HeldData", "held_table", "is_held"]

HeldData: TypeAlias = "pd.DataFrame | datasets.Dataset | Sequence[Mapping[str, Any]]"
"""A table in memory."""


def is_held(data: object) -> bool:
    """Whether something is a table in memory, and neither a SPEC nor a list of data sets.

    Parameters
    ----------
    data
        What stands where a data set does.

    Examples
    --------
    >>> from headtool.data.memory import is_held
    >>> is_held([{"text": "good", "label": 1}]), is_held(["dev.tsv", "test.tsv"])
    (True, False)
    """
    if isinstance(data, Sequence) and not isinstance(data, str):
        return bool(data) and isinstance(data[0], Mapping)
    return _is_of(data, "pandas", "DataFrame") or _is_of(
        data, "datasets", "Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict"
    )


def held_table(data: HeldData) -> Table:
    """Give access to the columns of a table in memory, which stays as it is.

    Parameters
    ----------
    data
        A pandas frame, a `datasets.Dataset`, or dictionaries with the same keys.

    Raises
    ------
    HeadtoolError
        If it has no rows, or is several splits or a stream.
    """
    if _is_of(data, "datasets", "DatasetDict", "IterableDatasetDict"):
        splits = listing(str(name) for name in data)
        raise HeadtoolError(f"the data has several splits ({splits}); give one of them")
    if _is_of(data, "datasets", "IterableDataset"):
        raise HeadtoolError("the data is a stream; give a list of some of its rows")
    if len(data) == 0:
        raise HeadtoolError("the data in memory has no rows; give some")
    if _is_of(data, "datasets", "Dataset"):
        return dataset_table(data, "the Dataset")
    return _frame_table(data) if _is_of(data, "pandas", "DataFrame") else _rows_table(data)


def _is_of(data: object, package: str, *names: str) -> bool:
    """Whether it is of a class of a package, which need not be there."""
    module = sys.modules.get(package)
    return module is not None and isinstance(data, tuple(getattr(module, name) for name in names))


def _frame_table(frame: Any) -> Table:
    def place(index: int) -> str:
        return f"the DataFrame, row {index + 1}"

    def values(name: str) -> Any:
        return frame[next(known for known in frame.columns if str(known) == name)]

    def cells(name: str, *, lists: bool = False) -> list[str | None]:
        return as_cells((_plain(value) for value in values(name)), name, place, lists=lists)

    return Table("the DataFrame", tuple(str(name) for name in frame.columns), cells, place, values)


def _rows_table(rows: Any) -> Table:
    def place(index: int) -> str:
        return f"the list, row {index + 1}"

    def values(name: str) -> list[Any]:
        for index, row in enumerate(rows):
            if not isinstance(row, Mapping) or name not in row:
                has = listing(map(str, row)) if isinstance(row, Mapping) else type(row).__name__
                raise HeadtoolError(
                    f"{place(index)}: no key {quoted(name)} (it has {has}); every row needs it"
                )
        return [row[name] for row in rows]

    def cells(name: str, *, lists: bool = False) -> list[str | None]:
        return as_cells((_plain(value) for value in values(name)), name, place, lists=lists)

    return Table("the list", tuple(str(name) for name in rows[0]), cells, place, values)


def _plain(value: Any) -> Any:
    """A value of NumPy or torch as Python has it; None where pandas has nothing."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    return None if type(value).__name__ in ("NAType", "NaTType") else value
