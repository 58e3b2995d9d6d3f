"""Which heads stay at the shares of the Mechanistic Interpretability Benchmark."""

from __future__ import annotations

import numpy as np
import pytest

from headtool.heads import AttentionSite, Sites
from headtool.masks.keeping import SHARES, budgets_at_shares, by_size, keep_only
from headtool.masks.order import families
from headtool.results.scores import score_frame

SITES = Sites(tuple(AttentionSite("dec-self", layer, 4, 4, 8, f"o{layer}") for layer in range(2)))


@pytest.mark.parametrize("heads", [1, 8, 72, 144, 1000])
def test_the_number_of_heads_kept_is_that_of_the_released_code(heads: int) -> None:
    kept = []
    for pct in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1):
        kept.append(int(pct * heads))
    assert [heads - budget for budget in budgets_at_shares(heads)] == kept
    assert len(SHARES) == 10


def test_only_points_that_are_missing_are_added() -> None:
    (family,) = families(SITES, "25%", keep_one=False, per_kind=False)
    assert family.budgets == (0, 2, 4, 6, 8)
    assert keep_only(family).budgets == (0, 2, 4, 6, 7, 8)  # of 8 heads, .2 keeps one
    (few,) = families(SITES, "25%,50%", keep_one=True, per_kind=False)
    assert keep_only(few).budgets == (0, 2, 4, 7, 8)
    assert not keep_only(few).keep_one


def test_heads_by_the_size_of_their_scores() -> None:
    scores = np.array([0.5, -3.0, 1.0, 2.0, -2.0, 0.0, 0.1, -0.2])
    frame = by_size(score_frame("x", SITES, scores, np.full(8, np.nan)))
    (family,) = families(SITES, "1", keep_one=False, per_kind=False)
    assert np.abs(scores)[family.order(frame)].tolist() == sorted(np.abs(scores))
    # Of two equal sizes, the one that was ranked higher stays longer.
    assert family.order(frame)[-3:].tolist() == [4, 3, 1]
    assert frame["mean_rank"].tolist() == [5, 1, 4, 2.5, 2.5, 8, 7, 6]
