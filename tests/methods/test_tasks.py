"""Every method on models of the tasks that no built-in model has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from headtool.data import TextData
from headtool.methods import BUILTIN, get_method
from headtool.models.huggingface.model import HuggingFaceModel

from ..support.tasks import answerer, pictures, questions, tagged, tagger, viewer
from .test_adapters import QUICK

TASKS: dict[str, tuple[Callable[[], HuggingFaceModel], Callable[[], TextData]]] = {
    "token-classification": (tagger, tagged),
    "question-answering": (partial(answerer, length=24), questions),
    "images": (viewer, pictures),
    "images, two outputs": (partial(viewer, "DeiT with a teacher"), pictures),
}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_method_scores_every_head(task: str) -> None:
    """The same whatever the batches are, where a method draws none."""
    make, data = TASKS[task]
    model = make()
    whole, alone = model.encode(data()), model.encode(data(), batch_tokens=1)
    for name in sorted(set(BUILTIN) - {"retrieval"}):
        method = get_method(name)(**QUICK.get(name, {}))
        scores = method.score(model, whole).frame["score"].to_numpy()
        assert len(scores) == model.sites.n_heads, name
        assert np.isfinite(scores).all(), name
        if name not in ("dsp", "gates", "random"):
            again = method.score(model, alone).frame["score"].to_numpy()
            np.testing.assert_allclose(again, scores, rtol=1e-7, atol=1e-10, err_msg=name)
