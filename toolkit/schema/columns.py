"""What a column and a table are, and how a frame is built or checked against them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "Table", "Type", "boolean", "integer", "is_plain", "number", "string"]

Type = Literal["string", "integer", "number", "boolean"]

_HEAD = ["kind", "layer", "head"]
_LARGEST = 2**62  # far beyond all counts
_BOUND = 1e100  # and all measurements
_TYPES = {"string": "str", "integer": "int64", "number": "float64", "boolean": "bool"}
_NULLABLE = {"string": "str", "integer": "Int64", "number": "float64", "boolean": "boolean"}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name
        Its name.
    type
        ``string``, ``integer``, ``number`` (floating point; NaN is "not computed" or "undefined")
        or ``boolean``.
    unit
        Unit of its values in words, such as ``share`` or ``nats``; empty for names and p-values.
    meaning
        What it says, as one phrase.
    optional
        Whether some tables lack it.
    missing
        Whether integers and booleans may be missing (``<NA>``); numbers always may.
    later
        Whether it was added after the first version: tables of older runs are read as if it had
        not been computed.
    among
        What text must be one of; empty for any.
    known
        Whether numbers are never missing.
    endless
        Whether numbers may be infinite.
    """

    name: str
    type: Type
    unit: str
    meaning: str
    optional: bool = False
    missing: bool = False
    later: bool = False
    among: tuple[str, ...] = ()
    known: bool = False
    endless: bool = False

    @property
    def dtype(self) -> str:
        """The pandas dtype of its values."""
        return (_NULLABLE if self.missing else _TYPES)[self.type]

    def typed(self, values: pd.Series[Any]) -> pd.Series[Any]:
        """Return values that fit with the type of the column.

        Parameters
        ----------
        values
            The values; some may be missing where the column came later.
        """
        is_partial = self.later and bool(values.hasnans)
        dtype = _NULLABLE[self.type] if is_partial else self.dtype
        if values.dtype == dtype:
            return values
        return values.astype(dtype)  # type: ignore[call-overload,no-any-return]

    def fits(self, values: pd.Series[Any]) -> bool:
        """Whether values have this type; whole numbers also are numbers.

        Parameters
        ----------
        values
            The values.
        """
        from pandas.api import types

        if values.dtype == "category":
            values = values.cat.categories.to_series()
        if self.type == "string":
            if values.dtype == "object":  # so pandas before 3 reads text
                return all(isinstance(value, str) for value in values)
            return types.is_string_dtype(values.dtype) and not values.hasnans
        if values.hasnans and not (self.type == "number" or self.missing or self.later):
            return False
        if self.type == "boolean":
            # A method's column is missing where other methods' rows were joined to its own.
            return all(isinstance(value, bool) for value in values.dropna().tolist())
        if self.type == "integer":
            return types.is_integer_dtype(values.dtype)
        return types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype)

    def strange(self, values: pd.Series[Any]) -> str:
        """Describe what no such column holds although the type is right; empty for nothing.

        Parameters
        ----------
        values
            Values that fit.
        """
        import numpy as np

        if self.type == "string" and self.among:
            others = [value for value in values.unique() if value not in self.among]
            return f"{others[0]!r}, which is none of {', '.join(self.among)}" if others else ""
        if self.type == "integer":
            held = values.dropna()
            wrong = held[(held < 0) | (held >= _LARGEST)]
            return f"{wrong.iloc[0]}, which is no count" if len(wrong) else ""
        if self.type == "number":
            held = values.astype("float64")
            if self.known and held.isna().any():
                return "missing numbers"
            if not self.endless and (np.abs(held) >= _BOUND).any():
                return "infinite numbers"
        return ""


def string(name: str, meaning: str, **how: Any) -> Column:
    """Return a column of text.

    Parameters
    ----------
    name
        Its name.
    meaning
        What it says, as one phrase.
    how
        Further fields of `Column`.
    """
    return Column(name, "string", "", meaning, **how)


def integer(name: str, unit: str, meaning: str, **how: Any) -> Column:
    """Return a column of whole numbers.

    Parameters
    ----------
    name
        Its name.
    unit
        Unit of its values in words, such as ``heads``.
    meaning
        What it says, as one phrase.
    how
        Further fields of `Column`.
    """
    return Column(name, "integer", unit, meaning, **how)


def number(name: str, unit: str, meaning: str, **how: Any) -> Column:
    """Return a column of numbers.

    Parameters
    ----------
    name
        Its name.
    unit
        Unit of its values in words, such as ``nats``; empty for p-values.
    meaning
        What it says, as one phrase.
    how
        Further fields of `Column`.
    """
    return Column(name, "number", unit, meaning, **how)


def boolean(name: str, meaning: str, **how: Any) -> Column:
    """Return a column of truth values.

    Parameters
    ----------
    name
        Its name.
    meaning
        What it says, as one phrase.
    how
        Further fields of `Column`.
    """
    return Column(name, "boolean", "", meaning, **how)


