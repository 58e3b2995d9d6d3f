"""Heads that are physically gone leave what masking them leaves, on every family."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headtool.attention.discovery import discover
from headtool.attention.gating import Gating, SiteHandle, intercept
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask, Sites
from headtool.surgery.plan import Plan, carry_out, ranges
from headtool.surgery.removal import Removed, remove_heads

from ..support.families import FAMILIES, TrueFloat64, inputs, llama, probe

REMOVABLE = [name for name in FAMILIES if name != "FSMT"]
GENERATING = [
    name
    for name in REMOVABLE
    if type(FAMILIES[name].model()).__name__.endswith(("ForCausalLM", "LMHeadModel", "Generation"))
    or name == "Marian"
]


def sites_of(handles: Sequence[SiteHandle]) -> Sites:
    return Sites(tuple(handle.site for handle in handles))


def masked_logits(
    model: Any, handles: Sequence[SiteHandle], mask: HeadMask, arguments: dict[str, Tensor]
) -> Tensor:
    gates = {site: torch.from_numpy(mask.at(site).copy()).double() for site in mask.sites}
    with torch.inference_mode(), intercept(handles, Gating(gates), batch=2):
        return model(**arguments).logits


def random_mask(name: str, sites: Sites, share: float, seed: int) -> HeadMask:
    """Close heads at random; ALBERT's layers share their weights, so they lose the same heads."""
    is_open = np.random.default_rng(seed).random(sites.n_heads) > share
    if FAMILIES[name].untied:
        is_open = np.tile(is_open[: sites[0].n_heads], len(sites))
    is_open[0 :: sites[0].n_heads if FAMILIES[name].untied else sites.n_heads] = True
    return HeadMask(sites, is_open)


def without(model: Any, *heads: str) -> tuple[Removed, HeadMask]:
    handles = discover(model, probe(model))
    mask = HeadMask.without(sites_of(handles), map(Head.parse, heads))
    return remove_heads(model, handles, probe, mask), mask


