"""The order in which heads leave, and cuts that fall among heads with one score."""

from __future__ import annotations

import numpy as np
import pytest

from headtool.heads import AttentionSite, Sites
from headtool.masks.curves import CurveMasks
from headtool.masks.order import cut_ties, families, one_shot_closed, tied_closed
from headtool.results.scores import score_frame

SITES = Sites(tuple(AttentionSite("dec-self", layer, 4, 4, 8, f"o{layer}") for layer in range(2)))
SCORES = np.array([3.0, 1.0, 1.0, 2.0, 1.0, 0.0, 5.0, 4.0])


def test_a_cut_among_equal_scores_is_found() -> None:
    (family,) = families(SITES, "1", keep_one=False, per_kind=False)
    frame = score_frame("x", SITES, SCORES, np.full(8, np.nan), seed=5)
    closed = one_shot_closed(family, frame)
    assert cut_ties(frame["score"], closed) == {2: 3, 3: 3}  # the three heads that score 1
    assert frame["tied"].tolist() == [False, True, True, False, True, False, False, False]
    clear = score_frame("x", SITES, np.arange(8.0), np.full(8, np.nan))
    assert cut_ties(clear["score"], one_shot_closed(family, clear)) == {}


def test_which_of_equal_heads_leaves_first_depends_on_the_seed() -> None:
    (family,) = families(SITES, "2,4", keep_one=False, per_kind=False)
    second = set()
    for seed in range(30):
        frame = score_frame("x", SITES, SCORES, np.full(8, np.nan), seed=seed)
        second.add(int(family.order(frame)[1]))
    assert second == {1, 2, 4}
    finer = np.array([0, 3.0, 1.0, 0, 2.0, 0, 0, 0])
    frame = score_frame("x", SITES, SCORES, np.full(8, np.nan), tie_break=finer)
    assert family.order(frame)[1:4].tolist() == [2, 4, 1]


@pytest.mark.parametrize("keep_one", [False, True])
def test_orders_of_heads_that_nothing_tells_apart_are_those_of_random_masks(
    keep_one: bool,
) -> None:
    (family,) = families(SITES, "2", keep_one=keep_one, per_kind=False)
    masks = CurveMasks.draw("all", SITES, family.budgets, {}, draws=5, keep_one=keep_one, seed=3)
    alike = score_frame("x", SITES, np.ones(8), np.full(8, np.nan))
    found = tied_closed(family, {"x": alike}, masks.keys)
    np.testing.assert_array_equal(found["x"], masks.random)


def test_only_heads_that_chance_ranks_change_places() -> None:
    (family,) = families(SITES, "1", keep_one=False, per_kind=False)
    keys = np.random.default_rng(0).random((40, 8))
    frame = score_frame("x", SITES, SCORES, np.full(8, np.nan))
    mean = tied_closed(family, {"x": frame}, keys)["x"].mean(axis=0)
    assert mean[1].tolist() == [0, 0, 0, 0, 0, 1, 0, 0]
    assert mean[2][[1, 2, 4]] == pytest.approx(np.full(3, 1 / 3), abs=0.25)
    assert mean[4].tolist() == [0, 1, 1, 0, 1, 1, 0, 0]
    finer = np.array([0, 3.0, 1.0, 0, 2.0, 0, 0, 0])
    by_loss = score_frame("x", SITES, SCORES, np.full(8, np.nan), tie_break=finer)
    assert tied_closed(family, {"x": by_loss}, keys) == {}
    (coarse,) = families(SITES, "4", keep_one=False, per_kind=False)
    assert tied_closed(coarse, {"x": frame}, keys) == {}
    assert tied_closed(family, {"x": frame}, keys[:0]) == {}
