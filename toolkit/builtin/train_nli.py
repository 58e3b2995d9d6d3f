"""Train the built-in inference classifier: `python -m headtool.builtin.train_nli --out DIR`.

Two stages, as BERT is trained, on one thread: first the model fills in masked words of entailed
pairs (one cannot restore a word of the hypothesis without finding its place in the premise), then
it learns the labels. From scratch on labels alone, the model stays with shared words for long.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

from headtool.builtin.nli import NliExample, pairs
from headtool.builtin.nli_facts import ENTAILMENT, LABELS

PRETRAINING_STEPS = 1_500
STEPS = (6_500, 8_000)
"""Steps of the two rounds of training on labels, each with a learning-rate schedule of its own."""
BATCH = 64
WARMUP = 200
LEARNING_RATE = 1e-3
MASKED = {0: 0.1, 1: 0.25}
"""Share of masked words in premises and in hypotheses."""

Batch = dict[str, Tensor]


def train(seed: int) -> tuple[BertTokenizer, BertForSequenceClassification]:
    """Train tokenizer and classifier from nothing but a seed."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    data = pairs("train", seed=seed)
    tokenizer = make_tokenizer(data)
    model = BertForSequenceClassification(make_config(len(tokenizer)))
    entailed = [example for example in data if example.label == ENTAILMENT]
    _pretrain(model, _endless(tokenizer, entailed, rng), tokenizer.mask_token_id)
    _finetune(model, _endless(tokenizer, data, rng), STEPS[0])
    _finetune(model, _endless(tokenizer, data, random.Random(seed + 1)), STEPS[1])
    model.eval()  # type: ignore[no-untyped-call]
    return tokenizer, model


def make_tokenizer(data: list[NliExample]) -> BertTokenizer:
    """Make a tokenizer whose word pieces are the whole words of the data."""
    words = {
        word
        for example in data
        for word in f"{example.text_a} {example.text_b}".lower().replace(".", " . ").split()
    }
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(words)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    return BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=64)


def make_config(vocabulary_size: int) -> BertConfig:
    """Describe the model: 4 layers of 8 heads."""
    return BertConfig(
        vocab_size=vocabulary_size,
        hidden_size=96,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=192,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.05,
        id2label={index: str(label) for index, label in enumerate(LABELS)},
        label2id={str(label): index for index, label in enumerate(LABELS)},
    )


def accuracy(
    tokenizer: BertTokenizer, model: BertForSequenceClassification, data: list[NliExample]
) -> float:
    """Return the share of examples whose label the model gives."""
    right = 0
    with torch.no_grad():
        for batch in _batches(tokenizer, data, 100):
            right += int((model(**batch).logits.argmax(-1) == batch["labels"]).sum())
    return right / len(data)


def _batches(tokenizer: BertTokenizer, data: list[NliExample], size: int) -> list[Batch]:
    """Tokenize everything, shortest first, so that little of a batch is padding."""
    data = sorted(data, key=lambda e: len(e.text_a.split()) + len(e.text_b.split()))
    batches = []
    for start in range(0, len(data), size):
        part = data[start : start + size]
        texts = [example.text_a for example in part], [example.text_b for example in part]
        batch = dict(tokenizer(*texts, padding=True, return_tensors="pt"))
        batch["labels"] = torch.tensor([LABELS.index(example.label) for example in part])
        batches.append(batch)
    return batches


def _endless(
    tokenizer: BertTokenizer, data: list[NliExample], rng: random.Random
) -> Iterator[Batch]:
    """Yield shuffled batches, epoch after epoch, each sorted by length within large chunks."""
    chunk = BATCH * 32
    while True:
        shuffled = rng.sample(data, len(data))
        for start in range(0, len(shuffled), chunk):
            batches = _batches(tokenizer, shuffled[start : start + chunk], BATCH)
            yield from rng.sample(batches, len(batches))


def _pretrain(
    model: BertForSequenceClassification, batches: Iterator[Batch], mask_token: int
) -> None:
    """Train the encoder to fill in masked words; the head that names them is thrown away."""
    hidden = model.config.hidden_size
    head = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden))
    embedding = model.bert.embeddings.word_embeddings.weight
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], betas=(0.9, 0.98))
    for step in range(PRETRAINING_STEPS):
        batch = next(batches)
        words, segments = batch["input_ids"], batch["token_type_ids"]
        share = torch.where(segments == 1, MASKED[1], MASKED[0])
        masked = (torch.rand(words.shape) < share) & (words > mask_token)
        states = model.bert(
            torch.where(masked, mask_token, words),
            attention_mask=batch["attention_mask"],
            token_type_ids=segments,
        ).last_hidden_state
        loss = cross_entropy(head(states[masked]) @ embedding.T, words[masked])
        _step(model, optimizer, loss, rate=min(1, step / WARMUP))


def _finetune(model: BertForSequenceClassification, batches: Iterator[Batch], steps: int) -> None:
    """Train everything on the labels, with a cosine schedule."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        loss = model(**next(batches)).loss
        cosine = (1 + math.cos(math.pi * step / steps)) / 2
        _step(model, optimizer, loss, rate=min(1, step / WARMUP) * cosine)
        if (step + 1) % 500 == 0:
            print(f"step {step + 1} of {steps}: loss {loss.item():.3f}", flush=True)


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, *, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = LEARNING_RATE * rate
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def main() -> None:
    """Train, save, and print what was measured."""
    parser = argparse.ArgumentParser(description="Train the built-in inference classifier.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer, model = train(options.seed)
    model.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)
    for split in ("matched", "mismatched"):
        print(f"{split}: accuracy {accuracy(tokenizer, model, pairs(split)):.4f}")


if __name__ == "__main__":
    main()