@dataclass(frozen=True)
class Table:
    """A table that a run, a JSON document or a result can hold.

    Attributes
    ----------
    name
        Its name: that of the file in a run without ``.parquet``.
    row
        What a row is.
    where
        What makes it.
    columns
        Its columns in order.
    about
        What else a reader must know.
    further
        What columns beyond these there may be; empty where there are none.
    key
        Names of columns that together tell its rows apart; empty where nothing does.
    full
        Whether there is a row for every combination of what is in the key, a head being one of its
        three columns together.
    """

    name: str
    row: str
    where: str
    columns: tuple[Column, ...]
    about: str = ""
    further: str = ""
    key: tuple[str, ...] = ()
    full: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that every such table has, in order."""
        return tuple(column.name for column in self.columns if not column.optional)

    def empty(self, *optional: str) -> pd.DataFrame:
        """Return the table without rows: all its columns, and the `optional` ones named."""
        return _empty(self, optional).copy()

    def frame(self, rows: Iterable[Any], *optional: str) -> pd.DataFrame:
        """Build the table from its rows; the columns have their types also without any.

        Parameters
        ----------
        rows
            Tuples in the order of the columns, or mappings by name.
        optional
            Names of optional columns that it has.
        """
        import pandas as pd

        empty = _empty(self, optional)
        return pd.DataFrame(list(rows), columns=list(empty.columns)).astype(dict(empty.dtypes))

    def joined(self, frames: Sequence[pd.DataFrame], *optional: str) -> pd.DataFrame:
        """Join the rows of several such tables; without any, return an empty one.

        Parameters
        ----------
        frames
            The frames.
        optional
            Optional columns that the result has.
        """
        import pandas as pd

        filled = [frame for frame in frames if len(frame)]
        empty = self.empty(*optional)
        return pd.concat(filled, ignore_index=True)[list(empty.columns)] if filled else empty

    def checked(self, frame: pd.DataFrame, place: str) -> pd.DataFrame:
        """Return a table that was read from a file, its columns typed as they should be.

        Parameters
        ----------
        frame
            What the file holds.
        place
            The file, for errors.

        Raises
        ------
        HeadtoolError
            If a column is missing, unknown, or of another type.
        """
        remedy = "make the run again with the command in its manifest"
        known = {column.name: column for column in self.columns}
        for name in frame.columns:
            if name not in known and not self.further:
                raise HeadtoolError(
                    f"{place} was written by another version: it has a column '{name}'; {remedy}"
                )
        found = {}
        for column in self.columns:
            if column.name not in frame.columns:
                if column.later:
                    found[column.name] = _not_computed(column, frame.index)
                elif not column.optional:
                    raise HeadtoolError(
                        f"{place} was written by another version: it has no column "
                        f"'{column.name}'; {remedy}"
                    )
                continue
            values = frame[column.name]
            if frame.empty:  # the type of nothing may be any
                found[column.name] = values.astype("object").astype(column.dtype)  # type: ignore[call-overload]
                continue
            if not column.fits(values):
                raise HeadtoolError(
                    f"{place} is damaged: the column '{column.name}' holds {values.dtype} values "
                    f"instead of {_PLURALS[column.type]}; {remedy}"
                )
            if what := column.strange(values):
                raise HeadtoolError(
                    f"{place} is damaged: the column '{column.name}' holds {what}; {remedy}"
                )
            if values.dtype != "category" and (typed := column.typed(values)) is not values:
                found[column.name] = typed
        key = [name for name in self.key if name in frame.columns]
        if key and frame.duplicated(key).any():
            raise HeadtoolError(
                f"{place} is damaged: two rows have the same {', '.join(key)}; {remedy}"
            )
        if self.full and len(frame):
            counts = [frame[name].nunique() for name in key if name not in _HEAD]
            if len(frame) != math.prod(counts) * len(frame[_HEAD].drop_duplicates()):
                raise HeadtoolError(f"{place} is damaged: rows are missing; {remedy}")
        for name in frame.columns:
            if name not in known and not is_plain(frame[name]):
                raise HeadtoolError(
                    f"{place} is damaged: the column '{name}' holds {frame[name].dtype} values "
                    f"instead of text, numbers or truth values; {remedy}"
                )
        return frame.assign(**found) if found else frame


@cache  # a report asks for hundreds
def _empty(table: Table, optional: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    chosen = [one for one in table.columns if not one.optional or one.name in optional]
    return pd.DataFrame({one.name: pd.Series(dtype=one.dtype) for one in chosen})


def is_plain(values: pd.Series[Any]) -> bool:
    """Whether a column holds nothing but text, numbers or truth values, some perhaps missing.

    Parameters
    ----------
    values
        The column.
    """
    from pandas.api import types

    if values.dtype == "category":
        values = values.cat.categories.to_series()
    if values.dtype == "object":
        return all(isinstance(value, str | int | float) for value in values[~values.isna()])
    dtype = values.dtype
    return types.is_string_dtype(dtype) or (
        types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)
    )


_PLURALS = {
    "string": "text",
    "integer": "whole numbers",
    "number": "numbers",
    "boolean": "truth values",
}


def _not_computed(column: Column, index: pd.Index[Any]) -> pd.Series[Any]:
    import pandas as pd

    values = {"string": "", "number": float("nan")}
    return pd.Series(values.get(column.type, pd.NA), index=index, dtype=_NULLABLE[column.type])
