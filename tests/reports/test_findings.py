"""The prose says what the tables say: every number in it is looked up again here, by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from headtool.analysis.equivalence import VERDICTS
from headtool.reports.contents import facts
from headtool.reports.contents.facts import ceiling_of, default_budget
from headtool.reports.contents.run import Contents
from headtool.reports.findings.findings import findings

from ..support.comparisons import comparison

Make = Callable[..., Contents]


def said(contents: Contents) -> dict[str, str]:
    return {finding.topic: finding.headline for finding in findings(contents)}


def details(contents: Contents) -> dict[str, str]:
    return {finding.topic: finding.detail for finding in findings(contents)}


def with_tables(contents: Contents, **tables: pd.DataFrame) -> Contents:
    return dataclasses.replace(contents, tables={**contents.tables, **tables})


def with_settings(contents: Contents, **settings: Any) -> Contents:
    return dataclasses.replace(contents, settings={**contents.settings, **settings})


def test_verdicts_are_those_of_the_tests() -> None:
    assert facts.VERDICTS == VERDICTS


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


def on_many_examples(contents: Contents) -> Contents:
    """The same run on the 872 examples of its source, not on a split of twenty."""
    tables = {name: table for name, table in contents.tables.items() if name != "splits"}
    return dataclasses.replace(contents, tables=tables)


def reach(curves: pd.DataFrame, method: str, column: str, margin: float) -> float:
    """The largest share up to which a method's curve never leaves the margin."""
    rows = curves[curves["method"] == method].sort_values("share")
    reached = 0.0
    for share, value in zip(rows["share"], rows[column], strict=True):
        if value < -margin:
            break
        reached = share
    return reached


def test_the_share_that_can_go_is_where_the_curve_leaves_the_margin(contents: Contents) -> None:
    curves = contents.table("curves")
    best = max(contents.methods, key=lambda method: reach(curves, method, "delta", 0.01))
    share = reach(curves, best, "delta", 0.01)
    assert (best, share) == ("gradient", 0.5)
    many = on_many_examples(contents)
    assert said(many)["curves"] == (
        "No heads removed together are shown to cost less than 0.01 of accuracy: the 95% band is "
        "not within that margin even at the first step, whichever method chooses them. By the "
        "estimate alone, 36 of the 72 heads (50%) can go in the order of gradient."
    )
    assert "50% for gradient, 40.3% for ablation" in details(many)["curves"]
    assert "band is not within it even at the first step" in details(many)["curves"]


def test_the_lead_is_how_far_the_band_stays_within_the_margin(contents: Contents) -> None:
    curves = contents.table("curves")
    narrow = curves.assign(low=curves["delta"] - 0.005, high=curves["delta"] + 0.005)
    share = reach(narrow, "gradient", "low", 0.01)
    assert 0 < share < reach(narrow, "gradient", "delta", 0.01)
    found = with_tables(on_many_examples(contents), curves=narrow)
    assert said(found)["curves"] == (
        f"Removed together, {round(72 * share)} of the 72 heads ({100 * share:.1f}%) can go in the "
        "order of gradient before the 95% band of accuracy leaves the margin of 0.01; by the "
        "estimate alone, 36 of the 72 heads (50%) can go in the order of gradient."
    )
    assert (
        f"Before the 95% band leaves it: {100 * share:.1f}% for gradient, "
        in (details(found)["curves"])
    )


def test_methods_that_reach_equally_far_are_all_named(contents: Contents) -> None:
    curves = contents.table("curves")
    twin = curves[curves["method"] == "gradient"].assign(method="gates")
    tied = pd.concat([curves[curves["method"] != "gates"], twin], ignore_index=True)
    text = said(with_tables(on_many_examples(contents), curves=tied))["curves"]
    assert "can go in the order of gradient or gates (both as far)." in text


def test_a_margin_finer_than_the_examples_is_not_resolved(make: Make) -> None:
    contents = make()  # evaluated on ten examples
    text = said(contents)["curves"]
    assert text.startswith(
        "These data cannot resolve the margin of 0.01: one of the 10 examples is worth 0.1 of "
        "accuracy. By the estimate alone, 36 of the 72 heads"
    )
    coarser = said(with_settings(contents, margin=0.2))["curves"]
    assert "change none of the 10 examples could still cost up to about 0.3 of accuracy" in coarser
    assert "cannot resolve" not in said(with_settings(contents, margin=0.3))["curves"]
    assert "cannot resolve" not in said(with_settings(contents, metric="loss"))["curves"]


