"""What the findings say whatever they are about: names for readers, and failures."""

from __future__ import annotations

from headtool.reports.contents.run import Contents

from ...support.pages import Make, said, with_settings


def test_metrics_and_pairs_of_files_are_named_for_readers(make: Make) -> None:
    contents = with_settings(make(data=("x/test.de,x/test.en",)), metric="bleu")
    assert "x/test (de, en)" in said(contents)["heads"]
    assert "cost less than 0.01 of BLEU" in said(contents)["curves"]


def test_failures_are_named(contents: Contents) -> None:
    assert said(contents)["failures"] == "lrp failed and is missing from all that follows."
