"""Budgets and masks of pruning curves."""

from __future__ import annotations

import numpy as np
import pytest

from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, HeadMask, Sites
from headtool.heads.masks import DealtMask
from headtool.masks.curves import (
    CurveMasks,
    budgets_of,
    closed_in_order,
    layers_of,
    matched_closed,
    random_closed,
    spare_last,
)

SITES = Sites(
    (
        AttentionSite("enc-self", 0, 4, 4, 2, "a"),
        AttentionSite("enc-self", 1, 2, 2, 2, "b"),
        AttentionSite("cross", 0, 4, 4, 2, "c"),
    )
)
LAYERS = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2, 2])


@pytest.mark.parametrize(
    ("steps", "heads", "most", "expected"),
    [
        ("10%", 32, None, (0, 3, 6, 10, 13, 16, 19, 22, 26, 29, 32)),
        ("10%", 144, None, (0, 14, 29, 43, 58, 72, 86, 101, 115, 130, 144)),
        ("30%", 10, None, (0, 3, 6, 9, 10)),
        ("100%", 7, None, (0, 7)),
        ("1%", 4, None, (0, 1, 2, 3, 4)),
        ("33.3%", 3, None, (0, 1, 2, 3)),
        ("4", 10, None, (0, 4, 8, 10)),
        ("1", 3, None, (0, 1, 2, 3)),
        ("10", 10, None, (0, 10)),
        ("25%", 8, 6, (0, 2, 4, 6)),
        ("50%", 8, 7, (0, 4, 7)),
        ("20%,50%", 10, None, (0, 2, 5)),
        ("20%, 7 , 100%", 10, None, (0, 2, 7, 10)),
    ],
)
def test_budgets(steps: str, heads: int, most: int | None, expected: tuple[int, ...]) -> None:
    assert budgets_of(steps, heads, most=most) == expected


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("", "shares such as 10% or numbers of heads such as 4, got ''"),
        ("a%", "got 'a%'"),
        ("0.1", "got '0.1'"),
        ("0%", "0% must be above 0 and at most 100%"),
        ("-5%", "-5% must be above 0"),
        ("101%", "101% must be above 0 and at most 100%"),
        ("nan%", "nan% must be above 0"),
        ("0", "0 must be above 0 and at most the model's 8 heads"),
        ("9", "9 must be above 0 and at most the model's 8 heads"),
        ("50%,100%", "100% is 8 heads, and at most 6 of 8 can be removed"),
        ("50%,20%", "budgets must rise"),
        ("50%,50%", "budgets must rise"),
        ("1%,50%", "budgets must rise by at least a head of 8; they are 0, 4 heads"),
        ("20%,", "got '20%,'"),
    ],
)
def test_bad_budgets(steps: str, message: str) -> None:
    with pytest.raises(HeadtoolError) as error:
        budgets_of(steps, 8, most=6)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_layers_are_sites() -> None:
    # Canonical order puts cross after the encoder.
    assert layers_of(SITES).tolist() == LAYERS.tolist()


def test_the_last_head_of_a_layer_is_spared() -> None:
    order = np.array([4, 0, 1, 5, 2, 3, 6, 7, 8, 9])
    assert spare_last(order, LAYERS).tolist() == [4, 0, 1, 2, 6, 7, 8]
    closed = closed_in_order(spare_last(order, LAYERS), (0, 7), 10)
    assert [(~closed[1])[layer == LAYERS].sum() for layer in range(3)] == [1, 1, 1]


def test_heads_leave_in_order() -> None:
    closed = closed_in_order(np.array([2, 0, 1]), (0, 1, 3), 4)
    assert closed.astype(int).tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0]]


def test_matched_masks_have_the_counts_of_every_layer_and_grow() -> None:
    rng = np.random.default_rng(0)
    closed = closed_in_order(rng.permutation(10), (0, 3, 6, 10), 10)
    for _ in range(50):
        drawn = matched_closed(closed, rng.random(10), LAYERS)
        for layer in range(3):
            inside = layer == LAYERS
            assert (drawn[:, inside].sum(axis=1) == closed[:, inside].sum(axis=1)).all()
        assert (drawn[1:] >= drawn[:-1]).all()


