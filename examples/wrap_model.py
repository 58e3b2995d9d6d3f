"""Fine-tune a model, and compare methods on it without saving anything.

Run it with ``python examples/wrap_model.py``; it takes some seconds. The model and the data are
tiny and made up: a text is positive if it says "good" more often than "bad". With a model of your
own, wrap what you trained, with its tokenizer where your data is text.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import datasets
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import headtool

GOOD, BAD, WORDS = 5, 6, 40


def make_data(count: int, seed: int) -> datasets.Dataset:
    """Draw texts as token numbers, 2 to begin and 3 to end each."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        good, bad = draw.sample(range(4), 2)
        words = [GOOD] * good + [BAD] * bad
        words += [draw.randrange(7, WORDS) for _ in range(8 - len(words))]
        draw.shuffle(words)
        rows.append({"input_ids": [2, *words, 3], "labels": int(good > bad)})
    return datasets.Dataset.from_list(rows)


def train(steps: int) -> BertForSequenceClassification:
    """Train a small classifier in memory."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=16,
        id2label={0: "negative", 1: "positive"},
    )
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=32,
            learning_rate=3e-3,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
        )
        Trainer(model=model, args=arguments, train_dataset=make_data(640, seed=1)).train()
    return model


def main(folder: Path, steps: int = 120) -> headtool.Comparison:
    """Train, wrap, compare, draw and report."""
    model = headtool.wrap(train(steps))
    print(f"{model.spec}: {model.sites.summary}")
    found = headtool.compare(
        model,
        make_data(200, seed=2),
        methods=["gradient", "ablation", "magnitude"],
        draws=5,
        progress=True,
    )
    print(found)
    points = found.curves[found.curves["method"] == "gradient"]
    print(points[["budget", "value"]].round(3).to_string(index=False))
    folder.mkdir(parents=True, exist_ok=True)
    found.plot_curves().savefig(folder / "curves.pdf")
    found.plot_heads().savefig(folder / "heads.pdf")
    (folder / "overview.tex").write_text(found.to_latex("overview"), encoding="utf-8")
    print(found.report(folder / "report.html", force=True))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "wrapped"))
