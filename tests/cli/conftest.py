"""Small models with random weights, and a way to run the command as its entry point does."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers.utils import logging as hf_logging

from headtool.cli import main

WORDS = [*"abcdefghijklmnopqrstuvwxyz", "good", "bad", "fine", "dull", "film", "plot", "."]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@dataclass(frozen=True)
class Done:
    """What a finished command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep out what makes rich take a pipe for a terminal."""
    for name in ("COLUMNS", "LINES", "FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def headtool(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``headtool ARGUMENTS...`` in this process, through the function behind the command."""

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["headtool", *map(str, arguments)])
        capsys.readouterr()
        with settings_of_the_process(), pytest.raises(SystemExit) as stopped:
            main.run()
        captured = capsys.readouterr()
        return Done(int(stopped.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def document(headtool: Run) -> Callable[..., dict[str, Any]]:
    """Run a command that prints JSON, and read it."""

    def run(*arguments: object) -> dict[str, Any]:
        done = headtool(*arguments, "--format", "json")
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found

    return run


@contextlib.contextmanager
def settings_of_the_process() -> Iterator[None]:
    """Put back what a command changes for its whole process: environment, warnings, logging.

    The libraries read the environment when they are imported, which here was before the command:
    they are told to be quiet in another way.
    """
    environment = dict(os.environ)
    own, root = logging.getLogger("headtool"), logging.getLogger()
    before = own.handlers[:], own.propagate, root.handlers[:]
    level = own.level
    bars, verbosity = hf_logging.is_progress_bar_enabled(), hf_logging.get_verbosity()
    hf_logging.disable_progress_bar()
    hf_logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        hf_logging.set_verbosity(verbosity)
        if bars:
            hf_logging.enable_progress_bar()
        own.handlers, own.propagate, root.handlers = before
        own.setLevel(level)
        os.environ.clear()
        os.environ.update(environment)


def word_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One token a word, between [CLS] and [SEP]."""
    words = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=20,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


SIZES = {
    "vocab_size": len(SPECIAL) + len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
    "pad_token_id": 0,
}


def save(model: transformers.PreTrainedModel, folder: Path) -> Path:
    """Write a model whose heads differ, with its tokenizer."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.5, generator=generator)
    model.save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models and data sets of the session lie; nobody writes there."""
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def bert(folder: Path) -> Path:
    """A BERT classifier: 2 layers of 4 heads, labels ``negative`` and ``positive``."""
    config = transformers.BertConfig(
        **SIZES, id2label={0: "negative", 1: "positive"}, label2id={"negative": 0, "positive": 1}
    )
    return save(transformers.BertForSequenceClassification(config), folder / "bert")


@pytest.fixture(scope="session")
def llama(folder: Path) -> Path:
    """A Llama language model: 2 layers of 4 query heads on 2 key/value heads."""
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, eos_token_id=3)
    return save(transformers.LlamaForCausalLM(config), folder / "llama")


@pytest.fixture(scope="session")
def gpt2(folder: Path) -> Path:
    """A GPT-2 language model: 2 layers of 4 heads, queries, keys and values in one layer."""
    config = transformers.GPT2Config(
        vocab_size=SIZES["vocab_size"],
        n_embd=16,
        n_layer=2,
        n_head=4,
        n_positions=20,
        bos_token_id=2,
        eos_token_id=3,
    )
    return save(transformers.GPT2LMHeadModel(config), folder / "gpt2")


@pytest.fixture(scope="session")
def bart(folder: Path) -> Path:
    """A BART translation model: 1 layer of 2 heads in the encoder, 2 of 4 in the decoder."""
    config = transformers.BartConfig(
        vocab_size=SIZES["vocab_size"],
        d_model=16,
        encoder_layers=1,
        encoder_attention_heads=2,
        encoder_ffn_dim=20,
        decoder_layers=2,
        decoder_attention_heads=4,
        decoder_ffn_dim=20,
        max_position_embeddings=20,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=3,
        forced_eos_token_id=3,
    )
    return save(transformers.BartForConditionalGeneration(config), folder / "bart")


SENTENCES = [
    "a good film .",
    "bad plot",
    "a fine plot and a good film",
    "dull",
    "the film is bad . the plot is dull .",
    "good",
    "a b c d e f g h",
    "fine , fine film",
]


@pytest.fixture(scope="session")
def reviews(folder: Path) -> Path:
    """Eight labelled sentences."""
    lines = (f"{text}\t{number % 2}\n" for number, text in enumerate(SENTENCES))
    path = folder / "reviews.tsv"
    path.write_text("text\tlabel\n" + "".join(lines))
    return path


@pytest.fixture(scope="session")
def book(folder: Path) -> Path:
    """Running text: several blocks of the language models here."""
    path = folder / "book.txt"
    path.write_text(" ".join(SENTENCES * 8))
    return path


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    place = tmp_path / "workplace"
    place.mkdir()
    monkeypatch.chdir(place)
    return place
