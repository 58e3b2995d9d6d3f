"""What is looked up in a run: verdicts, ranges of metrics, noise ceilings."""

from __future__ import annotations

import pytest

from headtool.analysis import subsampling
from headtool.analysis.equivalence import VERDICTS
from headtool.metrics import get_metric, metrics_for
from headtool.metrics.prediction import TASKS
from headtool.reports.contents import facts
from headtool.reports.contents.facts import RANGES, band_of, ceiling_of
from headtool.reports.contents.run import Contents

from ...support.pages import details, said, with_tables


def test_verdicts_are_those_of_the_tests() -> None:
    assert facts.VERDICTS == VERDICTS


def test_the_noise_ceiling_is_the_root_of_the_reliabilities(contents: Contents) -> None:
    row = contents.table("correlations").iloc[0]
    assert ceiling_of(row) == pytest.approx((0.86 * 0.78) ** 0.5)
    text = said(contents)["data"]
    assert (
        "Pearson 0.71, Spearman 0.42; at most about 0.819 can be expected, given the noise" in text
    )
    assert text.startswith("Partly the same heads matter on data/reviews.tsv")


def test_an_undefined_reliability_has_no_ceiling(contents: Contents) -> None:
    pairs = contents.table("correlations").assign(
        reliability_y=-0.2, disattenuated=float("nan"), note="reliability below .3"
    )
    changed = with_tables(contents, correlations=pairs)
    assert "noise" not in said(changed)["data"]
    assert "Reliability below .3." in details(changed)["data"]


def test_every_metric_has_a_range_that_holds_its_value() -> None:
    for task in TASKS:
        for name in metrics_for(task):
            metric = get_metric(name, task=task, n_labels=2 if task == "classification" else None)
            assert metric.name in RANGES
    assert RANGES["accuracy"] == (0, 1)
    assert RANGES["bleu"] == (0, 100)
    assert RANGES["perplexity"] == (1, float("inf"))


def test_a_band_below_the_range_ends_at_it(contents: Contents) -> None:
    rows = contents.table("curves").query("method == 'gradient'")
    low, _ = band_of(contents, rows.assign(low=-5.0))
    assert (low == 0).all()
    low, high = band_of(contents, rows.iloc[3].copy())
    row = rows.iloc[3]
    assert low == pytest.approx(row["value"] - row["delta"] + row["low"])
    assert high == pytest.approx(row["value"] - row["delta"] + row["high"])


def test_the_share_of_halves_is_that_of_the_analysis() -> None:
    assert facts.STABLE == subsampling.STABLE
