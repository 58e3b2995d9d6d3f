"""Fisher information against closed forms, literal loops and all ways to swap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from headtool.attention.gating import Gating
from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Sites
from headtool.methods.fisher import Fisher, rearrange


def scores(model, examples, **options) -> np.ndarray:
    return Fisher(**options).score(model, examples).frame["score"].to_numpy()


def test_closed_form_on_two_heads(toy, toy_data: TextData) -> None:
    weights = (1.5, -0.5)
    model = toy(weights)
    examples = model.encode(toy_data)
    g = []
    for row in examples.rows:
        contexts = np.mean(row["features"], axis=0)
        dlogit = 1 / (1 + np.exp(-contexts @ weights)) - row["target"]
        g.append(dlogit * contexts * weights)
    g = np.array(g)
    batches = np.array([g[i : i + 5].mean(0) for i in range(0, 12, 5)])
    np.testing.assert_allclose(scores(model, examples, batch_size=5), (batches**2).sum(0))
    np.testing.assert_allclose(scores(model, examples, granularity="example"), (g**2).mean(0))
    frame = Fisher(granularity="example").score(model, examples).frame
    np.testing.assert_allclose(frame["stderr"], (g**2).std(axis=0, ddof=1) / np.sqrt(12))


def test_batches_are_squared_central_differences_of_their_mean_loss(bert, pairs) -> None:
    examples = bert.encode(pairs)
    step = 1e-5
    for site in bert.sites:
        for head in range(site.n_heads):
            expected = 0.0
            for start in range(0, len(examples), 6):
                batch = bert.collate(examples, np.arange(start, min(start + 6, len(examples))))
                losses = []
                for sign in (1, -1):
                    gates = torch.ones(site.n_heads, dtype=torch.float64)
                    gates[head] += sign * step
                    with torch.no_grad(), bert.intercept(Gating({site: gates}), batch):
                        losses.append(bert.forward(batch).losses.mean().item())
                expected += ((losses[0] - losses[1]) / (2 * step)) ** 2
            found = scores(bert, examples, batch_size=6)[bert.sites.columns(site).start + head]
            assert found == pytest.approx(expected, rel=1e-5)


def test_samples_are_drawn_without_replacement_from_the_seed(bert, pairs: TextData) -> None:
    examples = bert.encode(pairs)
    whole = scores(bert, examples, granularity="example", samples=None)
    np.testing.assert_array_equal(scores(bert, examples, granularity="example", samples=17), whole)
    method = Fisher(granularity="example", samples=5)
    first, again, other = (
        method.score(bert, examples, seed=seed).frame["score"].to_numpy() for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    subsets = [
        scores(bert, examples.take(np.array(chosen)), granularity="example")
        for chosen in itertools.combinations(range(17), 5)
        if chosen == tuple(np.sort(np.random.default_rng(0).choice(17, 5, replace=False)))
    ]
    np.testing.assert_allclose(first, subsets[0], rtol=1e-12)


def sites_of(*heads: int) -> Sites:
    return Sites(
        tuple(AttentionSite("enc-self", i, n, n, 4, f"p.{i}.o") for i, n in enumerate(heads))
    )


def cost(closed, gradients) -> float:
    return float((gradients[:, list(closed)].sum(axis=1) ** 2).sum())


def test_two_heads_that_do_the_same_work_do_not_both_go() -> None:
    # Heads 0 and 1 pull the same way, 2 and 3 cancel each other: larger squares, no sum.
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 50))
    gradients = np.stack([a, a, 1.2 * b, -1.2 * b], axis=1)
    diagonal = np.array([False, False, True, True])
    np.testing.assert_array_equal(
        rearrange(diagonal, gradients, sites_of(4)), [True, True, False, False]
    )


def test_swapping_finds_the_best_set_mostly_and_more_often_than_the_diagonal() -> None:
    rng = np.random.default_rng(0)
    best = found = diagonal = 0
    for _ in range(60):
        gradients = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 6))
        kept = np.ones(6, dtype=bool)
        kept[np.argsort((gradients**2).sum(axis=0))[:3]] = False
        swapped = rearrange(kept, gradients, sites_of(6))
        least = min(cost(c, gradients) for c in itertools.combinations(range(6), 3))
        found += cost(np.flatnonzero(~swapped), gradients) <= least * (1 + 1e-9)
        diagonal += cost(np.flatnonzero(~kept), gradients) <= least * (1 + 1e-9)
        best += 1
    assert found > 0.5 * best
    assert found > 2 * diagonal


@pytest.mark.parametrize("seed", range(8))
def test_swapping_is_never_worse_and_no_better_than_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 6))  # three directions, six heads
    order = np.argsort((gradients**2).sum(axis=0))
    for count in range(7):
        kept = np.ones(6, dtype=bool)
        kept[order[:count]] = False
        swapped = rearrange(kept, gradients, sites_of(6))
        assert swapped.sum() == kept.sum()
        before, after = (
            cost(np.flatnonzero(~kept), gradients),
            cost(np.flatnonzero(~swapped), gradients),
        )
        best = min(cost(c, gradients) for c in itertools.combinations(range(6), count))
        assert best - 1e-9 <= after <= before + 1e-9


def test_layers_are_rearranged_on_their_own(bert, pairs: TextData) -> None:
    rng = np.random.default_rng(3)
    gradients = rng.normal(size=(20, 7))
    kept = np.array([True, False, False, True, False, True, False])
    both = rearrange(kept, gradients, sites_of(3, 4))
    assert both[:3].sum() == 1
    assert both[3:].sum() == 2
    np.testing.assert_array_equal(both[:3], rearrange(kept[:3], gradients[:, :3], sites_of(3)))
    np.testing.assert_array_equal(both[3:], rearrange(kept[3:], gradients[:, 3:], sites_of(4)))


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_the_asked_number_of_heads_is_kept(heads: int, bert, pairs: TextData) -> None:
    frame = Fisher(heads=heads, batch_size=4).score(bert, bert.encode(pairs)).frame
    assert frame["kept"].sum() == frame["kept_diagonal"].sum() == heads
    assert (frame["kept_diagonal"] == (frame["rank"] <= heads)).all()
    by_layer = frame.groupby("layer")[["kept", "kept_diagonal"]].sum()
    assert (by_layer["kept"] == by_layer["kept_diagonal"]).all()
    plain = Fisher(batch_size=4).score(bert, bert.encode(pairs)).frame
    assert "kept" not in plain
    np.testing.assert_array_equal(plain["score"], frame["score"])


@pytest.mark.parametrize("heads", [0, 9, -2])
def test_a_number_of_heads_out_of_range(heads: int, bert, pairs: TextData) -> None:
    with pytest.raises(HeadtoolError, match=f"fisher.heads must be between 1 and 8, got {heads}"):
        Fisher(heads=heads).score(bert, bert.encode(pairs))


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"samples": 0}, {"samples": -5}])
def test_options_that_make_no_sense(options) -> None:
    with pytest.raises(HeadtoolError, match=r"fisher\.\w+ must be at least 1"):
        Fisher(**options)
