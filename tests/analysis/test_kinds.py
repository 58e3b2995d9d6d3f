"""Restricting outcomes to kinds of attention, and summing tests up by kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from headtool.analysis.assessment import assess_outcomes
from headtool.analysis.kinds import of_kinds, summarise_kinds
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask, Kind, Sites
from headtool.metrics import get_metric
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

SITES = Sites(
    tuple(AttentionSite(kind, 0, 3, 3, 4, kind) for kind in ("enc-self", "dec-self", "cross"))
)
LOSS = get_metric("loss", task="seq2seq")


@pytest.fixture
def outcomes() -> Outcomes:
    """Three heads of each kind but dec-self, which has one; cross heads matter."""
    rng = np.random.default_rng(3)
    heads = [head for head in SITES.heads if head.kind != "dec-self" or head.index == 1]
    masks = tuple(HeadMask.without(SITES, [head]) for head in heads)
    whole = {"loss": rng.gamma(2.0, size=60), "tokens": np.ones(60)}
    cost = np.array([[0.5 if head.kind == "cross" else 0.0] for head in heads])
    noise = 0.1 * rng.normal(size=(len(masks), 60))
    masked = {"loss": whole["loss"] + cost + noise, "tokens": np.ones((len(masks), 60))}
    return Outcomes(masks, whole, masked)


@pytest.mark.parametrize("kinds", [("cross",), ("enc-self", "dec-self")])
def test_masks_of_some_kinds(outcomes: Outcomes, kinds: tuple[Kind, ...]) -> None:
    found = of_kinds(outcomes, kinds)
    rows = [i for i, mask in enumerate(outcomes.masks) if mask.closed[0].kind in kinds]
    assert found.masks == tuple(outcomes.masks[i] for i in rows)
    np.testing.assert_array_equal(found.masked["loss"], outcomes.masked["loss"][rows])
    assert found.whole is outcomes.whole


def test_all_kinds_are_the_outcomes_themselves(outcomes: Outcomes) -> None:
    assert of_kinds(outcomes, None) is outcomes


def test_all_but_one_masks_have_the_kind_of_their_head() -> None:
    heads = SITES.items[2].heads
    mask = HeadMask.without(SITES, [heads[0], heads[2]])
    one = {"loss": np.ones((1, 4)), "tokens": np.ones((1, 4))}
    alone = Outcomes((mask,), {name: values[0] for name, values in one.items()}, one)
    assert of_kinds(alone, ("cross",)).masks == (mask,)


def test_a_kind_that_was_not_ablated(outcomes: Outcomes) -> None:
    part = of_kinds(outcomes, ("enc-self", "cross"))
    with pytest.raises(HeadtoolError, match=r"no dec-self head.*only enc-self, cross.*leave"):
        of_kinds(part, ("cross", "dec-self"))


def test_summary(outcomes: Outcomes) -> None:
    tests = assess_outcomes(outcomes, LOSS, margin=0.1, resamples=2000).frame
    summary = summarise_kinds(tests, alpha=0.05)
    assert list(summary.columns) == list(TABLES["kinds"].names)
    assert summary["kind"].tolist() == ["enc-self", "dec-self", "cross"]
    assert summary["heads"].tolist() == [3, 1, 3]
    cross = summary.iloc[2]
    deltas = tests.loc[tests["kind"] == "cross", "delta"]
    assert cross["sd"] == pytest.approx(np.std(deltas, ddof=1))
    assert (cross["lowest"], cross["highest"]) == (deltas.min(), deltas.max())
    assert cross["mean"] == pytest.approx(deltas.mean())
    assert (cross["significant"], cross["needed"]) == (3, 3)
    assert np.isnan(summary.iloc[1]["sd"])  # of one head


def test_significant_is_not_the_same_as_needed() -> None:
    tests = pd.DataFrame(
        {
            "kind": ["cross"] * 4,
            "delta": [-0.3, -0.1, 0.2, 0.0],
            "p_adjusted": [0.01, 0.05, 0.02, np.nan],
            "verdict": ["needed", "removable", "harmful", "undecided"],
        }
    )
    (row,) = summarise_kinds(tests, alpha=0.05).to_dict("records")
    assert row["significant"] == 3
    assert [row[name] for name in ("needed", "removable", "harmful", "undecided")] == [1, 1, 1, 1]


def test_nothing_tested_has_no_kinds(outcomes: Outcomes) -> None:
    empty = assess_outcomes(outcomes, LOSS, resamples=200).frame.iloc[:0]
    summary = summarise_kinds(empty, alpha=0.05)
    assert summary.empty
    assert list(summary.columns) == list(TABLES["kinds"].names)
