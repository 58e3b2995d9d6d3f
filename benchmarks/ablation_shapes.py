"""Random models of any shape with examples of one length, for `bench_ablation`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
)

import headtool
from headtool.data import load_data
from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

FAMILIES = ("classifier", "encoder-decoder", "causal LM")
HEAD = 32  # width of a head; 64 in models as wide as GPT-2


def random_model(
    family: str,
    layers: int,
    width: int,
    count: int,
    length: int,
    *,
    vocabulary: int = 4000,
    batch_tokens: int = 4096,
) -> tuple[ModelAdapter, Examples]:
    """A model with random weights, half of its layers a decoder's where it has one; examples."""
    torch.manual_seed(0)
    heads = width // (HEAD if width < 768 else 2 * HEAD)
    special = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1}
    if family == "classifier":
        module: Any = BertForSequenceClassification(
            BertConfig(
                vocab_size=vocabulary,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                hidden_size=width,
                intermediate_size=4 * width,
            )
        )
    elif family == "causal LM":
        module = GPT2LMHeadModel(
            GPT2Config(vocab_size=vocabulary, n_layer=layers, n_head=heads, n_embd=width, **special)
        )
    else:
        module = BartForConditionalGeneration(
            BartConfig(
                vocab_size=vocabulary,
                encoder_layers=layers // 2,
                decoder_layers=layers // 2,
                encoder_attention_heads=heads,
                decoder_attention_heads=heads,
                d_model=width,
                encoder_ffn_dim=4 * width,
                decoder_ffn_dim=4 * width,
                decoder_start_token_id=0,
                forced_eos_token_id=0,
                **special,
            )
        )
    model = headtool.wrap(module)
    rng = np.random.default_rng(0)

    def tokens() -> list[int]:
        return [int(token) for token in rng.integers(2, vocabulary, length)]

    rows: list[dict[str, Any]] = []
    for number in range(count):
        ids = tokens()
        if family == "classifier":
            rows.append({"input_ids": ids, "label": number % 2})
        else:
            rows.append({"input_ids": ids, "labels": tokens() if "encoder" in family else ids})
    return model, model.encode(load_data(rows), batch_tokens=batch_tokens)
