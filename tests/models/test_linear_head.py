"""Losses of scored tokens alone equal those of a whole forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf

import headtool
from headtool.data import load_data
from headtool.models import linear_head

SPECIAL: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1}
SMALL: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def gpt2() -> Any:
    return tf.GPT2LMHeadModel(
        tf.GPT2Config(vocab_size=30, n_layer=2, n_head=2, n_embd=16, **SPECIAL)
    )


def bart() -> Any:
    sides = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    special = {**SPECIAL, "decoder_start_token_id": 0, "forced_eos_token_id": 0}
    return tf.BartForConditionalGeneration(
        tf.BartConfig(
            vocab_size=30, encoder_ffn_dim=16, decoder_ffn_dim=16, **sides, **heads, **special
        )
    )


def gemma() -> Any:
    """Its logits are squeezed by a tanh after the last layer."""
    return tf.Gemma2ForCausalLM(tf.Gemma2Config(**SMALL, **SPECIAL, final_logit_softcapping=2.0))


@pytest.mark.parametrize(("build", "found"), [(gpt2, True), (bart, True), (gemma, False)])
def test_equals_a_whole_pass(build: Any, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linear_head._ROOM, "cpu", 4 * 30)  # four rows at a time
    torch.manual_seed(0)
    model = headtool.wrap(build().double())
    rows = [[5, 6, 7, 8, 9, 10], [11, 12, 13]]
    data = [{"input_ids": ids, "labels": [-100, *ids[1:]]} for ids in rows]
    examples = model.encode(load_data(data))
    batch = model.collate(examples, np.arange(2))
    rows_of_logits: list[int] = []
    model.module.get_output_embeddings().register_forward_hook(
        lambda part, args, output: rows_of_logits.append(output[..., 0].numel())
    )
    with torch.inference_mode():
        expected = model.forward(batch)
        for _ in range(2):  # the first one looks for the layer
            outcome = model.outcome(batch)
            torch.testing.assert_close(outcome.losses, expected.losses, rtol=1e-12, atol=0)
            assert outcome.columns.keys() == expected.columns.keys()
            for name, values in expected.columns.items():
                torch.testing.assert_close(outcome.columns[name], values, rtol=1e-12, atol=0)
    assert (model.scorer.head is not None) == found
    if found:  # a whole pass, the one that finds it, and then no rows beside the scored ones
        assert len(rows_of_logits) == 2
