"""What the rounding of bfloat16 does to effects: estimated, told, and nothing where nothing is."""

import copy

import numpy as np
import pytest
import torch

from headtool import evaluate, load_data, load_model
from headtool.engine.rounding import measure_rounding
from headtool.experiments.ablation import ablate
from headtool.experiments.significance import test as verdicts_of
from headtool.heads import HeadMask
from headtool.metrics import metric_of_model


@pytest.fixture(scope="module")
def short():
    return load_model("builtin:nli", device="cpu", dtype="bfloat16")


def test_the_estimate_is_what_rounding_does_to_small_effects(short):
    """Beside the same rounded weights in float32, which only lack the rounding on the way."""
    exact = short.with_module(copy.deepcopy(short.module).float())
    examples = short.encode(load_data("builtin:nli/matched", limit=64))
    masks = [HeadMask.without(short.sites, [head]) for head in short.sites.heads]
    loss = metric_of_model(short, "loss")
    effects = []
    for model in (short, exact):
        found = evaluate(model, examples, masks)
        effects.append((found.masked["loss"] - found.whole["loss"]).mean(axis=1))
    rounded, right = effects
    small = np.abs(right) <= np.median(np.abs(right))
    error = np.sqrt(np.mean((rounded - right)[small] ** 2))
    found = measure_rounding(short, examples, [loss])
    assert found["examples"] == 64
    assert error / 2 < found["noise"]["loss"] < 2 * error
    assert measure_rounding(exact, examples, [loss]) is None


def test_heads_that_do_nothing_have_no_effect_in_bfloat16_either(short):
    idle = short.with_module(copy.deepcopy(short.module))
    head = idle.sites.heads[9]
    (projection,) = (
        h.module for h in idle.handles if (h.site.kind, h.site.layer) == (head.kind, head.layer)
    )
    width = idle.sites[0].head_dim
    with torch.no_grad():
        projection.weight[:, head.index * width : (head.index + 1) * width] = 0
    examples = idle.encode(load_data("builtin:nli/matched", limit=16))
    masks = [HeadMask.without(idle.sites, [one]) for one in idle.sites.heads]
    for chained in (False, True):
        found = evaluate(idle, examples, masks, chained=chained)
        assert (found.masked["loss"][9] == found.whole["loss"]).all()


def test_effects_below_the_noise_are_told(short, tmp_path):
    ablation = ablate(short, limit=32, metric="loss", out=tmp_path / "run")
    (note,) = ablation.notes
    assert "of 32 effects on loss are below the rounding noise of bfloat16 (about 0.0" in note
    assert ablation.document()["provenance"]["notes"] == [note]
    tests = verdicts_of(tmp_path / "run")
    assert note in tests.tests.notes
    assert tests.document()["provenance"]["notes"] == [note]
    assert ablate("builtin:nli", limit=8, heads=["enc-self.0.1"]).notes == ()