def test_a_metric_that_is_better_when_lower_turns_the_margin_around(contents: Contents) -> None:
    curves = contents.table("curves")
    flipped = curves.assign(delta=-curves["delta"], low=-curves["high"], high=-curves["low"])
    turned = with_settings(
        with_tables(contents, curves=flipped), higher_is_better=False, metric="loss"
    )
    assert "36 of the 72 heads (50%)" in said(turned)["curves"]
    unturned = with_settings(with_tables(contents, curves=flipped), metric="loss")
    assert "can go" in said(unturned)["curves"]
    assert "65 of the 72 heads (90.3%)" in said(unturned)["curves"]


def test_worse_than_any_random_mask_is_said(contents: Contents) -> None:
    tests = contents.table("curve_tests")
    mine = (tests["method_x"] == "gates") & (tests["method_y"] == "random")
    tests = tests.assign(
        area=tests["area"].where(~mine, -0.1), p_adjusted=tests["p_adjusted"].where(~mine, 0.01)
    )
    text = said(with_tables(contents, curve_tests=tests))["winner"]
    assert "gradient and ablation are better; gates is worse than their average; conf" in text


def test_metrics_and_pairs_of_files_are_named_for_readers(make: Make) -> None:
    contents = with_settings(make(data=("x/test.de,x/test.en",)), metric="bleu")
    assert "x/test (de, en)" in said(contents)["heads"]
    assert "cost less than 0.01 of BLEU" in said(contents)["curves"]


def test_nothing_can_go_where_the_first_step_costs_too_much(contents: Contents) -> None:
    curves = contents.table("curves")
    steep = curves.assign(delta=curves["delta"].where(curves["share"] == 0, -0.5))
    assert (
        "even the first step (7 heads) is estimated to cost more than 0.01"
        in said(with_tables(on_many_examples(contents), curves=steep))["curves"]
    )


def test_winners_are_those_with_a_corrected_p_below_the_level(contents: Contents) -> None:
    text = said(contents)["winner"]
    assert text.startswith("gradient beats random masks")
    assert "by 0.11 of accuracy on average over the curve (95% interval 0.09 to 0.13" in text
    assert "better than 20 of 20 draws)" in text
    assert "ablation (by 0.08) does so as well" in text
    assert "gates and confidence do not" in text
    assert (
        "Against random masks of any heads, gradient and ablation are better; gates and "
        "confidence cannot be told apart from them."
    ) in text
    assert "no two methods differ detectably" in text


def test_without_a_winner_it_says_so(make: Make) -> None:
    text = said(make(winners=0))["winner"]
    assert text.startswith("No method does detectably better than random masks")
    assert "beats" not in text


def test_a_large_area_with_a_large_p_wins_nothing(contents: Contents) -> None:
    tests = contents.table("curve_tests").assign(p_adjusted=0.2)
    assert said(with_tables(contents, curve_tests=tests))["winner"].startswith("No method")
    strict = with_settings(contents, alpha=0.001)
    assert said(strict)["winner"].startswith("No method")


def test_few_draws_leave_room_for_luck(make: Make) -> None:
    text = said(make(draws=4))["winner"]
    assert text.startswith("No method is shown to beat random masks")
    assert "gradient (by 0.11; better than 4 of 4 draws, p = 0.2) and ablation (by 0.08" in text
    assert "gradient and ablation are better than their average only" in text


def test_a_change_as_large_as_the_margin_is_within_it(contents: Contents) -> None:
    curves = contents.table("curves")
    first = curves["share"].between(0.05, 0.15)
    exact = curves.assign(delta=curves["delta"].where(~first, 0.89 - 0.9))
    text = said(with_tables(contents, curves=exact))["curves"]
    assert "even the first step" not in text


def test_losing_to_random_is_said(contents: Contents) -> None:
    tests = contents.table("curve_tests")
    mine = tests["method_x"] == "confidence"
    tests = tests.assign(
        area=tests["area"].where(~mine, -0.2), p_adjusted=tests["p_adjusted"].where(~mine, 0.001)
    )
    assert (
        "confidence does worse than such masks on average."
        in said(with_tables(contents, curve_tests=tests))["winner"]
    )


def test_direct_comparisons_name_the_better_one_whichever_comes_first(contents: Contents) -> None:
    tests = contents.table("curve_tests")
    pair = (tests["method_x"] == "gradient") & (tests["method_y"] == "gates")
    tests = tests.assign(
        area=tests["area"].where(~pair, -0.06), p_adjusted=tests["p_adjusted"].where(~pair, 0.002)
    )
    changed = with_tables(contents, curve_tests=tests)
    assert "Compared with each other, gates is better than gradient." in said(changed)["winner"]
    assert (
        "gates is better than gradient by 0.06 (adjusted p = 0.002)" in details(changed)["winner"]
    )
    assert "the other five pairs cannot be told apart" in details(changed)["winner"]


