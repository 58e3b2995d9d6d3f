"""Work that is packed and unpacked does the same with another copy of its model."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest
import torch

from headtool.engine.units import Unit, UnitResult
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

packing = pytest.importorskip("headtool.workers.packing", reason="needs ray")


def losses(model: ModelAdapter, examples: Examples, factor: torch.Tensor, unit: Unit) -> UnitResult:
    batch = model.collate(examples, unit.examples)
    with torch.inference_mode():
        return {"loss": (factor * model.forward(batch).losses).numpy()}


def test_models_and_examples_are_named_not_packed(model: ModelAdapter, examples: Examples) -> None:
    factor = torch.tensor([2.0], dtype=torch.bfloat16).float()
    parcel = packing.pack_work(partial(losses, model, examples, factor))
    assert parcel.models == (model,)
    assert parcel.examples == (examples,)
    assert len(parcel.content) < 2000
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.module.parameters():
            weight.zero_()
    unit = Unit(0, np.arange(3), range(0))
    again = packing.unpack_work(parcel.content, [model], [examples], device="cpu")
    expected = losses(model, examples, factor, unit)["loss"]
    np.testing.assert_array_equal(again(unit)["loss"], expected)
    zeroed = packing.unpack_work(parcel.content, [other], [examples], device="cpu")
    assert (zeroed(unit)["loss"] != expected).all()


def test_parts_of_a_model_are_found_in_the_other_copy(model: ModelAdapter) -> None:
    module = model.handles[0].module
    weight = next(module.parameters())
    own = torch.nn.Linear(1, 1)
    parcel = packing.pack_work(lambda: (module, weight, own, model))
    other = copy.deepcopy(model)
    found = packing.unpack_work(parcel.content, [other], [], device="cpu")()
    assert found[0] is other.handles[0].module
    assert found[1] is next(other.handles[0].module.parameters())
    assert found[2] is not own
    assert torch.equal(found[2].weight, own.weight)
    assert found[3] is other


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.tensor(3, dtype=torch.int64),
        torch.zeros(0, 4, dtype=torch.float16),
        torch.tensor([True, False]),
        torch.tensor([0.1, -2.0], dtype=torch.bfloat16, requires_grad=True),
    ],
)
def test_tensors_come_back_as_they_were(tensor: torch.Tensor) -> None:
    parcel = packing.pack_work(lambda: tensor)
    found = packing.unpack_work(parcel.content, [], [], device="cpu")()
    assert torch.equal(found, tensor)
    assert (found.dtype, found.requires_grad) == (tensor.dtype, tensor.requires_grad)


def test_a_packed_model_computes_the_same(model: ModelAdapter, examples: Examples) -> None:
    parts = packing.pack_model(model)
    assert sum(part.nbytes for part in parts[1:]) >= sum(
        weight.nbytes for weight in model.module.parameters()
    )
    found = packing.unpack_model(parts, torch.device("cpu"))
    assert found.fingerprint == model.fingerprint
    batch = model.collate(examples, np.arange(4))
    with torch.inference_mode():
        assert torch.equal(found.forward(batch).losses, model.forward(batch).losses)
