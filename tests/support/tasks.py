"""Tiny models of tasks that no built-in model has, made from configurations, and data for them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForQuestionAnswering,
    BertForTokenClassification,
    DeiTConfig,
    DeiTForImageClassification,
    DeiTForImageClassificationWithTeacher,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    SwinConfig,
    SwinForImageClassification,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

from headtool.data import TextData
from headtool.data.cells import image_uri
from headtool.models.huggingface.model import HuggingFaceArrayModel, HuggingFaceModel

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


def answerer(*, length: int = 48) -> HuggingFaceModel:
    """A random question-answering model in double precision."""
    torch.manual_seed(0)
    tokenizer = wordpieces(length=length)
    module = BertForQuestionAnswering(small_bert(tokenizer)).double()
    return HuggingFaceModel("answerer", "question-answering", module, tokenizer)


def asked(count: int = 8, *, words: int = 30, unanswerable: bool = False) -> dict[str, Any]:
    """Questions in SQuAD's form; texts are longer than a model of 24 tokens reads at once."""
    rng = np.random.default_rng(4)
    paragraphs = []
    for number in range(count):
        chosen = [str(word) for word in rng.choice([*NAMES, *STEMS], size=words)]
        context = " ".join(chosen)
        place = int(rng.integers(words - 1))
        start = len(" ".join(chosen[:place])) + (place > 0)
        text = " ".join(chosen[place : place + 2])
        silent = unanswerable and number % 3 == 0
        answers = [] if silent else [{"text": text, "answer_start": start}]
        question = {"id": str(number), "question": "in the rain", "answers": answers}
        paragraphs.append({"context": context, "qas": [question]})
    return {"version": "x", "data": [{"title": "t", "paragraphs": paragraphs}]}


def questions(count: int = 8) -> TextData:
    """The questions as a data set."""
    rows = asked(count)["data"][0]["paragraphs"]
    answers = [row["qas"][0]["answers"][0] for row in rows]
    columns = {
        "question": tuple(row["qas"][0]["question"] for row in rows),
        "context": tuple(row["context"] for row in rows),
        "answers": tuple(json.dumps([[a["text"], a["answer_start"]]]) for a in answers),
    }
    return TextData("dev.json", "questions", columns)


SEEN = ("cat", "dog")
VIT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "image_size": 16,
    "patch_size": 4,
    "id2label": dict(enumerate(SEEN)),
    "initializer_range": 0.3,
}
SIGHTED = {
    "ViT": lambda: ViTForImageClassification(ViTConfig(**VIT)),
    "DeiT": lambda: DeiTForImageClassification(DeiTConfig(**VIT)),
    "DeiT with a teacher": lambda: DeiTForImageClassificationWithTeacher(DeiTConfig(**VIT)),
    "Swin": lambda: SwinForImageClassification(
        SwinConfig(
            image_size=32, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 4], window_size=4
        )
    ),
}


def viewer(name: str = "ViT", *, size: int = 16) -> HuggingFaceModel:
    """A random classifier of images in double precision."""
    torch.manual_seed(0)
    processor = ViTImageProcessorPil(size={"height": size, "width": size})
    return HuggingFaceArrayModel(name, "classification", SIGHTED[name]().double(), processor)


def save_images(folder: Path, count: int = 6) -> Path:
    """Images of two classes, light and dark, of several sizes and formats."""
    rng = np.random.default_rng(1)
    for number in range(count):
        kind = SEEN[number % 2]
        height, width = rng.integers(12, 40, size=2)
        pixels = rng.integers(0, 128, size=(height, width, 3)) + 127 * (number % 2)
        (folder / kind).mkdir(parents=True, exist_ok=True)
        suffix = ("png", "jpg", "webp")[number % 3]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / kind / f"{number}.{suffix}")
    return folder


def pictures(count: int = 6) -> TextData:
    """The images as a data set with their bytes."""
    rng = np.random.default_rng(1)
    cells = []
    for number in range(count):
        pixels = rng.integers(0, 128, size=(20, 30, 3)) + 127 * (number % 2)
        buffer = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG")
        cells.append(image_uri(buffer.getvalue()))
    labels = tuple(SEEN[number % 2] for number in range(count))
    return TextData("pets.parquet", "images", {"image": tuple(cells), "label": labels})


def talker() -> HuggingFaceModel:
    """A random language model in double precision, whose tokenizer has a chat template."""
    torch.manual_seed(0)
    tokenizer = wordpieces()
    tokenizer.chat_template = (
        "[CLS]{% for message in messages %} {{ message.content }}"
        "{% if not loop.last %} [SEP]{% endif %}{% endfor %}"
        "{% if add_generation_prompt %} [MASK]{% endif %}"
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=20,
        max_position_embeddings=48,
        pad_token_id=0,
        initializer_range=0.3,
    )
    module = LlamaForCausalLM(config).double()
    return HuggingFaceModel("talker", "causal-lm", module, tokenizer)


def summarizer(kind: str = "BART") -> HuggingFaceModel:
    """A random encoder-decoder model in double precision."""
    torch.manual_seed(0)
    tokenizer = wordpieces()
    special = {"pad_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 3}
    if kind == "BART":
        module = BartForConditionalGeneration(
            BartConfig(
                vocab_size=len(tokenizer),
                d_model=16,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=20,
                decoder_ffn_dim=20,
                max_position_embeddings=48,
                forced_eos_token_id=None,
                bos_token_id=2,
                **special,
            )
        )
    else:
        module = T5ForConditionalGeneration(
            T5Config(
                vocab_size=len(tokenizer),
                d_model=16,
                d_kv=4,
                d_ff=20,
                num_layers=1,
                num_heads=4,
                **special,
            )
        )
    return HuggingFaceModel(kind, "seq2seq", module.double(), tokenizer)
