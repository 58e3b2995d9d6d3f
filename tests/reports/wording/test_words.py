"""Numbers in running text."""

from __future__ import annotations

import math

import pytest

from headtool.reports.wording.words import short


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.59412, "0.594"),
        (-0.07183, "-0.0718"),
        (0.001234, "0.0012"),
        (12.345, "12.3"),
        (9876.5, "9876"),
        (-0.00012345, "-1.23e-4"),
        (1234567.0, "1.23e6"),
        (1.5e-300, "1.50e-300"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_short(number: float, text: str) -> None:
    assert short(number) == text
