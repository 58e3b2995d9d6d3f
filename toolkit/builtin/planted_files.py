"""Write ``builtin:planted`` as the folder that its library loads."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from headtool.builtin.planted import HEADS, LAYERS, Truth, truth
from headtool.builtin.planting import EPSILON, INNER, POSITIONS, SPECIAL, WIDTH, vocabulary, weights

__all__ = ["model_folder", "plant"]


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """Where planted models lie while the process lives."""
    return tempfile.TemporaryDirectory(prefix="headtool-planted-")


@cache
def model_folder(seed: int = 0) -> Path:
    """Return the folder of a planted model, as `from_pretrained` loads it, made at first use.

    Parameters
    ----------
    seed
        Seed of all that the truth leaves open: places of heads, directions, idle weights.
    """
    folder = Path(_place().name) / f"seed-{seed}"
    plant(folder, truth(seed))
    return folder


def plant(folder: Path, known: Truth) -> None:
    """Write a planted model as ``from_pretrained`` reads it.

    Parameters
    ----------
    folder
        Where to; it is made.
    known
        What its heads are to do.
    """
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    state = {name: value.astype(np.float32) for name, value in weights(known).items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_config(known), indent=1), encoding="utf-8")
    _write_tokenizer(folder)


def _config(known: Truth) -> dict[str, Any]:
    """Describe the model as its library does, with the truth beside it."""
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": len(vocabulary()),
        "n_positions": POSITIONS,
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
        "n_inner": INNER,
        "layer_norm_epsilon": EPSILON,
        "tie_word_embeddings": False,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "bos_token_id": 0,
        "eos_token_id": None,
        "pad_token_id": 2,
        "planted": {
            "seed": known.seed,
            "heads": {work: str(head) for work, head in known.heads.items()},
            "smallest_sufficient": [
                sorted(str(head) for head in heads) for heads in known.smallest_sufficient
            ],
        },
    }


def _write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of whole words, with the start before every text."""
    numbers = {word: number for number, word in enumerate(vocabulary())}
    start = {"SpecialToken": {"id": SPECIAL[0], "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    described = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": word,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, word in enumerate(SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, text],
            "pair": [start, text, second],
            "special_tokens": {SPECIAL[0]: {"id": SPECIAL[0], "ids": [0], "tokens": [SPECIAL[0]]}},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": numbers, "unk_token": SPECIAL[1]},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "unk_token": SPECIAL[1],
        "pad_token": SPECIAL[2],
        "model_max_length": POSITIONS,
    }
    for name, content in (("tokenizer.json", described), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
