"""Models whose files are damaged in ways that only show late: one line, and nothing written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from ..support.damage import Edit, complaint, edit_json, set_in, write

DEEP = b"[" * 200_000
LONG = b"9" * 5000

CONFIG, TOKENIZER, OPTIONS = "config.json", "tokenizer.json", "tokenizer_config.json"


def with_pad_token(folder: Path) -> None:
    """What users do without calling resize_token_embeddings."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.save_pretrained(folder)


def with_word(folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["good"])
    tokenizer.add_tokens(["splendid"])
    tokenizer.save_pretrained(folder)


class _Evil:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return (exec, ("open('owned', 'w').close()",))


def evil_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"bert.x": _Evil()}, folder / "pytorch_model.bin")


def index_of(document: object) -> Edit:
    def edit(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps(document))

    return edit


def split_at(pattern: str) -> Edit:
    rule = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return set_in(TOKENIZER, pre_tokenizer=rule)


DAMAGE: dict[str, tuple[Edit, list[str]]] = {
    # -- tokenizers that do not fit
    "pad token beyond": (with_pad_token, ["'<pad>'", "38", "resize_token_embeddings"]),
    "token beyond": (with_word, ["38", "resize_token_embeddings"]),
    "template beyond": (
        edit_json(
            TOKENIZER,
            lambda d: d["post_processor"]["special_tokens"]["[CLS]"].update(ids=[10**6]),
        ),
        ["1000000", "its own tokenizer"],
    ),
    "word beyond": (
        edit_json(TOKENIZER, lambda d: d["model"]["vocab"].update(good=10**6)),
        ["1000000", "its own tokenizer"],
    ),
    "broken pattern": (split_at("(("), ["tokenizer"]),
    "length negative": (set_in(OPTIONS, model_max_length=-1), ["model_max_length", "-1"]),
    "length of a word": (set_in(OPTIONS, model_max_length="x"), ["model_max_length", "'x'"]),
    "length of special tokens": (set_in(OPTIONS, model_max_length=2), ["model_max_length", "2"]),
    "tokenizer deep": (write(TOKENIZER, DEEP), ["tokenizer"]),
    "tokenizer options deep": (write(OPTIONS, DEEP), ["tokenizer"]),
    "tokenizer options a list": (write(OPTIONS, b"[1]"), ["tokenizer"]),
    # -- configurations
    "config deep": (write(CONFIG, DEEP), ["configuration"]),
    "config of long numbers": (
        write(CONFIG, b'{"model_type": "bert", "a": ' + LONG + b"}"),
        ["configuration"],
    ),
    "heads negative": (set_in(CONFIG, num_attention_heads=-4), ["num_attention_heads", "-4"]),
    "no heads": (set_in(CONFIG, num_attention_heads=0), ["num_attention_heads", "0"]),
    "no layers": (set_in(CONFIG, num_hidden_layers=0), ["num_hidden_layers", "0"]),
    "layers without end": (
        set_in(CONFIG, num_hidden_layers=100_000),
        ["num_hidden_layers", "100000", "2000"],
    ),
    "pad far off": (set_in(CONFIG, pad_token_id=10**9), ["Padding_idx"]),
    "pad a word": (set_in(CONFIG, pad_token_id="x"), ["pad_token_id", "'x'"]),
    "chunks": (set_in(CONFIG, chunk_size_feed_forward=7), ["chunk_size_feed_forward", "7"]),
    "chunks of a word": (set_in(CONFIG, chunk_size_feed_forward="x"), ["forward pass"]),
    "class a number": (set_in(CONFIG, architectures=[1]), ["architectures", "[1]"]),
    "class no list": (set_in(CONFIG, architectures=3), ["architectures", "3"]),
    "regression of two": (
        set_in(CONFIG, problem_type="regression"),
        ["regression", "2 outputs", "id2label"],
    ),
    "labels a list": (set_in(CONFIG, id2label=["a", "b"]), ["configuration"]),
    # -- weights
    "evil weights": (evil_weights, ["any code", "safetensors"]),
    "index of nothing": (index_of({"weight_map": None}), ["weights"]),
    "index outside": (index_of({"weight_map": {"a": "../../x"}}), ["weights"]),
    "index a list": (index_of([]), ["weights"]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_model(
    headtool: Callable[..., Any], bert: Path, workplace: Path, name: str
) -> None:
    shutil.copytree(bert, workplace / "model")
    (workplace / "good.tsv").write_text("text\tlabel\na good splendid film\t1\nbad plot\t0\n")
    damage, parts = DAMAGE[name]
    damage(workplace / "model")
    message = complaint(
        headtool,
        workplace,
        ["score", "--model", "model", "--data", "good.tsv", "--out", "results/new"],
    )
    for part in ("model", *parts):
        assert part in message


@pytest.mark.parametrize(
    ("entry", "value"), [("decoder_start_token_id", 10**9), ("decoder_start_token_id", "x")]
)
def test_a_translation_model_that_starts_nowhere(
    headtool: Callable[..., Any], bart: Path, workplace: Path, entry: str, value: object
) -> None:
    shutil.copytree(bart, workplace / "model")
    set_in(CONFIG, **{entry: value})(workplace / "model")
    (workplace / "a.txt").write_text("good film\nbad plot\n")
    complaint(
        headtool, workplace, ["score", "--model", "model", "--data", "a.txt,a.txt", "--out", "new"]
    )
