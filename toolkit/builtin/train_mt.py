"""Train ``builtin:mt`` from its seed: ``python -m headtool.builtin.train_mt --out DIR``.

Writes ``checkpoint.pt`` in the format of ``fairseq-train``, which fairseq's own tools load, and the
dictionaries ``dict.src.txt`` and ``dict.tgt.txt``; prints the quality on both evaluation sets. One
thread, about five minutes. The same seed, machine and versions give the same weights; elsewhere
rounding differs a little. Needs the ``fairseq`` extra.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headtool.builtin import mt, mt_lexicon
from headtool.quiet import silence

__all__ = ["build", "greedy_bleu", "load", "measure", "train"]

EPOCHS = 8
BATCH_TOKENS = 1_600
PEAK_LR = 2e-3
WARM_UP = 400
LABEL_SMOOTHING = 0.1
OPTIONS = {
    "task": "translation",
    "source_lang": mt.SOURCE_LANG,
    "target_lang": mt.TARGET_LANG,
    "data": "",
    "left_pad_source": True,
    "left_pad_target": False,
    "arch": "transformer",
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_embed_dim": 96,
    "encoder_ffn_embed_dim": 256,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "dropout": 0.1,
    "share_decoder_input_output_embed": True,
    "criterion": "label_smoothed_cross_entropy",
    "label_smoothing": LABEL_SMOOTHING,
    "optimizer": "adam",
    "adam_betas": "(0.9, 0.98)",
    "lr": [PEAK_LR],
    "max_tokens": BATCH_TOKENS,
}
"""The options that ``fairseq-train`` would have been given; fairseq fills in the rest."""

_PAD, _END = 1, 2  # Every dictionary of fairseq has them here; decoding starts with the end symbol.


def train(out: Path, *, seed: int = 0) -> None:
    """Train the model and write its folder.

    Parameters
    ----------
    out
        Folder to write; made when it does not exist.
    seed
        Seed of the weights, of the order of the batches and of dropout. The data keep their seed.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    pairs = mt.examples("train")
    out.mkdir(parents=True, exist_ok=True)
    for lang, column, words in zip(
        (mt.SOURCE_LANG, mt.TARGET_LANG), pairs.values(), mt_lexicon.vocabulary(), strict=True
    ):
        _write_dictionary(out / f"dict.{lang}.txt", column, words)
    args = Namespace(**OPTIONS, seed=seed)
    model, task = build(args, out)
    batches = list(_batches(pairs, task))
    shuffle = random.Random(seed).shuffle
    optimizer = torch.optim.Adam(model.parameters(), lr=PEAK_LR, betas=(0.9, 0.98))
    total = EPOCHS * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: min((done + 1) / WARM_UP, (total - done) / (total - WARM_UP))
    )
    started = time.monotonic()
    for epoch in range(1, EPOCHS + 1):
        model.train()
        shuffle(batches)
        losses = []
        for batch in batches:
            logits, gold = _logits(model, batch)
            loss = F.cross_entropy(logits, gold, ignore_index=_PAD, label_smoothing=LABEL_SMOOTHING)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        seconds = time.monotonic() - started
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}, {seconds:.0f} s", flush=True)
    torch.save(_checkpoint(model, args, total), out / "checkpoint.pt")
    for split in ("test", "noisy"):
        evaluation = mt.examples(split)
        quality = measure(model, task, evaluation)
        bleu = greedy_bleu(model, task, evaluation)
        print(
            f"{split}: loss {quality['loss']:.4f}, accuracy {quality['accuracy']:.4f}, "
            f"greedy BLEU {bleu:.2f}"
        )


def build(args: Namespace, folder: Path) -> tuple[Any, Any]:
    """Build an untrained fairseq model and its translation task from the folder's dictionaries.

    Parameters
    ----------
    args
        fairseq's options.
    folder
        Folder with the dictionaries.
    """
    with silence():
        from fairseq.data import Dictionary
        from fairseq.models.transformer import TransformerModel
        from fairseq.tasks.translation import TranslationTask

    dictionaries = (
        Dictionary.load(str(folder / f"dict.{lang}.txt"))
        for lang in (args.source_lang, args.target_lang)
    )
    task = TranslationTask(args, *dictionaries)
    return TransformerModel.build_model(args, task), task


def load(folder: Path) -> tuple[Any, Any]:
    """Load a trained model, in evaluation mode, and its task."""
    with torch.serialization.safe_globals([Namespace]):
        state = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)
    model, task = build(state["args"], folder)
    model.load_state_dict(state["model"])
    return model.eval(), task