def parameters(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", REMOVABLE)
def test_removed_is_masked(name: str) -> None:
    """Uneven layers, whole layers, and again from what is left; with padding, in doubles."""
    with TrueFloat64():
        module = FAMILIES[name].model().double()
        arguments = inputs(module, padded=module.main_input_name != "pixel_values")
        handles = discover(module, probe(module))
        for share, seed in ((0.4, 1), (0.4, 2), (0.6, 5)):
            sites = sites_of(handles)
            mask = random_mask(name, sites, share, seed)
            before = {key: value.clone() for key, value in module.state_dict().items()}
            expected = masked_logits(module, handles, mask, arguments)
            removed = remove_heads(module, handles, probe, mask)
            with torch.inference_mode():
                actual = removed.module(**arguments).logits
            assert (actual - expected).abs().max() <= 1e-10 * expected.abs().max()
            assert removed.difference <= 1e-10
            for key, value in module.state_dict().items():
                assert torch.equal(value, before[key]), key
            found = discover(removed.module, probe(removed.module))
            left = {(s.kind, s.layer): int(mask.at(s).sum()) for s in sites}
            assert {(h.site.kind, h.site.layer): h.site.n_heads for h in found} == {
                key: count for key, count in left.items() if count
            }
            assert parameters(removed.module) < parameters(module) or mask.open.all()
            module, handles = removed.module, found


@pytest.mark.parametrize("name", REMOVABLE)
def test_single_precision_and_whole_layer(name: str) -> None:
    """Without the first attention layer, and float32 within 1e-5."""
    module = FAMILIES[name].model()
    handles = discover(module, probe(module))
    sites = sites_of(handles)
    if len(sites) == 1 or FAMILIES[name].untied:
        closed = [head for head in sites.heads if head.index < 3]
    else:
        closed = list(sites[0].heads)
    mask = HeadMask.without(sites, closed)
    removed = remove_heads(module, handles, probe, mask)
    assert removed.difference <= 1e-5
    assert parameters(removed.module) < parameters(module)


@pytest.mark.parametrize("name", GENERATING)
def test_generation_with_cache(name: str) -> None:
    """Decoding step by step with a cache gives what the masked model gives from scratch."""
    module = FAMILIES[name].model(seed=3)
    if name == "T5":  # makes a cache for as many layers as the encoder has
        del module.decoder.block[2:]
    handles = discover(module, probe(module))
    mask = random_mask(name, sites_of(handles), 0.5, seed=4)
    arguments = inputs(module, padded=False)
    arguments.pop("decoder_input_ids", None)
    options = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    gates = {site: torch.from_numpy(mask.at(site).copy()).float() for site in mask.sites}
    with intercept(handles, Gating(gates), batch=2):
        expected = module.generate(**arguments, **options, use_cache=False)
    smaller = remove_heads(module, handles, probe, mask).module
    assert torch.equal(smaller.generate(**arguments, **options, use_cache=True), expected)


@pytest.mark.parametrize("name", ["BERT", "Llama", "BART", "T5"])
def test_training_reaches_what_is_left(name: str) -> None:
    """Every parameter of the smaller model gets a gradient, as it did in the whole one."""
    module = FAMILIES[name].model()
    handles = discover(module, probe(module))
    closed = [head for head in sites_of(handles).heads if head.index == 1]
    mask = HeadMask.without(sites_of(handles), closed)
    smaller = remove_heads(module, handles, probe, mask).module.train()
    smaller(**inputs(smaller)).logits.square().sum().backward()
    with_gradient = {key for key, value in smaller.named_parameters() if value.grad is not None}
    module(**inputs(module)).logits.square().sum().backward()
    assert with_gradient == {k for k, v in module.named_parameters() if v.grad is not None}


def test_counts_what_is_gone() -> None:
    """BERT: W_Q, W_K, W_V with biases and W_O; nothing else, and the output bias stays."""
    module = FAMILIES["BERT"].model()
    removed, _ = without(module, "enc-self.0.1", "enc-self.0.3")
    assert parameters(module) - parameters(removed.module) == 2 * 6 * (3 * (24 + 1) + 24)
    attention = removed.module.bert.encoder.layer[0].attention
    assert attention.self.query.weight.shape == (12, 24)
    assert attention.output.dense.weight.shape == (24, 12)
    assert attention.output.dense.out_features == 24
    whole, _ = without(module, *(f"enc-self.1.{head}" for head in range(4)))
    assert parameters(module) - parameters(whole.module) == 4 * 6 * (3 * (24 + 1) + 24)


def test_keys_and_values_live_as_long_as_one_of_their_heads() -> None:
    """Llama, 4 query heads in 2 groups, width 20, heads of width 6."""
    module = llama()
    query, group = 6 * 20 * 2, 6 * 20 * 2  # W_Q and W_O of a head; W_K and W_V of a group

    def gone(*heads: str) -> int:
        return parameters(module) - parameters(without(module, *heads)[0].module)

    assert gone("dec-self.0.1") == query
    assert gone("dec-self.0.1", "dec-self.0.2") == 2 * query
    assert gone("dec-self.0.0", "dec-self.0.1") == 2 * query + group
    assert gone("dec-self.0.0", "dec-self.0.1", "dec-self.0.2") == 3 * query + group
    even = without(module, "dec-self.0.1", "dec-self.0.2")[0].module.model.layers[0].self_attn
    assert even.num_key_value_groups == 1
    assert type(even.k_proj) is torch.nn.Linear


def test_bias_table_keeps_columns_that_any_layer_needs() -> None:
    """T5 looks its position bias up in the first layer, for all layers."""
    module = FAMILIES["T5"].model()
    removed, _ = without(module, "enc-self.0.0", "enc-self.0.3", "enc-self.1.3")
    first, second = (block.layer[0].SelfAttention for block in removed.module.encoder.block)
    assert first.relative_attention_bias.weight.shape == (32, 3)
    assert (first.q.out_features, second.q.out_features) == (12, 18)
    decoder = removed.module.decoder.block[0].layer[0].SelfAttention
    assert decoder.relative_attention_bias.weight.shape == (32, 4)


def test_settings_of_the_model_still_reach_narrowed_layers() -> None:
    """Phi-3 reads its number of heads from the configuration; each layer sees its own."""
    module = FAMILIES["Phi-3"].model()
    smaller = without(module, "dec-self.0.0", "dec-self.0.1")[0].module
    attention = smaller.model.layers[0].self_attn
    assert attention.config.num_attention_heads == 2
    assert smaller.config.num_attention_heads == 4
    expected = smaller(**inputs(smaller)).logits
    smaller.set_attn_implementation("eager")
    assert attention.config._attn_implementation == "eager"
    torch.testing.assert_close(smaller(**inputs(smaller)).logits, expected, rtol=1e-4, atol=1e-4)


def test_refuses_to_remove_everything() -> None:
    module = FAMILIES["BERT"].model()
    names = [f"enc-self.{layer}.{head}" for layer in range(2) for head in range(4)]
    with pytest.raises(HeadtoolError, match="remove all 8 heads of the model; keep at least one"):
        without(module, *names)


def test_refuses_layers_that_share_weights_but_not_heads() -> None:
    module = FAMILIES["ALBERT"].model()
    with pytest.raises(HeadtoolError, match=r"enc-self\.0, enc-self\.1, enc-self\.2 share one set"):
        without(module, "enc-self.1.2")


def test_refuses_attention_that_is_written_for_one_width() -> None:
    module = FAMILIES["FSMT"].model()
    with pytest.raises(HeadtoolError, match=r"FSMTForConditionalGeneration cannot .*`bake`"):
        without(module, "enc-self.1.2")


def test_refuses_a_model_that_would_compute_something_else() -> None:
    """A head count that the attention reads from elsewhere must not pass unnoticed."""
    module = FAMILIES["BERT"].model()
    handles = discover(module, probe(module))
    mask = HeadMask.without(sites_of(handles), [Head("enc-self", 0, 0)])
    attention = type(module.bert.encoder.layer[0].attention.self)
    original = attention.forward

    def scaled(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(self, *args, **kwargs)
        return (output[0] * self.query.out_features, *output[1:])

    attention.forward = scaled
    try:
        with pytest.raises(HeadtoolError, match=r"outputs would differ .* by .*`bake`"):
            remove_heads(module, handles, probe, mask)
    finally:
        attention.forward = original


def test_plans_survive_json() -> None:
    """What a plan does to one copy of a model it does to another, also when read from a file."""
    module = FAMILIES["T5"].model()
    heads = ["enc-self.0.0", "dec-self.1.2", *(f"cross.2.{head}" for head in range(4))]
    removed, _ = without(module, *heads)
    plan = Plan.from_json(json.loads(json.dumps(removed.plan.to_json())))
    again = FAMILIES["T5"].model(seed=8)
    carry_out(plan, again)
    again.load_state_dict(removed.module.state_dict())
    arguments = inputs(module)
    assert torch.equal(again(**arguments).logits, removed.module(**arguments).logits)


def test_plans_do_not_fit_other_models() -> None:
    removed, _ = without(FAMILIES["BERT"].model(), "enc-self.0.0")
    with pytest.raises(HeadtoolError, match="does not fit the model"):
        carry_out(removed.plan, FAMILIES["GPT-2"].model())


def test_ranges() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == [(0, 3), (5, 6), (7, 9)]
    assert ranges([]) == []
