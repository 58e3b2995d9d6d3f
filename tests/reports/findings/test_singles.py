"""The prose on single heads: every number in it is looked up again here, by hand."""

from __future__ import annotations

import dataclasses

from headtool.analysis.equivalence import VERDICTS
from headtool.reports.contents.run import Contents

from ...support.comparisons import comparison
from ...support.pages import details, said, with_tables


def test_verdicts_are_counted_on_the_first_data_set(contents: Contents) -> None:
    tests, _ = comparison()[0]["tests"], None
    first = tests[tests["data"] == "data/news.tsv"]["verdict"].tolist()
    counts = {verdict: first.count(verdict) for verdict in VERDICTS}
    assert all(counts.values())
    text = said(contents)["heads"]
    assert text.startswith("Of the 72 heads of models/sentiment")
    for verdict, amount in counts.items():
        verb = "is" if amount == 1 else "are"
        assert f"{amount} {verb} {verdict}" in text
    second = tests[tests["data"] == "data/reviews.tsv"]["verdict"].tolist()
    assert f"On data/reviews.tsv: {second.count('needed')} needed" in details(contents)["heads"]


def test_no_needed_and_no_removable_head_are_said_to_be_none(contents: Contents) -> None:
    tests = contents.table("tests").assign(verdict="undecided")
    text = said(with_tables(contents, tests=tests))["heads"]
    assert "none is needed, none is removable and 72 are undecided" in text
    assert "harmful" not in text


def test_runs_without_tests_claim_no_significance(contents: Contents) -> None:
    few = dataclasses.replace(contents, tables={"scores": contents.table("scores")}, kind="score")
    text = said(few)
    assert set(text) == {"important"}
    top = contents.table("scores").query("method == 'gradient' and rank == 1").iloc[0]
    assert f"enc-self.{top['layer']}.{top['head']}" in text["important"]
    assert "No test says" in text["important"]
    ablated = contents.table("ablation")
    only = dataclasses.replace(contents, tables={"ablation": ablated}, kind="ablate")
    rows = ablated[(ablated["metric"] == "accuracy")]
    worst = rows.loc[rows["delta"].idxmin()]
    assert f"({worst['kind']}.{worst['layer']}.{worst['head']})" in said(only)["heads"]
    assert "headtool test" in details(only)["heads"]
