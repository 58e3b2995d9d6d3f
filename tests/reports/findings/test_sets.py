"""The prose on sets of heads: every number in it is looked up again here, by hand."""

from __future__ import annotations

import dataclasses

import pandas as pd

from headtool.reports.contents.reach import default_budget
from headtool.reports.contents.run import Contents

from ...support.pages import Make, details, said, with_settings, with_tables


def on_many_examples(contents: Contents) -> Contents:
    """The same run on the 872 examples of its source, not on a split of twenty."""
    tables = {name: table for name, table in contents.tables.items() if name != "splits"}
    return dataclasses.replace(contents, tables=tables)


def reach(curves: pd.DataFrame, method: str, column: str, margin: float) -> float:
    """The largest share within the margin, before the whole band of the method lies beyond it."""
    rows = curves[curves["method"] == method].sort_values("share")
    reached = 0.0
    for share, value, best in zip(rows["share"], rows[column], rows["high"], strict=True):
        if best < -margin:
            break
        if value >= -margin:
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
        "estimate alone, 36 of the 72 heads (50%), chosen by gradient, can go."
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
        f"Removed together, {round(72 * share)} of the 72 heads ({100 * share:.1f}%), chosen by "
        "gradient, can go before the 95% band of accuracy leaves the margin of 0.01; by the "
        "estimate alone, 36 of the 72 heads (50%), chosen by gradient, can go."
    )
    assert (
        f"At a 95% band within it: {100 * share:.1f}% for gradient, " in (details(found)["curves"])
    )


def test_methods_that_reach_equally_far_are_all_named(contents: Contents) -> None:
    curves = contents.table("curves")
    twin = curves[curves["method"] == "gradient"].assign(method="gates")
    tied = pd.concat([curves[curves["method"] != "gates"], twin], ignore_index=True)
    text = said(with_tables(on_many_examples(contents), curves=tied))["curves"]
    assert "chosen by gradient or gates (both reach equally far), can go." in text


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
        area=tests["area"].where(~mine, -0.1),
        p_adjusted=tests["p_adjusted"].where(~mine, 0.01),
        draws_beaten=tests["draws_beaten"].where(~mine, 0.0),
    )
    text = said(with_tables(contents, curve_tests=tests))["winner"]
    assert "ablation are better; gates is worse than their average only; conf" in text
    sure = tests.assign(p_draws_adjusted=tests["p_draws_adjusted"].where(~mine, 0.04))
    text = said(with_tables(contents, curve_tests=sure))["winner"]
    assert "gradient and ablation are better; gates is worse; conf" in text


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
    assert "better than 399 of 399 draws)" in text
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
    tests = contents.table("curve_tests").assign(p_adjusted=0.2, p_draws_adjusted=0.2)
    assert said(with_tables(contents, curve_tests=tests))["winner"].startswith("No method")
    strict = with_settings(contents, alpha=0.001)
    assert said(strict)["winner"].startswith("No method")


def test_few_draws_leave_room_for_luck(make: Make) -> None:
    text = said(make(draws=4))["winner"]
    assert text.startswith("No method is shown to beat random masks")
    assert (
        "gradient (by 0.11; better than 4 of 4 draws, adjusted p = 1) and ablation (by 0.08" in text
    )
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
        "confidence does worse than their average, and random draws do as badly."
        in said(with_tables(contents, curve_tests=tests))["winner"]
    )
    sure = tests.assign(
        draws_beaten=tests["draws_beaten"].where(~mine, 0.0),
        p_draws_adjusted=tests["p_draws_adjusted"].where(~mine, 0.02),
    )
    text = said(with_tables(contents, curve_tests=sure))["winner"]
    assert "confidence does worse than such masks." in text


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


def test_consensus_is_counted_at_half_of_the_heads(contents: Contents) -> None:
    budget = default_budget(contents)
    assert budget == 36
    status = contents.table("consensus").query("budget == 36")["status"].tolist()
    kept, removed = status.count("consensus-kept"), status.count("consensus-removed")
    assert said(contents)["kept"] == (
        f"With 50% of the heads removed, all methods keep {kept} of the 72, all remove {removed}, "
        f"and {status.count('disputed')} are disputed."
    )


def test_additivity_speaks_of_the_interval(contents: Contents) -> None:
    table = contents.table("additivity")
    assert said(contents)["additivity"].startswith("Single effects do not add up: the 36 heads")
    open_ = table.assign(low=-1.0, high=1.0)
    text = said(with_tables(contents, additivity=open_))["additivity"]
    assert text.startswith("It stays open whether single effects add up: the 36 heads that grad")
    row = table[(table["method"] == "gradient") & (table["budget"] == 36)].iloc[0]
    assert f"{row['joint']:.3g}".replace("-", "−") in text
