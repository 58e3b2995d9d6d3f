"""The verdict in one sentence, and the table of methods below it."""

from __future__ import annotations

import pandas as pd

from headtool.reports.contents.reach import reach_of
from headtool.reports.contents.run import Contents
from headtool.reports.findings.headline import _counted, headline
from headtool.reports.sections.overview import methods_table
from headtool.reports.sections.page import build_page

from ...support.pages import Make, with_settings, with_tables
from .test_sets import on_many_examples


def test_it_says_who_chooses_best_how_many_heads_go_and_how_sure_that_is(
    contents: Contents,
) -> None:
    text = headline(on_many_examples(contents))
    best, share, singles = text.split("; ")
    assert best == "Gradient and ablation choose best"
    assert share.startswith("50% of the heads (36) can go for at most 0.01 of accuracy")
    assert share.endswith("(chosen by gradient), which the data are too few to confirm")
    verdicts = contents.table("tests").query("data == @contents.data[0]")["verdict"]
    needed = int((verdicts == "needed").sum())
    assert f"{needed} are needed" in singles


def test_a_method_that_another_beats_is_not_best(contents: Contents) -> None:
    tests = contents.table("curve_tests")
    pair = (tests["method_x"] == "gradient") & (tests["method_y"] == "ablation")
    assert pair.sum() == 1
    beaten = tests.assign(p_adjusted=tests["p_adjusted"].where(~pair, 0.01))
    area = float(beaten.loc[pair, "area"].iloc[0])
    better = "Gradient" if area > 0 else "Ablation"
    assert headline(with_tables(contents, curve_tests=beaten)).startswith(f"{better} chooses best")


def test_masks_that_match_layers_are_no_reason_to_call_a_method_best(contents: Contents) -> None:
    tests = contents.table("curve_tests")
    any_heads = tests["method_y"] == "random"
    unclear = {
        name: tests[name].where(~any_heads, 0.5) for name in ("p_adjusted", "p_draws_adjusted")
    }
    open_ = tests.assign(**unclear)
    text = headline(with_tables(contents, curve_tests=open_))
    assert text.startswith("No method is shown to choose better than lucky random masks")


def test_methods_differ_though_none_is_shown_to_beat_random_masks(contents: Contents) -> None:
    tests = contents.table("curve_tests")
    pair = (tests["method_x"] == "gradient") & (tests["method_y"] == "confidence")
    lost = tests.assign(
        p_adjusted=tests["p_adjusted"].where(~pair, 0.01),
        p_draws_adjusted=tests["p_draws_adjusted"].where(tests["p_draws_adjusted"].isna(), 1.0),
    )
    assert float(lost.loc[pair, "area"].iloc[0]) > 0
    assert headline(with_tables(contents, curve_tests=lost)).startswith(
        "Gradient chooses better than confidence, but no method is shown to choose better than "
        "lucky random masks; "
    )


def test_many_methods_are_counted_and_few_are_named(contents: Contents) -> None:
    assert _counted(["gates", "random"], contents) == "gates and random"
    number = f"5 of the {len(contents.methods)} methods"
    assert _counted(list("abcde"), contents) == number


def test_a_dip_does_not_end_what_can_go_unless_the_band_does(contents: Contents) -> None:
    curves = on_many_examples(contents).table("curves")
    first = sorted(curves["share"].unique())[1]
    dip = (curves["method"] == "gradient") & (curves["share"] == first)
    many = on_many_examples(contents)

    def reached(high: float) -> float:
        dipped = curves.assign(
            delta=curves["delta"].where(~dip, -0.02), high=curves["high"].where(~dip, high)
        )
        return reach_of(with_tables(many, curves=dipped))["gradient"].share

    assert reached(0.0) == 0.5
    assert reached(-0.015) == 0.0


def test_nothing_is_sure_where_an_example_is_worth_more_than_the_margin(make: Make) -> None:
    contents = make()  # evaluated on ten examples
    curves = contents.table("curves")
    flat = with_tables(contents, curves=curves.assign(delta=0.0, low=0.0, high=0.0))
    end = curves["share"].max()
    assert {(one.share, one.sure) for one in reach_of(flat).values()} == {(end, 0.0)}
    assert {one.sure for one in reach_of(with_settings(flat, margin=0.3)).values()} == {end}


def test_the_table_ranks_methods_by_the_masks_that_they_share(contents: Contents) -> None:
    table = methods_table(contents)
    assert table is not None
    tests = contents.table("curve_tests").query("kind == 'all' and method_y == 'random'")
    ranked = tests.sort_values("area", ascending=False)["method_x"].tolist()
    assert [row[0].text for row in table.rows] == ranked
    assert len({len(row) for row in table.rows}) == 1
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_data_that_settle_nothing_are_told_once(contents: Contents) -> None:
    verdicts = contents.table("tests").assign(verdict="undecided")
    text = headline(with_tables(on_many_examples(contents), tests=verdicts))
    assert text.endswith("; the data are too few to confirm that, or to settle single heads.")
    assert text.count("too few") == 1


def test_a_run_without_curves_or_tests_has_no_headline(contents: Contents) -> None:
    empty: dict[str, pd.DataFrame] = {
        name: contents.table(name).iloc[:0] for name in ("curves", "curve_tests", "tests")
    }
    bare = with_tables(contents, **empty)
    assert headline(bare) == ""
    assert methods_table(bare) is None
    assert build_page(bare).opening
