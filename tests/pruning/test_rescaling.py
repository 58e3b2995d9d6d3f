"""Mask tuning against least squares by numpy on what plain hooks see."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headtool
from headtool.data import TextData
from headtool.heads import Head, HeadMask
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.pruning.rescaling import _FirstSum, least_squares_scales

from ..support.families import FAMILIES, inputs, probe

RIDGE = 1e-4


@pytest.fixture(scope="module")
def nli() -> ModelAdapter:
    model = load_model("builtin:nli", device="cpu")
    model.module.double()
    return model


@pytest.fixture(scope="module")
def examples(nli: ModelAdapter) -> Examples:
    return nli.encode(headtool.load_data("builtin:nli/matched", limit=24), batch_tokens=100_000)


def mask_of(model: ModelAdapter, *heads: str) -> HeadMask:
    return HeadMask.without(model.sites, map(Head.parse, heads))


def solved(parts: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Scales by an augmented system: parts [tokens, heads, width], target [tokens, width]."""
    columns = parts.transpose(0, 2, 1).reshape(-1, parts.shape[1])
    ridge = RIDGE * np.mean((columns**2).sum(axis=0))
    system = np.concatenate([columns, np.sqrt(ridge) * np.eye(parts.shape[1])])
    wanted = np.concatenate([target.ravel(), np.sqrt(ridge) * np.ones(parts.shape[1])])
    return np.linalg.lstsq(system, wanted, rcond=None)[0]


def bert_layer(module: Any, arguments: dict[str, Any], layer: int) -> tuple[np.ndarray, np.ndarray]:
    """What enters a layer of BERT and what enters its projection, of real tokens."""
    seen = {}
    place = module.bert.encoder.layer[layer].attention
    hooks = [
        place.register_forward_pre_hook(lambda m, args: seen.update(x=args[0])),
        place.output.dense.register_forward_pre_hook(lambda m, args: seen.update(ctx=args[0])),
    ]
    with torch.no_grad():
        module(**arguments)
    for hook in hooks:
        hook.remove()
    real = arguments["attention_mask"].bool()
    return seen["x"][real].numpy(), seen["ctx"][real].numpy()


def test_scales_are_those_of_numpy_layer_by_layer(nli: ModelAdapter, examples: Examples) -> None:
    mask = mask_of(nli, "enc-self.0.1", "enc-self.0.4", "enc-self.2.0", "enc-self.2.5")
    found = least_squares_scales(nli, examples, mask)
    batch = nli.collate(examples, np.arange(len(examples)))
    arguments = dict(batch.inputs)
    masked = copy.deepcopy(nli.module)
    for layer, site in enumerate(nli.sites):
        is_open = np.flatnonzero(mask.at(site))
        x_whole, ctx_whole = bert_layer(nli.module, arguments, layer)
        x, ctx = bert_layer(masked, arguments, layer)
        dense = masked.bert.encoder.layer[layer].attention.output.dense
        weight = dense.weight.detach().numpy().copy()
        heads = ctx.reshape(len(ctx), site.n_heads, -1)
        columns = weight.reshape(len(weight), site.n_heads, -1)
        parts = np.einsum("thd,ohd->tho", heads, columns)[:, is_open]
        wanted = x_whole + ctx_whole @ weight.T - x
        scales = np.zeros(site.n_heads)
        scales[is_open] = solved(parts, wanted)
        np.testing.assert_allclose(found[site].numpy(), scales, rtol=1e-6, atol=1e-8)
        with torch.no_grad():
            dense.weight.mul_(torch.from_numpy(np.repeat(scales, site.head_dim)))
    assert not np.allclose(found[nli.sites[1]].numpy(), 1, atol=1e-3)  # makes up for the first


def test_the_error_of_the_stream_falls(nli: ModelAdapter, examples: Examples) -> None:
    """Each site's fit lowers what it is fitted to, its own scales of one being a candidate."""
    closed = ["enc-self.0.1", "enc-self.0.4", "enc-self.0.6"]
    scales = least_squares_scales(nli, examples, mask_of(nli, *closed))
    batch = nli.collate(examples, np.arange(len(examples)))

    def stream(factors: dict[int, np.ndarray]) -> np.ndarray:
        module = copy.deepcopy(nli.module)
        for layer, by_head in factors.items():
            weight = module.bert.encoder.layer[layer].attention.output.dense.weight
            with torch.no_grad():
                weight.mul_(torch.from_numpy(np.repeat(by_head, 12)))
        return bert_layer(module, dict(batch.inputs), 1)[0]

    is_open = mask_of(nli, *closed).at(nli.sites[0]).astype(float)
    errors = [
        np.square(stream({0: by_head}) - stream({})).sum()
        for by_head in (is_open, scales[nli.sites[0]].numpy())
    ]
    assert errors[1] < errors[0]


