"""Every method scores fairseq's language models, masked language models and classifiers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import headtool
from headtool.methods import BUILTIN, get_method

from ..models.fairseq.test_texts import KINDS, data_for

OPTIONS = {
    "dsp": {"steps": "3", "batch_size": "4"},
    "gates": {"steps": "40", "batch_size": "8"},
    "integrated": {"ig_steps": "2"},
    "shapley": {"permutations": "2", "signal": "loss"},
}


@pytest.mark.parametrize("kind", ["lm", "mlm", "classifier", "regressor"])
def test_every_method_scores_them(kind: str, save_fairseq_text: Callable[..., Path]) -> None:
    model = headtool.load_model(f"fairseq:{save_fairseq_text(**KINDS[kind])}", device="cpu")
    examples = model.encode(data_for(model))
    before = {key: value.clone() for key, value in model.module.state_dict().items()}
    refused = {}
    for name in BUILTIN:
        method = get_method(name).configured(OPTIONS.get(name, {}))
        try:
            frame = method.score(model, examples, seed=1).frame
        except headtool.HeadtoolError as error:
            refused[name] = str(error)
            continue
        assert len(frame) == 8, name
        assert np.isfinite(frame["score"]).all(), name
        assert frame["score"].nunique() > 1, name
    for key, value in model.module.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert set(refused) <= {"retrieval"}  # needs a tokenizer
