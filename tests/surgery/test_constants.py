"""Heads that are gone leave their constants in biases: what masking leaves that puts them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

import headtool
from headtool.attention.discovery import discover
from headtool.attention.gating import Gating, intercept
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite, Head, HeadMask, Sites
from headtool.models import load_model
from headtool.models.base import ModelAdapter
from headtool.models.huggingface.biases import biased
from headtool.pruning.saving import save_baked, save_pruned
from headtool.pruning.smaller import bake, prune
from headtool.surgery.history import History, record_history
from headtool.surgery.removal import remove_heads

from ..support.families import FAMILIES, TrueFloat64, inputs, probe

SOME = ("BERT", "GPT-2", "Llama", "T5", "BART", "Marian", "Falcon, grouped")
REMOVABLE = [name for name in FAMILIES if name not in ("FSMT", "ALBERT")]


def drawn(sites: Sites, seed: int = 0) -> dict[AttentionSite, Tensor]:
    """Constants for all heads."""
    source = torch.Generator().manual_seed(seed)
    return {
        site: torch.randn(site.n_heads, site.head_dim, generator=source, dtype=torch.float64)
        for site in sites
    }


def some_closed(sites: Sites) -> HeadMask:
    """Close two fifths of the heads, and with them a whole layer."""
    is_open = np.random.default_rng(3).random(sites.n_heads) > 0.4
    if len(sites) > 1:
        is_open[sites.columns(sites[-1])] = False
    is_open[0] = True
    return HeadMask(sites, is_open)


def removes_what_masking_fills(name: str, folder: Path | None = None) -> None:
    with TrueFloat64():
        module = FAMILIES[name].model().double()
        handles = discover(module, probe(module))
        sites = Sites(tuple(handle.site for handle in handles))
        mask, constants = some_closed(sites), drawn(sites)
        removed = remove_heads(module, handles, probe, mask, constants=constants)
        zeroed = remove_heads(module, handles, probe, mask)
        gates = {site: torch.from_numpy(mask.at(site).copy()).double() for site in sites}
        arguments = inputs(module, padded=module.main_input_name != "pixel_values")
        with torch.inference_mode():
            with intercept(handles, Gating(gates, constants), batch=2):
                wanted = module(**arguments).logits
            actual = removed.module(**arguments).logits
            plain = zeroed.module(**arguments).logits
            torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-9)
            assert (plain - wanted).abs().max() > 1e-3  # the constants are no matter of rounding
        if folder is None:
            return
        record_history(removed.module, History([], {}, [removed.plan.to_json()]))
        removed.module.save_pretrained(folder)
        again: Any = headtool.load_pruned(folder).double()
        with torch.inference_mode():
            torch.testing.assert_close(again(**arguments).logits, actual, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SOME)
def test_constants_are_in_the_biases(name: str, tmp_path: Path) -> None:
    """Also where the architecture has none: the record says where to add them."""
    # The family's random weights reach Marian's sinusoids, which no file holds.
    removes_what_masking_fills(name, None if name == "Marian" else tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REMOVABLE if name not in SOME])
def test_constants_are_in_the_biases_of_every_family(name: str) -> None:
    removes_what_masking_fills(name)


def test_layers_that_share_weights_are_refused() -> None:
    module = FAMILIES["ALBERT"].model()
    handles = discover(module, probe(module))
    sites = Sites(tuple(handle.site for handle in handles))
    mask = HeadMask.without(sites, [Head("enc-self", layer, 1) for layer in range(3)])
    with pytest.raises(HeadtoolError, match=r"several layers.*bias of their own; leave `replace`"):
        remove_heads(module, handles, probe, mask, constants=drawn(sites))


@pytest.fixture(scope="module")
def nli() -> ModelAdapter:
    return load_model("builtin:nli", device="cpu")


def filled(model: ModelAdapter, mask: HeadMask, constants: dict[AttentionSite, Tensor]) -> Tensor:
    gates = {site: torch.from_numpy(mask.at(site).copy()).float() for site in model.sites}
    found = model.probe(model.module)
    with (
        torch.inference_mode(),
        intercept(model.handles, Gating(gates, constants), batch=found.batch),
    ):
        return found.predict()


def test_a_baked_model_holds_them_for_plain_transformers(nli: ModelAdapter, tmp_path: Path) -> None:
    mask, constants = some_closed(nli.sites), drawn(nli.sites)
    baked = bake(nli, mask, constants=constants)
    removed = [str(head) for head in mask.closed]
    save_baked(baked, removed, tmp_path / "baked", source={}, force=False)
    place = tmp_path / "baked"
    stock: Any = transformers.AutoModelForSequenceClassification.from_pretrained(place)
    with torch.inference_mode():
        actual = nli.probe(stock.eval()).predict()
    torch.testing.assert_close(actual, filled(nli, mask, constants))


def test_translations_too(tmp_path: Path) -> None:
    """A model of fairseq, smaller and baked, over both its ways to disk."""
    model = load_model("builtin:mt", device="cpu")
    mask, constants = some_closed(model.sites), drawn(model.sites)
    wanted = filled(model, mask, constants)
    pruned = prune(model, mask, constants=constants)
    save_pruned(pruned, tmp_path / "pruned", source={}, force=False)
    removed = [str(head) for head in mask.closed]
    baked = bake(model, mask, constants=constants)
    save_baked(baked, removed, tmp_path / "baked", source={}, force=False)
    for place in ("pruned", "baked"):
        again = load_model(str(tmp_path / place), device="cpu")
        with torch.inference_mode():
            actual = again.probe(again.module).predict()
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


def test_llama_gets_biases_that_plain_transformers_loads(tmp_path: Path) -> None:
    module = FAMILIES["Llama"].model()
    handles = discover(module, probe(module))
    names = [handle.site.projection for handle in handles]
    made: Any = biased(module, names)
    assert made.config.attention_bias is True
    assert module.config.attention_bias is False
    assert all(made.get_submodule(name).bias.eq(0).all() for name in names)
    made.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    arguments = inputs(module)
    with torch.inference_mode():
        torch.testing.assert_close(again(**arguments).logits, module(**arguments).logits)


@pytest.mark.parametrize("name", ["T5", "Phi-3"])
def test_without_an_option_for_biases_there_are_none(name: str) -> None:
    module = FAMILIES[name].model()
    handles = discover(module, probe(module))
    assert biased(module, [handle.site.projection for handle in handles]) is None
