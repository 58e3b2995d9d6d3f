"""Timing models in turns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom

from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.pruning.smaller import prune
from headtool.pruning.speed import contenders, measure_speed, median_interval
from headtool.schema import TABLES

GONE = [Head("enc-self", layer, head) for layer in range(4) for head in range(6)]


@pytest.fixture(scope="module")
def nli() -> ModelAdapter:
    return load_model("builtin:nli", device="cpu")


@pytest.fixture(scope="module")
def smaller(nli: ModelAdapter) -> ModelAdapter:
    return prune(nli, HeadMask.without(nli.sites, GONE)).model


def test_all_three_do_their_work(nli: ModelAdapter, smaller: ModelAdapter) -> None:
    """Masked and pruned give the same; the whole model something else."""
    outputs = {}
    for contender in contenders(nli, smaller):
        probe = contender.model.probe(contender.model.module, batch=3, source=9)
        with torch.inference_mode(), contender.attached(3):
            outputs[contender.name] = probe.predict()
    torch.testing.assert_close(outputs["masked"], outputs["pruned"])
    assert not torch.allclose(outputs["whole"], outputs["pruned"], atol=1e-2)


def test_table(nli: ModelAdapter, smaller: ModelAdapter) -> None:
    frame = measure_speed(
        contenders(nli, smaller), batch_sizes=(1, 16), length=64, repetitions=6, warmup=1
    )
    assert list(frame.columns) == list(TABLES["speed"].names)
    assert frame["model"].tolist() == ["whole", "masked", "pruned"] * 2
    whole = frame[frame["model"] == "whole"]
    assert (whole[["speedup", "speedup_low", "speedup_high"]] == 1).all(axis=None)
    np.testing.assert_allclose(
        frame["tokens_per_second"], frame["batch_size"] * 64 / frame["latency"]
    )
    assert (frame["latency_low"] <= frame["latency"]).all()
    assert (frame["latency"] <= frame["latency_high"]).all()
    large = frame[frame["batch_size"] == 16].set_index("model")
    # A quarter of the attention's operations and two thirds of all are left.
    assert large.loc["pruned", "speedup"] > large.loc["masked", "speedup"]
    assert large.loc["pruned", "peak_memory"] < large.loc["whole", "peak_memory"]
    weights = sum(4 * weight.numel() for weight in nli.module.parameters())
    assert (frame["peak_memory"] > weights / 2).all()


def test_decoding_generates_as_many_tokens() -> None:
    pytest.importorskip("fairseq")
    model = load_model("builtin:mt", device="cpu")
    mask = HeadMask.without(model.sites, [Head("cross", 0, 1), Head("dec-self", 2, 3)])
    frame = measure_speed(
        contenders(model, prune(model, mask).model),
        work="decode",
        batch_sizes=(2,),
        length=6,
        beam=2,
        repetitions=1,
        warmup=1,
    )
    assert len(frame) == 3
    assert frame["speedup_low"].isna().all()


def test_interval_of_the_median_is_the_binomial_one() -> None:
    """Ten values: between the second and the ninth, which covers with 97.9%."""
    values = np.arange(10.0)[::-1]
    assert median_interval(values) == (4.5, 1.0, 8.0)
    assert 1 - 2 * binom.cdf(1, 10, 0.5) >= 0.95 > 1 - 2 * binom.cdf(2, 10, 0.5)
    assert np.isnan(median_interval(np.arange(5.0))[1:]).all()


def test_models_that_do_not_belong_together(nli: ModelAdapter, smaller: ModelAdapter) -> None:
    twice = prune(smaller, HeadMask.without(smaller.sites, [Head("enc-self", 0, 0)])).model
    with pytest.raises(HeadtoolError, match="lacks no head"):
        contenders(nli, nli)
    with pytest.raises(HeadtoolError, match="does not decode"):
        measure_speed(contenders(nli, smaller), work="decode", batch_sizes=(1,))
    assert [c.name for c in contenders(smaller, twice)] == ["whole", "masked", "pruned"]
    probe = smaller.probe(smaller.module)
    outputs = {}
    for contender in contenders(smaller, twice)[1:]:
        with torch.inference_mode(), contender.attached(2):
            outputs[contender.name] = contender.model.probe(contender.model.module).predict()
    torch.testing.assert_close(outputs["masked"], outputs["pruned"])
    assert probe.batch == 2
