"""The prose on random halves says what the tables say."""

from __future__ import annotations

import dataclasses

from headtool.reports.contents.run import Contents
from headtool.reports.findings.summary import findings


def test_the_finding_names_the_steadiest_and_counts_stable_heads(subsampled: Contents) -> None:
    (finding,) = [one for one in findings(subsampled) if one.topic == "stability"]
    table = subsampled.table("subsamples").set_index("method")
    assert f"rankings by gradient agree with a tau-b of {table.loc['gradient', 'tau_b']:.3}" in (
        finding.headline
    )
    at_half = subsampled.table("subsample_overlap").query("budget == 36").set_index("method")
    stable, kept = (int(at_half.loc["gradient", name]) for name in ("stable_kept", "kept"))
    assert f"gradient {stable} of {kept} and ablation" in finding.headline
    assert "on at least 90% of 8 halves" in finding.headline
    # 36 of 72 heads kept; the steady method has more stable ones than chance allows.
    assert stable > 36 * 0.5 / 0.8
    assert f"budget): at most 22.5 of the {stable} that gradient keeps. For" in finding.detail


def test_a_bound_that_says_nothing_is_not_told(subsampled: Contents) -> None:
    table = subsampled.table("subsample_overlap").assign(false_kept=9.0, stable_kept=9)
    told = dataclasses.replace(subsampled, tables={**subsampled.tables, "subsample_overlap": table})
    (finding,) = [one for one in findings(told) if one.topic == "stability"]
    assert "the bound is at least as large as the number that it bounds" in finding.detail
