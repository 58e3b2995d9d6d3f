"""Tiny models of tasks that no built-in model has, made from configurations, and data for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from headtool.data import TextData
from headtool.models.huggingface.model import HuggingFaceModel

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
NAMES = ("ada", "grace", "tokyo", "paris")
STEMS = ("walk", "talk", "rain", "sleep", "the", "in", "a")
ENDINGS = ("##ed", "##ing", "##s")


def wordpieces(*, length: int = 48) -> PreTrainedTokenizerFast:
    """BERT's kind of tokenizer, which cuts ``walking`` into ``walk`` and ``##ing``."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = [*specials, *NAMES, *STEMS, *ENDINGS, *letters, *(f"##{c}" for c in letters)]
    inner = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def small_bert(tokenizer: Any, **more: Any) -> BertConfig:
    """Two layers of four heads."""
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=20,
        max_position_embeddings=tokenizer.model_max_length,
        initializer_range=0.3,
        **more,
    )


def tagger() -> HuggingFaceModel:
    """A random token classifier in double precision."""
    torch.manual_seed(0)
    tokenizer = wordpieces()
    labels = dict(enumerate(TAGS))
    config = small_bert(tokenizer, id2label=labels)
    module = BertForTokenClassification(config).double()
    return HuggingFaceModel("tagger", "token-classification", module, tokenizer)


def sentences(count: int = 12) -> list[tuple[list[str], list[str]]]:
    """Tokens and tags; people and places, and words of one to three pieces."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(count):
        tokens, tags = [], []
        for _ in range(rng.integers(2, 6)):
            name = str(rng.choice(NAMES))
            kind = "PER" if NAMES.index(name) < 2 else "LOC"
            word = str(rng.choice(STEMS)) + str(rng.choice(["", "ed", "ing"]))
            tokens += [name, "the", word] if rng.random() < 0.3 else [name, word]
            tags += [f"B-{kind}", f"I-{kind}", "O"] if tokens[-2] == "the" else [f"B-{kind}", "O"]
        found.append((tokens, tags))
    return found


def tagged(count: int = 12) -> TextData:
    """The sentences as a data set."""
    tokens, tags = zip(*sentences(count), strict=True)
    columns = {"tokens": tuple(map(json.dumps, tokens)), "tags": tuple(map(json.dumps, tags))}
    return TextData("dev.conll", "tokens", columns)


def save_conll(path: Path, count: int = 12) -> Path:
    """The sentences as a file."""
    blocks = [
        "\n".join(f"{token}\tX\t{tag}" for token, tag in zip(tokens, tags, strict=True))
        for tokens, tags in sentences(count)
    ]
    path.write_text("\n\n".join(blocks) + "\n")
    return path


def save(model: HuggingFaceModel, folder: Path) -> Path:
    """A model's folder, in single precision."""
    model.module.float()
    folder.mkdir(exist_ok=True)
    model.save(folder)
    return folder
