"""Passes are counted where they run, however little of the model they run through."""

from __future__ import annotations

import torch

import headtool
from headtool.engine.tallying import tally
from headtool.heads import HeadMask


def test_passes_of_the_primitives() -> None:
    model = headtool.load_model("builtin:planted", device="cpu")
    examples = model.encode(headtool.load_data("builtin:planted", limit=64))
    whole = int(examples.lengths.sum()) * len(model.sites)
    with tally(model) as ran, torch.no_grad():
        model.forward(model.collate(examples, torch.arange(64).numpy()))
    assert (ran.forward, ran.backward) == (whole, 0)
    with tally(model) as ran:
        headtool.differentiate(model, examples)
    assert (ran.forward, ran.backward) == (whole, whole)
    last = [head for head in model.sites.heads if head.layer == 2]
    with tally(model) as ran:
        headtool.evaluate(model, examples, [HeadMask.without(model.sites, last[:1])])
    assert whole < ran.forward < 2 * whole
    assert ran.backward == 0


def test_nothing_stays_attached() -> None:
    model = headtool.load_model("builtin:planted", device="cpu")
    examples = model.encode(headtool.load_data("builtin:planted", limit=2))
    with tally(model) as ran:
        pass
    headtool.differentiate(model, examples)
    assert (ran.forward, ran.backward) == (0, 0)
    assert not any(module._forward_hooks for module in model.module.modules())
