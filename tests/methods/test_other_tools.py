"""Side by side with released packages, where they are installed."""

from __future__ import annotations

import numpy as np
import pytest

import headtool
from headtool.builtin.planted_files import model_folder
from headtool.methods.activation import Activation
from headtool.methods.attribution import Attribution
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

from ..support.other_tools import activations, attribution_patching


@pytest.fixture(scope="module")
def planted() -> tuple[ModelAdapter, Examples, np.ndarray]:
    """A model, sixteen texts of one length, and their token ids."""
    model = headtool.load_model("builtin:planted?seed=1", device="cpu")
    examples = model.encode(headtool.load_data("builtin:planted", limit=16))
    return model, examples, np.array([row["input_ids"] for row in examples.rows])


@pytest.mark.parametrize("baseline", ["zero", "mean"])
def test_attribution_is_that_of_transformer_lens(planted, baseline: str) -> None:
    pytest.importorskip("transformer_lens")
    model, examples, ids = planted
    theirs = attribution_patching(str(model_folder(1)), ids)[f"attribution {baseline}"]
    ours = Attribution(baseline=baseline, sign="signed").score(model, examples).frame["score"]
    np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=1e-4)


def test_activation_is_that_of_model_optimizer(planted) -> None:
    pytest.importorskip("modelopt")
    model, examples, ids = planted
    theirs = activations(str(model_folder(1)), ids)
    ours = Activation().score(model, examples).frame["score"]
    np.testing.assert_allclose(ours * np.sqrt(len(ids)), theirs["minitron"], rtol=1e-5)
    ours = Activation(variant="contribution").score(model, examples).frame["score"]
    np.testing.assert_allclose(ours, theirs["contribution"], rtol=1e-5)
