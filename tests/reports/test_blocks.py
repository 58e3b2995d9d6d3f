"""Cells: what they show, and what a table is sorted by."""

from __future__ import annotations

import math

import pytest

from headtool.reports.blocks import Cell


@pytest.mark.parametrize(
    ("cell", "text", "order"),
    [
        (Cell.number(-0.01234), "−0.0123", -0.01234),
        (Cell.number(math.nan), "–", None),
        (Cell.count(12.0), "12", 12.0),
        (Cell.share(0.25), "25%", 0.25),
        (Cell.p_value(0.0004), "<0.001", 0.0004),
        (Cell.p_value(0.0432), "0.043", 0.0432),
        (Cell.p_value(math.nan), "–", None),
        (Cell.interval(0.1, 0.2), "0.100 to 0.200", 0.1),
        (Cell.interval(math.nan, 0.2), "–", None),
    ],
)
def test_cells(cell: Cell, text: str, order: float | None) -> None:
    assert (cell.text, cell.order) == (text, order)
