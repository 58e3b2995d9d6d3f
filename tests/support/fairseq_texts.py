"""Small language models and classifiers of fairseq, saved as fairseq-train saves them."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LETTERS = "abcdefghijkl"

SIZES = {"embed_dim": 16, "ffn_embed_dim": 24, "layers": 2, "attention_heads": 4}


@pytest.fixture
def save_fairseq_text(tmp_path: Path) -> Callable[..., Path]:
    """Save a random language model with its dictionary; returns the checkpoint.

    Takes the architecture, the number of classes of a classification head, labels of its classes,
    and options as fairseq-train would have recorded them.
    """
    import torch

    from headtool.quiet import silence

    with silence():
        pytest.importorskip("fairseq")

    def save(
        arch: str,
        *,
        folder: Path = tmp_path,
        classes: int = 0,
        labels: str = "",
        head: str = "sentence_classification_head",
        symbols: list[str] | None = None,
        **options: Any,
    ) -> Path:
        with silence():
            from fairseq.data import Dictionary
            from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
            from fairseq.models.transformer_lm import base_lm_architecture

        side = "encoder" if arch.startswith("roberta") else "decoder"
        length = {"max_positions": 40} if side == "encoder" else {"tokens_per_sample": 40}
        recorded = {"arch": arch, "task": "masked_lm" if side == "encoder" else "language_modeling"}
        recorded |= {f"{side}_{name}": size for name, size in SIZES.items()}
        args = Namespace(**recorded | length | options)
        dictionary = Dictionary()
        for symbol in symbols or LETTERS:
            dictionary.add_symbol(symbol, n=3)
        dictionary.save(str(folder / "dict.txt"))
        if side == "encoder":
            dictionary.add_symbol("<mask>")
        if labels:
            (folder / "label").mkdir()
            known = Dictionary()
            for label in labels.split():
                known.add_symbol(label)
            known.save(str(folder / "label" / "dict.txt"))
        built = Namespace(**vars(args))
        ARCH_CONFIG_REGISTRY[arch](built)
        if arch == "transformer_lm":
            base_lm_architecture(built)
            args.decoder_normalize_before = True
        task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
        with silence(), torch.random.fork_rng():
            torch.manual_seed(7)
            module = ARCH_MODEL_REGISTRY[arch].build_model(built, task)
            if classes:
                module.register_classification_head(head, classes, 10)
            for weight in module.parameters():  # biases and scales start at zero and one
                torch.nn.init.normal_(weight, mean=float(weight.mean() > 0.5), std=0.3)
        path = folder / "checkpoint.pt"
        torch.save({"args": args, "cfg": None, "model": module.state_dict()}, path)
        return path

    return save


def write_gpt2(folder: Path, merges: list[tuple[str, str]]) -> list[str]:
    """Write a byte-level encoding with a few merges; returns the symbols of its dictionary."""
    from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

    pieces = [*bytes_to_unicode().values(), *("".join(pair) for pair in merges)]
    (folder / "encoder.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "vocab.bpe").write_text("\n".join(lines), encoding="utf-8")
    return [str(number) for number in range(len(pieces))]
