"""Heads that change no example: the terminal tells what an interval without width means."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
from rich.console import Console

from headtool.analysis.assessment import assess
from headtool.analysis.paired import Paired
from headtool.reports.terminal.verdicts import test_tables as tables_of

SOURCE = {"model": {"spec": "my/model"}, "data": {"spec": "dev.tsv"}}


def shown(n_closed: int) -> str:
    """The terminal's page on a head that changes so many of 60 predictions, and one that more."""
    right = np.ones((2, 60))
    right[0, :n_closed] = right[1, :20] = 0
    paired = Paired.from_values(np.ones(60), right, higher_is_better=True)
    tests = assess(paired, margin=0.01, interval="percentile")
    console = Console(file=io.StringIO(), width=200)
    for part in tables_of(tests, pd.DataFrame(), SOURCE, signature=None):
        console.print(part)
    return console.file.getvalue()


def test_a_head_that_changes_nothing_is_explained_on_a_terminal() -> None:
    page = shown(0)
    assert "undecided" in page
    assert "with 60 examples, up to about 5% of other examples still could change" in page
    assert "width zero" not in shown(3)
