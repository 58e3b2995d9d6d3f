"""A tiny Llama-type model with its tokenizer, as a GGUF file."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from transformers.convert_slow_tokenizer import bytes_to_unicode

WIDTH, HEADS, GROUPS, LAYERS, INNER = 32, 4, 2, 2, 64
TOKENS = [*bytes_to_unicode().values(), "<|end|>", "he", "th"]


def save_gguf(path: Path, *, quantised: bool = False, seed: int = 0) -> None:
    """Write the file; matrices are quantised to eight bits where asked for."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3 if token == "<|end|>" else 1 for token in TOKENS])
    writer.add_token_merges(["h e", "t h"])
    writer.add_bos_token_id(TOKENS.index("<|end|>"))
    writer.add_eos_token_id(TOKENS.index("<|end|>"))

    def add(name: str, *shape: int) -> None:
        values = rng.normal(scale=0.3, size=shape).astype(np.float32)
        if len(shape) == 1:
            values = 1 + values
        elif quantised:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
            return
        writer.add_tensor(name, values)

    add("token_embd.weight", len(TOKENS), WIDTH)
    add("output_norm.weight", WIDTH)
    add("output.weight", len(TOKENS), WIDTH)
    keys = WIDTH // HEADS * GROUPS
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        add(f"{block}.attn_norm.weight", WIDTH)
        add(f"{block}.ffn_norm.weight", WIDTH)
        add(f"{block}.attn_q.weight", WIDTH, WIDTH)
        add(f"{block}.attn_k.weight", keys, WIDTH)
        add(f"{block}.attn_v.weight", keys, WIDTH)
        add(f"{block}.attn_output.weight", WIDTH, WIDTH)
        add(f"{block}.ffn_gate.weight", INNER, WIDTH)
        add(f"{block}.ffn_up.weight", INNER, WIDTH)
        add(f"{block}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
