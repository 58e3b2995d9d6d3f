"""The prose on agreement and on data sets: every number in it is looked up again by hand."""

from __future__ import annotations

import pytest

from headtool.reports.contents.run import Contents

from ...support.pages import Make, details, said, with_tables


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


def test_a_correlation_that_layers_explain_claims_nothing(contents: Contents) -> None:
    pairs = contents.table("correlations").assign(spearman_p_within_layers=0.3)
    text = said(with_tables(contents, correlations=pairs))["data"]
    assert text.startswith("Whether the same heads matter")
