"""The random baseline: every ranking is equally likely."""

from __future__ import annotations

from collections import Counter

from headtool.data import TextData
from headtool.heads import Head
from headtool.methods.random import Random


def test_seeds_give_other_rankings_and_all_are_equally_likely(toy, toy_data: TextData) -> None:
    model = toy((1.0, 1.0))
    examples = model.encode(toy_data)
    frames = [Random().score(model, examples, seed=seed).frame for seed in range(400)]
    first = Counter(frame["rank"].iloc[0] for frame in frames)
    assert set(first) == {1, 2}
    assert 160 < first[1] < 240  # four standard deviations
    assert len({frame["score"].iloc[0] for frame in frames}) == 400
    assert frames[0]["stderr"].isna().all()


def test_neither_model_nor_data_matters(toy, bert, toy_data: TextData, pairs: TextData) -> None:
    model = toy((1.0, 1.0))
    two = Random().score(model, model.encode(toy_data)).frame
    eight = Random().score(bert, bert.encode(pairs)).frame
    assert two["score"].tolist() == eight["score"].tolist()[:2]
    assert Head("enc-self", 1, 3) in bert.sites.heads
    assert len(eight) == 8
