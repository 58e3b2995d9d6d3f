"""Magnitudes against slices cut by hand, where a family's layout is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from headtool.data import TextData
from headtool.methods.magnitude import Magnitude

from ..support.family_model import DATA, FamilyModel

HEADS, DIM = 4, 6


def magnitudes(model, examples) -> np.ndarray:
    return Magnitude().score(model, examples).frame["score"].to_numpy()


def norms(*parts: Tensor) -> list[float]:
    """Norm of each head over weights laid out as [heads, ...]."""
    heads = parts[0].shape[0]
    return torch.cat([part.reshape(heads, -1) for part in parts], dim=1).norm(dim=1).tolist()


def bert(layer) -> list[float]:
    own, dense = layer.attention.self, layer.attention.output.dense
    rows = [own.query.weight, own.key.weight, own.value.weight, dense.weight.T]
    return norms(*(part.reshape(HEADS, -1) for part in rows))


def gpt2(layer) -> list[float]:
    query, key, value = layer.attn.c_attn.weight.split(HEADS * DIM, dim=1)
    parts = [part.T.reshape(HEADS, -1) for part in (query, key, value)]
    return norms(*parts, layer.attn.c_proj.weight.reshape(HEADS, -1))


def gpt_neox(layer) -> list[float]:
    fused = layer.attention.query_key_value.weight.reshape(HEADS, 3 * DIM, -1)
    return norms(fused, layer.attention.dense.weight.T.reshape(HEADS, -1))


def llama(layer) -> list[float]:
    own = layer.self_attn
    shared = [
        part.weight.reshape(2, -1).repeat_interleave(2, dim=0) for part in (own.k_proj, own.v_proj)
    ]
    return norms(
        own.q_proj.weight.reshape(HEADS, -1), *shared, own.o_proj.weight.T.reshape(HEADS, -1)
    )


def gemma3(layer) -> list[float]:
    own = layer.self_attn
    shared = [part.weight.reshape(1, -1).repeat(HEADS, 1) for part in (own.k_proj, own.v_proj)]
    return norms(
        own.q_proj.weight.reshape(HEADS, -1), *shared, own.o_proj.weight.T.reshape(HEADS, -1)
    )


@pytest.mark.parametrize(
    ("family", "layers", "expected"),
    [
        ("BERT", lambda m: m.bert.encoder.layer, bert),
        ("GPT-2", lambda m: m.transformer.h, gpt2),
        ("GPT-NeoX", lambda m: m.gpt_neox.layers, gpt_neox),
        ("Llama", lambda m: m.model.layers, llama),
        ("Gemma3", lambda m: m.model.layers, gemma3),
    ],
)
def test_slices_are_those_of_the_head(family: str, layers: Callable, expected: Callable) -> None:
    model = FamilyModel(family)
    wanted = [value for layer in layers(model.module) for value in expected(layer)]
    np.testing.assert_allclose(magnitudes(model, model.encode(DATA)), wanted, rtol=1e-5)


def test_layers_that_share_weights_score_alike() -> None:
    model = FamilyModel("ALBERT")
    scores = magnitudes(model, model.encode(DATA)).reshape(3, HEADS)
    assert (scores == scores[:1]).all()
    assert len(set(scores[0])) == HEADS


def test_fairseq_has_all_three_kinds(save_fairseq: Callable[..., Path]) -> None:
    from headtool.models import load_model

    model = load_model(f"fairseq:{save_fairseq()}")
    data = TextData("t", "translation", {"source": ("a b c", "b a"), "target": ("c d", "a")})
    scores = magnitudes(model, model.encode(data))
    wanted = []
    for side, name in (
        ("encoder", "self_attn"),
        ("decoder", "self_attn"),
        ("decoder", "encoder_attn"),
    ):
        for layer in getattr(model.module, side).layers:
            own = getattr(layer, name)
            rows = [own.q_proj.weight, own.k_proj.weight, own.v_proj.weight, own.out_proj.weight.T]
            wanted += norms(*(part.reshape(4, -1) for part in rows))
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)


def test_a_head_without_weights_scores_zero_whatever_its_biases(bert, pairs: TextData) -> None:
    attention = bert.module.bert.encoder.layer[1].attention
    with torch.no_grad():
        for part in (attention.self.query, attention.self.key, attention.self.value):
            part.weight[4:8] = 0
            part.bias[4:8] = 3.0
        attention.output.dense.weight[:, 4:8] = 0
    frame = Magnitude().score(bert, bert.encode(pairs)).frame
    assert frame["score"].iloc[5] == 0
    assert (frame["score"].drop(5) > 0).all()
    assert frame["stderr"].isna().all()
