"""Data in memory that is arrays of numbers: the input of models of images or sound, or sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headtool.data.cells import array_uri
from headtool.data.dataset import TextData
from headtool.data.messages import quoted
from headtool.data.picking import labelled, named_column
from headtool.data.tables import Table
from headtool.data.tokens import whole_numbers
from headtool.errors import HeadtoolError

__all__ = ["ARRAYS", "array_data"]

ARRAYS = ("input_values", "input_features", "pixel_values", "audio")
"""Roles of columns that hold arrays."""


def array_data(table: Table, columns: Mapping[str, str], spec: str) -> TextData:
    """Read arrays of numbers, with a label for each row.

    Parameters
    ----------
    table
        The table, which must be in memory.
    columns
        Role to column: ``input_values``, ``input_features`` or ``pixel_values``, which a model of
        transformers reads as they are, or ``audio``, sound for its feature extractor; ``label`` or
        ``labels``; and ``attention_mask``, where there is one.
    spec
        The data set as the user named it.

    Raises
    ------
    HeadtoolError
        If a cell holds something else, or no row has a label.
    """
    role = next(role for role in ARRAYS if role in columns)
    name = named_column(table, columns[role])
    if table.values is None:
        raise HeadtoolError(
            f"{table.source} is a file, and arrays of numbers such as {quoted(name)} are read from "
            "memory: give a list of dictionaries, a DataFrame or a Dataset from Python"
        )
    label = columns.get("labels", columns.get("label"))
    if label is None:
        raise HeadtoolError(
            f"{table.source} has {quoted(name)} and no column 'label' or 'labels'; add one, or "
            "name it by `columns` label=NAME"
        )
    cells = []
    for row, value in enumerate(table.values(name)):
        cell = _cell(value, sound=role == "audio")
        if cell is None:
            wanted = (
                "decoded sound: floats, or 'array' with its 'sampling_rate'"
                if role == "audio"
                else "an array of numbers"
            )
            raise HeadtoolError(f"{table.place(row)}: column {quoted(name)} must hold {wanted}")
        cells.append(cell)
    found = {role: tuple(cells)}
    if "attention_mask" in columns:
        mask = named_column(table, columns["attention_mask"])
        found["attention_mask"] = whole_numbers(table, mask)
    return TextData(spec, "arrays", labelled(table, found, named_column(table, label)))


def _cell(value: Any, *, sound: bool) -> str | None:
    """An array as text; None if it is none, is empty, or has what is no finite number."""
    rate = None
    if sound and (isinstance(value, Mapping) or type(value).__name__ == "AudioDecoder"):
        try:
            value, rate = value["array"], int(value["sampling_rate"])
        except (KeyError, TypeError, ValueError):
            return None
    if hasattr(value, "detach"):  # a tensor of torch
        value = value.detach().cpu().float()
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        return None
    if array.dtype.kind not in ("f" if sound else "fiu") or not array.ndim or not array.size:
        return None
    return array_uri(array.astype(np.float32), rate) if np.isfinite(array).all() else None