def test_random_masks_are_uniform() -> None:
    """Every head is closed equally often; with one spared in each layer, within its layer."""
    rng = np.random.default_rng(1)
    free = np.array(
        [random_closed(rng.random(10), (4,), LAYERS, keep_one=False)[0] for _ in range(4000)]
    )
    np.testing.assert_allclose(free.mean(axis=0), 0.4, atol=0.03)
    spared = np.array(
        [random_closed(rng.random(10), (7,), LAYERS, keep_one=True)[0] for _ in range(4000)]
    )
    expected = np.array([3 / 4] * 4 + [1 / 2] * 2 + [3 / 4] * 4)
    np.testing.assert_allclose(spared.mean(axis=0), expected, atol=0.03)
    matched = np.array([matched_closed(free[:1], rng.random(10), LAYERS)[0] for _ in range(4000)])
    share = [free[0][layer == LAYERS].mean() for layer in LAYERS]
    np.testing.assert_allclose(matched.mean(axis=0), share, atol=0.03)


def test_draws_are_shared_by_methods_and_repeat() -> None:
    a = closed_in_order(np.arange(10), (0, 5, 10), 10)
    b = a.copy()
    masks = CurveMasks.draw(
        "all", SITES, (0, 5, 10), {"a": a, "b": b}, draws=3, keep_one=False, seed=4
    )
    assert masks.random.shape == masks.matched["a"].shape == (3, 3, 10)
    assert (masks.matched["a"] == masks.matched["b"]).all()
    again = CurveMasks.draw("all", SITES, (0, 5, 10), {"b": b}, draws=3, keep_one=False, seed=4)
    assert (again.random == masks.random).all()
    assert (again.matched["b"] == masks.matched["b"]).all()
    other = CurveMasks.draw("all", SITES, (0, 5, 10), {"b": b}, draws=3, keep_one=False, seed=5)
    assert (other.random != masks.random).any()
    only = masks.only(["b"])
    assert list(only.closed) == list(only.matched) == ["b"]


def test_dealt_masks_are_nested_and_close_all_heads_as_often() -> None:
    """Each example has a uniform order of its own; over all of them, heads take turns."""
    closed = {"a": closed_in_order(np.arange(10), (0, 4, 7, 10), 10)}

    def deal(examples: int, seed: int) -> CurveMasks:
        return CurveMasks.draw(
            "all",
            SITES,
            (0, 4, 7, 10),
            closed,
            draws=None,
            keep_one=False,
            seed=seed,
            deal=examples,
        )

    masks = deal(400, 1)
    assert masks.dealt is not None
    assert masks.dealt.shape == (400, 4, 10)
    assert masks.random.shape == (0, 4, 10)
    assert (masks.dealt.sum(axis=2) == [0, 4, 7, 10]).all()
    assert (masks.dealt[:, 1:] >= masks.dealt[:, :-1]).all()
    assert len(np.unique(masks.dealt[:, 1], axis=0)) > 100  # of 210 there are
    often = np.array([deal(400, seed).dealt[:, 1].mean(axis=0) for seed in range(50)])  # type: ignore[index]
    np.testing.assert_allclose(often.mean(axis=0), 0.4, atol=0.01)
    assert often.std() < 0.7 * (0.4 * 0.6 / 400) ** 0.5  # of heads drawn without the turns
    assert masks.mask(masks.dealt[:, 0], SITES) == HeadMask.full(SITES)
    own = masks.mask(masks.dealt[:, 1], SITES)
    assert isinstance(own, DealtMask)
    assert own == DealtMask(SITES, ~masks.dealt[:, 1])
    assert own != DealtMask(SITES, ~masks.dealt[:, 2])
    assert own.to_json() != DealtMask(SITES, ~masks.dealt[:, 2]).to_json()
    assert own.closed == SITES.heads


def test_no_draws() -> None:
    closed = closed_in_order(np.arange(10), (0, 5), 10)
    masks = CurveMasks.draw("all", SITES, (0, 5), {"a": closed}, draws=0, keep_one=False, seed=0)
    assert masks.random.shape == masks.matched["a"].shape == (0, 2, 10)


def test_masks_are_over_all_heads_of_the_model() -> None:
    cross = SITES.restrict(["cross"])
    masks = CurveMasks.draw(
        "cross", cross, (0, 2), {"a": closed_in_order(np.array([1, 3]), (0, 2), 4)},
        draws=0, keep_one=False, seed=0,
    )  # fmt: skip
    assert masks.mask(masks.closed["a"][0], SITES) == HeadMask.full(SITES)
    closed = masks.mask(masks.closed["a"][1], SITES).closed
    assert [str(head) for head in closed] == ["cross.0.1", "cross.0.3"]
