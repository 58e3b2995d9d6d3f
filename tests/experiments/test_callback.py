"""`headtool.Callback` in a Trainer: what it finds, and that training does not notice it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import headtool
from headtool import HeadtoolError
from headtool.engine.evaluation import evaluate
from headtool.experiments.inputs import read_data
from headtool.experiments.splitting import split_data

from ..support.language_model import words_tokenizer

ROWS = [{"input_ids": [2, 4 + i % 2, 6 + i % 3, 8 - i % 2, 3], "labels": i % 2} for i in range(24)]
TEXTS = "text\tlabel\n" + "".join(
    f"w{i % 2} w{2 + i % 3} w{4 - i % 2}\tLABEL_{i % 2}\n" for i in range(24)
)


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "dev.tsv"
    path.write_text(TEXTS)
    return str(path)


def trained(
    folder: Path, *callbacks: Any, evaluate: int = 2, tokenizer: bool = True
) -> transformers.Trainer:
    """Train a small classifier with dropout for six steps."""
    transformers.set_seed(7)
    config = transformers.BertConfig(
        vocab_size=24,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=16,
        max_position_embeddings=16,
        hidden_dropout_prob=0.3,
    )
    trainer = transformers.Trainer(
        transformers.BertForSequenceClassification(config),
        transformers.TrainingArguments(
            str(folder),
            max_steps=6,
            per_device_train_batch_size=4,
            eval_strategy="steps",
            eval_steps=evaluate,
            save_strategy="no",
            learning_rate=0.01,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=ROWS,
        eval_dataset=ROWS[:8],
        processing_class=words_tokenizer(longest=16) if tokenizer else None,
        callbacks=list(callbacks),
    )
    trainer.train()
    return trainer


def test_training_ends_bit_equal_and_the_run_is_one_of_dynamics(tmp_path: Path, data: str) -> None:
    callback = headtool.Callback(data, method="gradient", steps="50%", out=tmp_path / "heads")
    watched = trained(tmp_path / "a", callback)
    states = [torch.get_rng_state(), np.random.get_state()[1], random.getstate()]
    alone = trained(tmp_path / "b")
    for name, weight in alone.model.state_dict().items():
        assert torch.equal(weight, watched.model.state_dict()[name]), name
    assert torch.equal(states[0], torch.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])
    assert states[2] == random.getstate()
    mine, theirs = (one.optimizer.state_dict()["state"] for one in (watched, alone))
    assert all(torch.equal(mine[i]["exp_avg"], theirs[i]["exp_avg"]) for i in theirs)
    assert not any(part._forward_hooks for part in watched.model.modules())

    run = headtool.read_run(tmp_path / "heads")
    curves = run.table("checkpoint_curves")
    assert list(dict.fromkeys(curves["checkpoint"])) == [f"checkpoint-{n}" for n in (2, 4, 6)]
    assert len(run.table("rank_stability")) == 3
    # The last is what is found of the trained model afterwards.
    last = run.table("checkpoint_scores").query("checkpoint == 'checkpoint-6'")
    watched.save_model(str(tmp_path / "end"))
    model = headtool.load_model(str(tmp_path / "end"), device="cpu")
    split = split_data(model, [read_data(data, model)], None, batch_tokens=4096, seed=0)
    scores = headtool.get_method("gradient")().score(model, split.selection).frame
    assert last["score"].tolist() == pytest.approx(scores["score"].tolist(), rel=1e-5)
    whole = curves.query("checkpoint == 'checkpoint-6' and removed == 0")["value"].item()
    found = evaluate(model, split.first, []).whole
    assert whole == pytest.approx((found["prediction"] == found["gold"]).mean())
    page = headtool.write_report(tmp_path / "heads", out=tmp_path / "page.html")
    assert "checkpoint-4" in page.read_text()
    assert headtool.show(tmp_path / "heads").origin["kind"] == "dynamics"


def test_one_evaluation_makes_a_run(tmp_path: Path, data: str) -> None:
    trained(tmp_path / "a", headtool.Callback(data, out=tmp_path / "heads"), evaluate=6)
    run = headtool.read_run(tmp_path / "heads")
    assert len(run.table("prunability")) == 1
    headtool.write_report(tmp_path / "heads", out=tmp_path / "page.html")


def test_token_numbers_need_no_tokenizer(tmp_path: Path) -> None:
    callback = headtool.Callback(ROWS, steps="50%", out=tmp_path / "heads")
    watched = trained(tmp_path / "a", callback, evaluate=3, tokenizer=False)
    alone = trained(tmp_path / "b", evaluate=3, tokenizer=False)
    for name, weight in alone.model.state_dict().items():
        assert torch.equal(weight, watched.model.state_dict()[name]), name
    wrapped = headtool.wrap(watched.model)
    split = split_data(wrapped, [read_data(ROWS, wrapped)], None, batch_tokens=4096, seed=0)
    scores = headtool.get_method("gradient")().score(wrapped, split.selection).frame
    run = headtool.read_run(tmp_path / "heads")
    last = run.table("checkpoint_scores").query("checkpoint == 'checkpoint-6'")
    assert last["score"].tolist() == pytest.approx(scores["score"].tolist(), rel=1e-5)
    texts = [{"text": "w1 w2", "label": i % 2} for i in range(8)]
    lacking = headtool.Callback(texts, out=tmp_path / "other")
    with pytest.raises(HeadtoolError, match="wrapped without a tokenizer"):
        trained(tmp_path / "c", lacking, tokenizer=False)


def test_what_does_not_fit_is_told_before_training(tmp_path: Path, data: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("important")
    with pytest.raises(HeadtoolError, match="mine"):
        trained(tmp_path / "a", headtool.Callback(data, out=tmp_path / "mine"))
    with pytest.raises(HeadtoolError, match="nowhere"):
        trained(tmp_path / "a", headtool.Callback("nowhere.tsv", out=tmp_path / "heads"))
    assert not (tmp_path / "heads").exists()
