"""What a terminal shows of correlations across data sets."""

from __future__ import annotations

import io
import math

import pandas as pd
import pytest
from rich.console import Console

from headtool.reports.terminal.correlation import correlation_tables

COEFFICIENTS = ("pearson", "spearman", "kendall")


def shown(*, reliability: float, corrected: float, pearson: float = 0.5) -> str:
    row: dict[str, object] = {"data_x": "a", "data_y": "b", "n_heads": 8}
    for name in COEFFICIENTS:
        row |= {f"{name}{end}": 0.5 for end in ("", "_low", "_high", "_p", "_p_within_layers")}
    row |= {"reliability_x": reliability, "reliability_y": 0.9, "pearson": pearson}
    row["disattenuated"] = corrected
    everywhere = pd.DataFrame({"head": [*"abcd"], "data_sets": [0, 2, 1, 0], "p_any": 0.5})
    console = Console(file=io.StringIO(), width=120)
    for part in correlation_tables(pd.DataFrame([row]), everywhere):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"reliability": 0.9, "corrected": 0.625}, "corrected for noise: 0.625"),
        (
            {"reliability": 0.1, "corrected": math.nan},
            "not corrected for noise: reliability too",
        ),
        ({"reliability": math.nan, "corrected": math.nan}, "for noise: reliability unknown"),
        (
            {"reliability": 0.9, "corrected": math.nan, "pearson": math.nan},
            "not corrected for noise: correlation undefined",
        ),
    ],
)
def test_it_says_whether_noise_is_corrected_for(numbers: dict[str, float], words: str) -> None:
    assert words in shown(**numbers)


def test_heads_are_counted_by_how_many_data_sets_they_matter_on() -> None:
    text = shown(reliability=0.9, corrected=0.6)
    assert "on 2 data sets: one head; on one: one head; on none: two heads (level .05" in text
