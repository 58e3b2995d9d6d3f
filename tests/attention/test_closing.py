"""Heads kept closed while something else is done to the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headtool.attention.closing import closing
from headtool.engine.differentiation import differentiate
from headtool.engine.evaluation import evaluate
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask

from ..support.families import FAMILIES
from ..support.family_model import DATA, FamilyModel


def some_heads(model: FamilyModel, *positions: int) -> HeadMask:
    heads = model.sites.heads
    return HeadMask.without(model.sites, [heads[position] for position in positions])


@pytest.mark.parametrize("name", [name for name in FAMILIES if "ALBERT" not in name])
def test_masks_inside_add_to_the_closed_heads(name: str) -> None:
    model = FamilyModel(name, dtype=torch.float64)
    examples = model.encode(DATA)
    last = model.sites.n_heads - 1
    both = evaluate(model, examples, [some_heads(model, 0, last), some_heads(model, 0)])
    with closing(model.handles, some_heads(model, 0), spec=model.spec):
        inside = evaluate(model, examples, [some_heads(model, last), some_heads(model, 0)])
    np.testing.assert_allclose(inside.whole["loss"], both.masked["loss"][1], rtol=1e-9)
    np.testing.assert_allclose(inside.masked["loss"], both.masked["loss"], rtol=1e-9)
    after = evaluate(model, examples, [])
    np.testing.assert_array_equal(after.whole["loss"], both.whole["loss"])


def test_closed_heads_have_no_gradient() -> None:
    model = FamilyModel("BERT")
    examples = model.encode(DATA)
    mask = some_heads(model, 1, 5)
    with closing(model.handles, mask, spec=model.spec):
        gradients = differentiate(model, examples).per_example
    assert (gradients[:, ~mask.open] == 0).all()
    assert (np.abs(gradients[:, mask.open]).max(axis=0) > 0).all()


def test_nothing_stays_attached_after_an_error() -> None:
    model = FamilyModel("BERT")
    examples = model.encode(DATA)
    before = evaluate(model, examples, [])
    with (
        pytest.raises(RuntimeError, match="stop"),
        closing(model.handles, some_heads(model, 0, 1), spec=model.spec),
    ):
        raise RuntimeError("stop")
    after = evaluate(model, examples, [])
    np.testing.assert_array_equal(before.whole["loss"], after.whole["loss"])
    assert not any(module._forward_pre_hooks for module in model.module.modules())


def test_shared_layers_are_refused() -> None:
    model = FamilyModel(next(name for name in FAMILIES if "ALBERT" in name))
    with (
        pytest.raises(HeadtoolError, match="share their weights"),
        closing(model.handles, some_heads(model, 0), spec=model.spec),
    ):
        pass
    with closing(model.handles, HeadMask.full(model.sites), spec=model.spec):  # nothing is closed
        pass
