"""Token classifiers: which pieces are scored, by what, and every command on them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import headtool
from headtool.data import TextData
from headtool.errors import HeadtoolError

from ...support.tasks import TAGS, save, save_conll, sentences, tagged, tagger


def test_the_first_piece_of_a_word_has_its_tag() -> None:
    model = tagger()
    words, tags = ["Ada", "walking", "in", "Tokyo"], ["B-PER", "O", "O", "B-LOC"]
    columns = {"tokens": (json.dumps(words),), "tags": (json.dumps(tags),)}
    (row,) = model.encode(TextData("t", "tokens", columns)).rows
    pieces = model.tokenizer.convert_ids_to_tokens(row["input_ids"])
    assert pieces == ["[CLS]", "ada", "walk", "##ing", "in", "tokyo", "[SEP]"]
    assert row["labels"] == [-100, 1, 0, -100, 0, 3, -100]


def test_loss_accuracy_and_f1_follow_from_the_model_alone() -> None:
    """Against a loop over sentences that knows nothing of batches."""
    metrics = pytest.importorskip("seqeval.metrics")
    model = tagger()
    examples = model.encode(tagged(), batch_tokens=60)
    whole = headtool.evaluate(model, examples, []).whole
    losses, right, gold, predicted = [], [], [], []
    for row in examples.rows:
        with torch.no_grad():
            logits = model.module(input_ids=torch.tensor([row["input_ids"]])).logits[0]
        labels = torch.tensor(row["labels"])
        kept = labels != -100
        losses.append(float(nn.functional.cross_entropy(logits[kept], labels[kept])) * kept.sum())
        best = logits.argmax(dim=-1)[kept]
        right.append(int((best == labels[kept]).sum()))
        gold.append([TAGS[number] for number in labels[kept].tolist()])
        predicted.append([TAGS[number] for number in best.tolist()])
    assert gold == [tags for _, tags in sentences()]
    total = sum(map(len, gold))

    def value(name: str) -> float:
        return headtool.get_metric(name, task=model.task).compute(whole)

    assert value("loss") == pytest.approx(sum(losses) / total)
    assert value("accuracy") == pytest.approx(sum(right) / total)
    assert value("f1") == pytest.approx(metrics.f1_score(gold, predicted))


def test_long_sentences_are_cut_and_counted() -> None:
    model = tagger()
    words = ["ada"] * 60
    columns = {"tokens": (json.dumps(words),), "tags": (json.dumps(["O"] * 60),)}
    examples = model.encode(TextData("t", "tokens", columns))
    assert examples.truncated == 1
    assert len(examples.rows[0]["input_ids"]) == 48


def test_tags_that_the_model_does_not_have() -> None:
    columns = {"tokens": ('["ada"]',), "tags": ('["B-ORG"]',)}
    with pytest.raises(HeadtoolError, match=r"the labels of 't' \('B-ORG'\) are not"):
        tagger().encode(TextData("t", "tokens", columns))


def test_other_data_is_refused_with_the_format() -> None:
    data = TextData("t", "text", {"text": ("a b",)})
    with pytest.raises(HeadtoolError, match=r"token-classification model and needs a \.conll file"):
        tagger().encode(data)


def test_labels_without_entities_have_accuracy() -> None:
    model = tagger()
    model.labels = ("NOUN", "VERB")
    assert headtool.metrics.metric_of_model(model).name == "accuracy"
    with pytest.raises(HeadtoolError, match="f1 counts entities, and the model's labels mark none"):
        headtool.metrics.metric_of_model(model, "f1")


@pytest.mark.slow
def test_commands(tmp_path: Path) -> None:
    folder = str(save(tagger(), tmp_path / "model"))
    data = str(save_conll(tmp_path / "dev.conll"))
    ablated = headtool.ablate(folder, data)
    assert set(ablated.frame["metric"]) == {"f1", "loss"}
    assert np.isfinite(ablated.frame["delta"]).all()
    found = headtool.compare(folder, data, methods=["gradient", "confidence", "attribution"])
    assert set(found.scores["method"]) >= {"gradient", "confidence", "attribution"}
    assert np.isfinite(found.scores["score"]).all()
    scores = headtool.score(folder, data, methods=["gradient"])
    out = tmp_path / "pruned"
    pruning = headtool.prune(folder, scores=scores, keep_heads=5, data=data, out=out)
    assert set(pruning.quality) == {"f1", "loss"}
    small = headtool.load_model(str(out))
    assert small.task == "token-classification"
    assert small.sites.n_heads == 5