@torch.no_grad()
def measure(model: Any, task: Any, pairs: dict[str, list[str]]) -> dict[str, float]:
    """Return ``loss`` (nats per token) and ``accuracy`` over target tokens, teacher-forced.

    Parameters
    ----------
    model, task
        A fairseq model and its translation task.
    pairs
        Sentences by ``source`` and ``target``.
    """
    model.eval()
    loss, correct, tokens = 0.0, 0, 0
    for batch in _batches(pairs, task):
        logits, gold = _logits(model, batch)
        real = gold != _PAD
        loss += F.cross_entropy(logits, gold, ignore_index=_PAD, reduction="sum").item()
        correct += int((logits.argmax(-1) == gold)[real].sum())
        tokens += int(real.sum())
    return {"loss": loss / tokens, "accuracy": correct / tokens}


def greedy_bleu(model: Any, task: Any, pairs: dict[str, list[str]]) -> float:
    """Return the corpus BLEU of greedy translations.

    Parameters
    ----------
    model, task
        A fairseq model and its translation task.
    pairs
        Sentences by ``source`` and ``target``.
    """
    import sacrebleu

    with silence():
        from fairseq.sequence_generator import SequenceGenerator

    generator = SequenceGenerator([model], task.target_dictionary, beam_size=1, max_len_b=100)
    outputs, references = [], []
    for source, target in _batches(pairs, task):
        lengths = (source != _PAD).sum(1)
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        for hypotheses, gold in zip(generator.generate([model], sample), target, strict=True):
            outputs.append(task.target_dictionary.string(hypotheses[0]["tokens"]))
            references.append(task.target_dictionary.string(gold[gold != _PAD]))
    return float(sacrebleu.corpus_bleu(outputs, [references]).score)


def _write_dictionary(path: Path, sentences: Sequence[str], words: frozenset[str]) -> None:
    """Write the words with their counts, frequent ones first; unseen words count zero."""
    counts = Counter(word for sentence in sentences for word in sentence.split())
    ranked = sorted(words, key=lambda word: (-counts[word], word))
    path.write_text("".join(f"{word} {counts[word]}\n" for word in ranked), encoding="utf-8")


def _batches(pairs: dict[str, list[str]], task: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield padded (source, target) tokens of sentences of similar length."""
    from fairseq.data.data_utils import collate_tokens

    source, target = (
        [dictionary.encode_line(line, add_if_not_exist=False).long() for line in column]
        for dictionary, column in zip(
            (task.source_dictionary, task.target_dictionary), pairs.values(), strict=True
        )
    )

    def size(row: int) -> int:
        return max(len(source[row]), len(target[row]))

    def collated(rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        left = collate_tokens([source[i] for i in rows], _PAD, left_pad=True)
        return left, collate_tokens([target[i] for i in rows], _PAD)

    rows: list[int] = []
    for row in sorted(range(len(source)), key=size):
        if rows and (len(rows) + 1) * size(row) > BATCH_TOKENS:
            yield collated(rows)
            rows = []
        rows.append(row)
    yield collated(rows)


def _logits(model: Any, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return logits of every target position and the tokens to predict there, both flat."""
    source, target = batch
    previous = torch.roll(target, 1, dims=1)
    previous[:, 0] = _END
    previous[target == _PAD] = _PAD
    logits, _ = model(source, (source != _PAD).sum(1), previous)
    return logits.flatten(0, 1), target.flatten()


def _checkpoint(model: Any, args: Namespace, updates: int) -> dict[str, Any]:
    """Return what ``fairseq-train`` would save, without the state of its optimiser."""
    return {
        "args": args,
        "cfg": None,
        "model": model.state_dict(),
        "criterion": None,
        "optimizer_history": [
            {
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {"best": None},
                "num_updates": updates,
            }
        ],
        "task_state": {},
        "extra_state": {
            "train_iterator": {"epoch": EPOCHS + 1, "iterations_in_epoch": 0},
            "val_loss": None,
        },
        "last_optimizer_state": None,
    }


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(
        prog="headtool.builtin.train_mt", description="Train builtin:mt."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=0, help="seed of the training (default 0)")
    options = parser.parse_args()
    with warnings.catch_warnings():
        # fairseq passes masks of two types to PyTorch.
        warnings.filterwarnings("ignore", message="Support for mismatched", category=UserWarning)
        train(options.out, seed=options.seed)


if __name__ == "__main__":
    main()