def test_scales_out_of_range_are_not_taken(
    nli: ModelAdapter, examples: Examples, caplog: pytest.LogCaptureFixture
) -> None:
    """Head 0 of a layer is a thirtieth of head 1: without that, it would count 31 times."""
    twin = copy.deepcopy(nli.module)
    attention = twin.get_submodule("bert.encoder.layer.3.attention")
    with torch.no_grad():
        for part in ("query", "key", "value"):
            linear = attention.get_submodule(f"self.{part}")
            linear.weight[:12] = linear.weight[12:24]
            linear.bias[:12] = linear.bias[12:24]
        weight = attention.get_submodule("output.dense").weight
        weight[:, :12] = weight[:, 12:24] / 30
    model = type(nli)(nli.spec, nli.task, twin, nli.tokenizer)  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING, logger="headtool"):
        scales = least_squares_scales(model, examples, mask_of(model, "enc-self.3.1"))
    assert scales[model.sites[3]].tolist() == [1.0, 0.0, *[1.0] * 6]
    assert "enc-self.3" in caplog.text


def test_decoders_are_fitted_site_by_site(save_fairseq: Callable[..., Path]) -> None:
    """The stream of a pre-norm decoder, self-attention before cross-attention, time first."""
    options = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    model = load_model(f"fairseq:{save_fairseq(**options)}", device="cpu")
    model.module.double()
    data = TextData("t", "translation", {"source": ("a b c", "b a d"), "target": ("c d e f", "a")})
    examples = model.encode(data)
    mask = mask_of(model, "dec-self.0.1")
    found = least_squares_scales(model, examples, mask)
    batch = model.collate(examples, np.arange(2))
    layer = model.module.decoder.layers[0]  # type: ignore[union-attr, index]
    sides = []
    for closed in (False, True):
        module = copy.deepcopy(model.module)
        part: Any = module.decoder.layers[0]  # type: ignore[union-attr, index]
        seen = {}
        with torch.no_grad():
            if closed:
                part.self_attn.out_proj.weight.mul_(
                    found[model.sites[2]].repeat_interleave(model.sites[2].head_dim)
                )
            part.encoder_attn_layer_norm.register_forward_pre_hook(
                lambda m, args, seen=seen: seen.update(x=args[0])
            )
            part.encoder_attn.out_proj.register_forward_pre_hook(
                lambda m, args, seen=seen: seen.update(ctx=args[0])
            )
            module(**batch.inputs)
        real = batch.queries["cross"].real.T
        sides.append([seen[name][real].numpy() for name in ("x", "ctx")])
    (x_whole, ctx_whole), (x, ctx) = sides
    weight = layer.encoder_attn.out_proj.weight.detach().numpy()
    parts = np.einsum("thd,ohd->tho", ctx.reshape(len(ctx), 4, -1), weight.reshape(16, 4, -1))
    wanted = solved(parts, x_whole + ctx_whole @ weight.T - x)
    site = next(site for site in model.sites if str(site) == "cross.0")
    np.testing.assert_allclose(found[site].numpy(), wanted, rtol=1e-6, atol=1e-8)


# What is added to the projection's output: not where a norm comes first.
NORMED = {"Gemma3"}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_stream_is_found_in_every_family(name: str) -> None:
    from headtool.attention.discovery import discover

    model = FAMILIES[name].model()
    for handle in discover(model, probe(model)):
        sums = _FirstSum()
        hook = handle.module.register_forward_hook(sums.begin)
        try:
            with torch.no_grad(), sums:
                model(**inputs(model))
        finally:
            hook.remove()
        assert (sums.other is None) == (name in NORMED)
        if sums.other is not None:
            assert sums.output is not None
            assert sums.other.shape == sums.output.shape
