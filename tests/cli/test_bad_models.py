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
from safetensors import SafetensorError

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


def test_a_treebank_with_tokens_beyond_the_embeddings(
    headtool: Callable[..., Any], bert: Path, workplace: Path
) -> None:
    shutil.copytree(bert, workplace / "model")
    with_word(workplace / "model")
    line = "1\tsplendid\t_\tADJ\t_\t_\t2\tamod\t_\t_\n2\tfilm\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    (workplace / "dev.conllu").write_text(f"# text = splendid film\n{line}")
    words = ["roles", "--model", "model", "--treebank", "dev.conllu", "--out", "new"]
    message = complaint(headtool, workplace, words)
    assert "gives the token number 38" in message
    assert "resize_token_embeddings" in message


def test_translations_with_tokens_beyond_the_embeddings(
    headtool: Callable[..., Any], bart: Path, workplace: Path
) -> None:
    shutil.copytree(bart, workplace / "model")
    with_word(workplace / "model")
    (workplace / "a.txt").write_text("good film\n")
    (workplace / "b.txt").write_text("splendid film\n")
    for pair in ("a.txt,b.txt", "b.txt,a.txt"):
        message = complaint(
            headtool, workplace, ["score", "--model", "model", "--data", pair, "--out", "new"]
        )
        assert "gives the token number 38" in message


ROPE = {
    "a word": {"rope_type": "linear", "factor": "x"},
    "no factor": {"rope_type": "linear"},
    "unknown": {"rope_type": "spiral", "factor": 2.0},
    "of yarn": {"rope_type": "yarn", "factor": -1, "beta_fast": "x"},
    "no type": {"rope_type": None, "factor": 2.0},
}


@pytest.mark.parametrize("name", [*ROPE, "a list", "theta"])
def test_positions_that_cannot_be(
    headtool: Callable[..., Any], llama: Path, workplace: Path, name: str
) -> None:
    shutil.copytree(llama, workplace / "model")
    if name == "theta":
        set_in(CONFIG, rope_parameters={"rope_type": "default", "rope_theta": "x"})(
            workplace / "model"
        )
    else:
        set_in(CONFIG, rope_scaling=ROPE.get(name, [1]), rope_parameters=ROPE.get(name, [1]))(
            workplace / "model"
        )
    (workplace / "book.txt").write_text("a good film . " * 20)
    words = ["score", "--model", "model", "--data", "book.txt", "--out", "new"]
    assert "model" in complaint(headtool, workplace, words)


@pytest.mark.parametrize(
    "content", [b"[1]", b"{", b'{"peft_type": "LORA"}', b'{"base_model_name_or_path": 3}']
)
def test_adapter_settings_that_cannot_be(
    headtool: Callable[..., Any], bert: Path, workplace: Path, content: bytes
) -> None:
    shutil.copytree(bert, workplace / "model")
    (workplace / "model" / "adapter_config.json").write_bytes(content)
    (workplace / "good.tsv").write_text("text\tlabel\na good film\t1\nbad plot\t0\n")
    done = headtool("score", "--model", "model", "--data", "good.tsv", "--method", "magnitude")
    assert done.code in (0, 2)
    if done.code:
        assert done.err.count("\n") == 1
        assert done.err.startswith("error: ")


@pytest.mark.parametrize(
    "settings",
    [
        {"num_beams": "x"},
        {"num_beams": 0},
        {"length_penalty": "x"},
        {"max_length": "x"},
        {"eos_token_id": 10**9, "forced_eos_token_id": 10**9},
        {"forced_bos_token_id": {}},
        {"decoder_start_token_id": []},
        {"bad_words_ids": [1]},
        {"suppress_tokens": ["x"]},
    ],
    ids=lambda value: next(iter(value)),
)
def test_generation_settings_that_cannot_be_followed(
    headtool: Callable[..., Any], bart: Path, workplace: Path, settings: dict[str, object]
) -> None:
    shutil.copytree(bart, workplace / "model")
    set_in("generation_config.json", **settings)(workplace / "model")
    (workplace / "a.txt").write_text("good film\nbad plot\n")
    words = ["ablate", "--model", "model", "--data", "a.txt,a.txt", "--metric", "bleu"]
    message = complaint(headtool, workplace, [*words, "--out", "new"])
    assert "model" in message


def test_a_pruned_model_that_finds_no_room(
    headtool: Callable[..., Any], bert: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    mask = {"schema": "headtool/mask/1", "closed": ["enc-self.0.1"]}
    (workplace / "mask.json").write_text(json.dumps(mask))
    monkeypatch.setattr(transformers.modeling_utils, "safe_save_file", full)
    words = ["prune", "--model", bert, "--mask", "mask.json", "--out", "deep/small"]
    message = complaint(headtool, workplace, list(map(str, words)))
    assert "cannot write deep/small: Error while serializing: I/O error: No space left" in message
