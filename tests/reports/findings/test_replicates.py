"""The prose on models of other training seeds says what the tables say."""

from __future__ import annotations

from headtool.reports.contents.run import Contents
from headtool.reports.findings.summary import findings


def test_the_finding_gives_heads_and_layers(replicated: Contents) -> None:
    (finding,) = [one for one in findings(replicated) if one.topic == "replicates"]
    table = replicated.table("replicate_agreement")
    mean = table[table["method"] == "ablation"]["tau_b"].mean()
    layers = table[table["method"] == "gradient"]["layer_spearman"].mean()
    assert (
        "Over three models trained with different seeds (accuracy 0.88 to 0.9)" in finding.headline
    )
    assert f"{mean:.3g} for ablation" in finding.headline
    assert f"Spearman correlation of {layers:.3g} for gradient" in finding.headline
    beyond = (table["tau_b_p_within_layers"] < 0.05).sum()
    assert f"{beyond} of 6 pairs of rankings agree" in finding.detail
    assert "have no counterpart in a model that was trained from another" in finding.detail
