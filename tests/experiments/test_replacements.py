"""What removed heads put out instead of zero, beside zero."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import headtool
from headtool import HeadtoolError
from headtool.engine.evaluation import evaluate
from headtool.engine.replacement import Mean
from headtool.heads import Head, HeadMask
from headtool.masks.curves import budgets_of
from headtool.reports.terminal.comparison import comparison_tables


@pytest.fixture(scope="module")
def compared() -> headtool.Comparison:
    return headtool.compare(
        "builtin:nli",
        methods=["magnitude"],
        limit=24,
        steps="50%",
        draws=2,
        resamples=50,
        metric="loss",
        beside=["mean"],
    )


def test_they_are_those_of_the_engine(compared: headtool.Comparison) -> None:
    """Single heads, and half of all, with means over the examples that evaluate."""
    setup = headtool.set_up("builtin:nli", methods=["magnitude"], limit=24, metric="loss")
    kept = compared.kept.query("budget == 16 and not kept")
    half = [Head(row["kind"], row["layer"], row["head"]) for row in kept.to_dict("records")]
    sites = setup.model.sites
    masks = [HeadMask.without(sites, [sites.heads[5]]), HeadMask.without(sites, half)]
    outcomes = evaluate(setup.model, setup.split.first, masks, replacement=Mean())
    change = outcomes.masked["loss"].mean(axis=1) - outcomes.whole["loss"].mean()
    effects = compared.replacements.query("replacement == 'mean' and metric == 'loss'")
    assert effects["delta"].iloc[5] == pytest.approx(change[0], abs=1e-5)
    curve = compared.replacement_curves.query("replacement == 'mean' and budget == 16")
    assert curve["delta"].item() == pytest.approx(change[1], abs=1e-5)
    assert compared.replacement_curves.query("replacement == 'mean'")["budget"].tolist() == list(
        budgets_of("50%", 32)
    )


def test_zero_is_what_stands_everywhere_else(compared: headtool.Comparison) -> None:
    zero = compared.replacement_curves.query("replacement == 'zero'").reset_index(drop=True)
    own = compared.curves.query("method == 'magnitude'").reset_index(drop=True)
    assert zero["value"].tolist() == own["value"].tolist()
    effects = compared.replacements.query("replacement == 'zero'").reset_index(drop=True)
    assert effects["delta"].tolist() == compared.ablation["delta"].tolist()


def test_agreement_is_that_of_the_effects(compared: headtool.Comparison) -> None:
    (row,) = compared.replacement_agreement.to_dict("records")
    zero, mean = (
        compared.replacements.query(f"replacement == '{name}' and metric == 'loss'")["delta"]
        for name in ("zero", "mean")
    )
    assert row["tau_b"] == pytest.approx(scipy.stats.kendalltau(zero, mean).statistic)
    assert row["spearman"] == pytest.approx(scipy.stats.spearmanr(zero, mean).statistic)
    assert 0 <= row["same_verdict"] <= 1


def test_they_stand_side_by_side(compared: headtool.Comparison, tmp_path: Path) -> None:
    page = headtool.write_report(compared, out=tmp_path / "report.html").read_text()
    assert "Does it matter what removed heads put out?" in page
    assert "Removed heads put out zero; headtool compare --replacement" not in page
    tables = [str(part) for part in comparison_tables(compared)]
    assert any("replacements" in text for text in tables)


def test_by_default_there_is_zero_alone_and_a_word_on_it(tmp_path: Path) -> None:
    found = headtool.curve(
        "builtin:nli", methods=["magnitude"], limit=16, steps="50%", draws=0, resamples=50
    )
    assert found.replacement_curves.empty
    page = headtool.write_report(found, out=tmp_path / "report.html").read_text()
    said = (
        "Removed heads put out zero; headtool compare --replacement zero,mean shows mean beside it"
    )
    assert said in page
    assert np.isfinite(found.faithfulness["value"]).all()


@pytest.mark.parametrize("given", [["zero"], ["mean", "mean"]])
def test_each_is_named_once(given: list[str]) -> None:
    with pytest.raises(HeadtoolError, match="`replacement` names one twice"):
        headtool.Request(beside=given)


def test_unknown_ones_are_refused() -> None:
    with pytest.raises(HeadtoolError, match="unknown replacement 'median'"):
        headtool.Request(beside=["median"])