def test_agreement_names_the_closest_and_the_farthest_pair(contents: Contents) -> None:
    text = said(contents)["agreement"]
    assert text == (
        "The methods agree weakly on the order of the heads (tau-b from 0.1 (gates and confidence) "
        "to 0.6 (gradient and ablation))."
    )
    detail = details(contents)["agreement"]
    assert "Kendall's W over four methods is 0.52 (within layers p = 0.003)" in detail
    assert "2 of the 6 pairs of methods agree beyond that" in detail  # p .004, .034, .064, ...
    assert "0.9 for gradient, 0.8 for ablation, 0.7 for gates and 0.6 for confidence" in detail


def test_agreement_above_that_of_a_method_with_itself_is_no_contradiction(make: Make) -> None:
    contents = make(methods=("gradient", "ablation"))
    noisy = contents.table("stability").assign(tau_b=[0.44, 0.0654])
    assert contents.table("agreement")["tau_b"].item() > noisy["tau_b"].max()
    detail = details(with_tables(contents, stability=noisy))["agreement"]
    assert "guide to the noise in the rankings: tau-b 0.44 for gradient and 0.0654 for" in detail
    assert "expected to agree better" not in detail


def test_pairs_that_agree_beyond_layers_are_counted_in_words(make: Make) -> None:
    one = make(methods=("gradient", "ablation"))
    assert "The two methods agree beyond that" in details(one)["agreement"]
    chance = one.table("agreement").assign(tau_b_p_within_layers=0.6)
    detail = details(with_tables(one, agreement=chance))["agreement"]
    assert "The two methods do not agree detectably beyond that" in detail
    three = make(methods=("gradient", "ablation", "gates"))
    chance = three.table("agreement").assign(tau_b_p_within_layers=0.6)
    detail = details(with_tables(three, agreement=chance))["agreement"]
    assert "None of the 3 pairs of methods agree beyond that" in detail


@pytest.mark.parametrize(
    ("tau", "words"),
    [(0.8, "agree closely"), (0.5, "agree moderately"), (0.3, "agree weakly"),
     (0.05, "hardly agree"), (-0.5, "contradict each other")],
)  # fmt: skip
def test_words_for_the_strength_of_agreement(contents: Contents, tau: float, words: str) -> None:
    pairs = contents.table("agreement").assign(tau_b=tau)
    assert f"The methods {words} " in said(with_tables(contents, agreement=pairs))["agreement"]


def test_one_method_has_no_agreement_and_the_report_says_so(make: Make) -> None:
    contents = make(methods=("gradient",))
    assert said(contents)["agreement"] == ""
    assert details(contents)["agreement"].startswith("Only one method has scores")
    assert "kept" not in said(contents)


def test_consensus_is_counted_at_half_of_the_heads(contents: Contents) -> None:
    budget = default_budget(contents)
    assert budget == 36
    status = contents.table("consensus").query("budget == 36")["status"].tolist()
    kept, removed = status.count("consensus-kept"), status.count("consensus-removed")
    assert said(contents)["kept"] == (
        f"With 50% of the heads removed, all methods keep {kept} of the 72, all remove {removed}, "
        f"and {status.count('disputed')} are disputed."
    )


def test_the_noise_ceiling_is_the_root_of_the_reliabilities(contents: Contents) -> None:
    row = contents.table("correlations").iloc[0]
    assert ceiling_of(row) == pytest.approx((0.86 * 0.78) ** 0.5)
    text = said(contents)["data"]
    assert "Pearson 0.71, Spearman 0.42; the noise lets no more than 0.819 be expected" in text
    assert text.startswith("Partly the same heads matter on data/reviews.tsv")


def test_a_correlation_that_layers_explain_claims_nothing(contents: Contents) -> None:
    pairs = contents.table("correlations").assign(spearman_p_within_layers=0.3)
    text = said(with_tables(contents, correlations=pairs))["data"]
    assert text.startswith("Whether the same heads matter")


def test_an_undefined_reliability_has_no_ceiling(contents: Contents) -> None:
    pairs = contents.table("correlations").assign(
        reliability_y=-0.2, disattenuated=float("nan"), note="reliability below .3"
    )
    changed = with_tables(contents, correlations=pairs)
    assert "noise" not in said(changed)["data"]
    assert "Reliability below .3." in details(changed)["data"]


def test_additivity_speaks_of_the_interval(contents: Contents) -> None:
    table = contents.table("additivity")
    assert said(contents)["additivity"].startswith("Single effects do not add up: the 36 heads")
    open_ = table.assign(low=-1.0, high=1.0)
    text = said(with_tables(contents, additivity=open_))["additivity"]
    assert text.startswith("Whether single effects add up stays open: the 36 heads that gradient")
    row = table[(table["method"] == "gradient") & (table["budget"] == 36)].iloc[0]
    assert f"{row['joint']:.3g}".replace("-", "−") in text


def test_failures_are_named(contents: Contents) -> None:
    assert said(contents)["failures"] == "lrp failed and is missing from all that follows."


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
