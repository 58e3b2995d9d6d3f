"""Models built anew: the same architecture, other weights, and the original untouched."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headtool.attention.discovery import discover
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask
from headtool.models import load_model
from headtool.models.huggingface.fresh import fresh_huggingface
from headtool.pruning.smaller import prune
from headtool.surgery.history import History

from ..support.families import FAMILIES, probe
from ..support.family_model import FamilyModel


def weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in module.state_dict().items()}


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert list(found) == list(wanted)
    for name, weight in wanted.items():
        assert torch.equal(found[name], weight), name


def assert_anew(module: nn.Module, build: Callable[[int], nn.Module]) -> None:
    """`build` makes a model like `module` from a seed, and touches nothing."""
    before, state = weights(module), torch.get_rng_state()
    first, same, other = build(1), build(1), build(2)
    assert torch.equal(torch.get_rng_state(), state)
    assert_same(weights(module), before)
    assert_same(weights(first), weights(same))
    found = weights(first)
    assert {name: weight.shape for name, weight in found.items()} == {
        name: weight.shape for name, weight in before.items()
    }
    matrices = [name for name, weight in module.named_parameters() if weight.ndim > 1]
    # Some matrices start at a constant, and sinusoidal positions at what they stay at.
    drawn = [
        name
        for name in matrices
        if found[name].unique().numel() > 2 and "embed_positions" not in name
    ]
    assert len(drawn) >= len(matrices) / 2
    for name in drawn:
        assert not torch.equal(found[name], before[name]), name
        assert not torch.equal(found[name], weights(other)[name]), name
    assert not any(part.training for part in first.modules())
    assert {weight.dtype for weight in first.parameters()} == {
        weight.dtype for weight in module.parameters()
    }
    shared = {weight.data_ptr() for weight in module.parameters()}
    assert not shared & {weight.data_ptr() for weight in first.parameters()}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_built_anew(name: str) -> None:
    model = FAMILIES[name].model().double()
    config = copy.deepcopy(model.config.to_dict())
    assert_anew(model, lambda seed: fresh_huggingface(model, seed=seed, spec=name))
    assert model.config.to_dict() == config
    fresh: Any = fresh_huggingface(model, seed=3, spec=name)
    assert type(fresh) is type(model)
    assert fresh.config is not model.config
    assert fresh.config._attn_implementation == model.config._attn_implementation
    found, wanted = (
        [handle.site for handle in discover(one, probe(one))] for one in (fresh, model)
    )
    assert found == wanted


def test_the_weights_are_those_of_the_library() -> None:
    model = FAMILIES["BERT"].model()
    torch.manual_seed(5)
    wanted = type(model)(copy.deepcopy(model.config))
    assert_same(weights(fresh_huggingface(model, seed=5, spec="")), weights(wanted))


def test_the_adapter_of_a_built_in_classifier() -> None:
    model = load_model("builtin:nli", device="cpu")
    fresh = model.fresh(0)
    assert_anew(model.module, lambda seed: model.fresh(seed).module)
    assert fresh.sites == model.sites
    assert (fresh.spec, fresh.task, fresh.labels) == (model.spec, model.task, model.labels)
    assert fresh.fingerprint != model.fingerprint


@pytest.mark.parametrize(
    "options",
    [{}, {"share_decoder_input_output_embed": True}, {"encoder_learned_pos": True}],
    ids=["plain", "tied", "learned positions"],
)
def test_fairseq_models_are_built_from_their_options(
    options: dict[str, Any], save_fairseq: Callable[..., Path]
) -> None:
    model = load_model(f"fairseq:{save_fairseq(**options)}", device="cpu")
    assert_anew(model.module, lambda seed: model.fresh(seed).module)
    fresh = model.fresh(0)
    assert fresh.sites == model.sites
    tied = len(list(fresh.module.parameters()))
    assert tied == len(list(model.module.parameters()))
    assert fresh.fresh(4).fingerprint == model.fresh(4).fingerprint


@pytest.mark.parametrize("library", ["transformers", "fairseq"])
def test_pruned_models_stay_pruned(library: str, save_fairseq: Callable[..., Path]) -> None:
    spec = "builtin:nli" if library == "transformers" else f"fairseq:{save_fairseq()}"
    whole = load_model(spec, device="cpu")
    mask = HeadMask.without(whole.sites, [Head.parse("enc-self.0.1"), Head.parse("enc-self.1.0")])
    model = prune(whole, mask).model
    assert_anew(model.module, lambda seed: model.fresh(seed).module)
    fresh = model.fresh(0)
    assert fresh.sites == model.sites
    assert fresh.sites.n_heads == whole.sites.n_heads - 2
    assert History.of(fresh.module, fresh.sites).removed == ["enc-self.0.1", "enc-self.1.0"]


def test_what_the_configuration_does_not_make_is_refused() -> None:
    model = FAMILIES["BERT"].model()
    model.classifier = nn.Linear(24, 7)
    with pytest.raises(HeadtoolError, match=r"mine cannot be built anew .*classifier.bias would"):
        fresh_huggingface(model, seed=0, spec="mine")
    model = FAMILIES["BERT"].model()
    model.config.hidden_size = 25  # no multiple of the heads
    with pytest.raises(HeadtoolError, match="mine cannot be built anew"):
        fresh_huggingface(model, seed=0, spec="mine")


def test_an_adapter_that_does_not_say_how_is_refused() -> None:
    with pytest.raises(HeadtoolError, match="nothing can be trained from scratch"):
        FamilyModel("BERT").fresh(0)
