"""Measured rows for docs/scale.md: what plans said, and what the work then took.

``python benchmarks/bench_scale.py`` makes random models of the Llama family, of 135M parameters in
float32 and of 1B in bfloat16, plans commands on them with one timed batch, and runs these. Run it
on an idle machine: it takes some minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported, also by workers

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import headtool

WORDS = 2_000

SHAPES = {
    "135M": {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "tie_word_embeddings": True,
    },
    "1B": {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
    },
}
TYPES = {"135M": "float32", "1B": "bfloat16"}


def write_model(folder: Path, name: str) -> None:
    """Write a random model with a tokenizer of a few words."""
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=49_152, max_position_embeddings=512, **SHAPES[name])
    model = LlamaForCausalLM(config).to(getattr(torch, TYPES[name]))
    model.save_pretrained(folder)
    vocabulary = {"<unk>": 0, **{f"w{i}": i for i in range(1, WORDS)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)


def write_text(path: Path, *, texts: int, length: int) -> None:
    """Write texts of so many words, a blank line between them."""
    lines = (
        " ".join(f"w{1 + (7 * i + 13 * n) % (WORDS - 1)}" for i in range(length))
        for n in range(texts)
    )
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")


def jobs(name: str, heads: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What is planned and run: title, command and options."""
    yield "score, gradient", "score", {"methods": ["gradient"]}
    yield "score, confidence", "score", {"methods": ["confidence"]}
    yield f"ablate, {len(heads)} heads", "ablate", {"heads": heads}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="0: none")
    arguments = parser.parse_args()

    titles = (
        *("model", "command", "workers", "token-passes", "operations", "planned", "measured"),
        "measured / planned",
    )
    print("| " + " | ".join(titles) + " |")
    print("| " + " | ".join("---" for _ in titles) + " |", flush=True)
    with tempfile.TemporaryDirectory() as place:
        text = Path(place) / "text.txt"
        write_text(text, texts=arguments.texts, length=arguments.length)
        for name in arguments.models:
            folder = Path(place) / name
            write_model(folder, name)
            model = headtool.load_model(str(folder), device=arguments.device, dtype=TYPES[name])
            heads = [str(head) for head in model.sites.heads][:: model.sites.n_heads // 6]
            given = {"batch_tokens": 2 * arguments.length}
            for title, command, options in jobs(name, heads):
                counts = [1]
                if arguments.workers > 1 and command == "ablate" and name == "135M":
                    counts.append(arguments.workers)
                for workers in counts:
                    where = [model, str(text)]
                    plan = headtool.plan(
                        command, *where, **options, **given, timed=True, workers=workers
                    )
                    with pool_of(workers) as pool:
                        run = getattr(headtool, command)
                        run(*where, **{**options, **given, "limit": 2}, workers=pool)  # warm-up
                        started = time.perf_counter()
                        run(*where, **options, **given, workers=pool)
                        took = time.perf_counter() - started
                    total = plan.total
                    flops = total["forward_flops"] + total["backward_flops"]
                    planned = total["seconds_most"]
                    row = (
                        *(name, title, str(workers), f"{total['token_passes_most']:,.0f}"),
                        *(f"{flops:.1e}", f"{planned:.1f} s", f"{took:.1f} s"),
                        f"{took / planned:.2f}",
                    )
                    print("| " + " | ".join(row) + " |", flush=True)


def pool_of(workers: int) -> Any:
    """Workers, or none for one process."""
    return headtool.Workers(workers) if workers > 1 else contextlib.nullcontext()


if __name__ == "__main__":
    main()
