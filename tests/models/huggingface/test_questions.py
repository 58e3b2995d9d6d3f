"""Question-answering models: windows, the best span, and every command on them."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import headtool
from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.metrics.questions import answer_scores

from ...support.tasks import answerer, asked, questions, save


@pytest.mark.parametrize("silent", [False, True])
def test_answers_are_the_best_spans_of_all_windows(silent: bool) -> None:
    """Against a loop over windows and all pairs of their tokens."""
    model = answerer(length=24)
    data = questions(6)
    if silent:
        columns = {**data.columns, "answerable": ("no", *["yes"] * 5)}
        columns["answers"] = ("[]", *data.columns["answers"][1:])
        data = TextData("dev.json", "questions", columns)
    examples = model.encode(data, batch_tokens=100)
    assert all(len(row["windows"]) == 3 for row in examples.rows)
    whole = headtool.evaluate(model, examples, []).whole
    answered = set()
    for number, row in enumerate(examples.rows):
        best, text, none, loss = -np.inf, "", np.inf, 0.0
        for window in row["windows"]:
            ids = torch.tensor([window["input_ids"]])
            kinds = torch.tensor([window["token_type_ids"]])
            with torch.no_grad():
                output = model.module(input_ids=ids, token_type_ids=kinds)
            starts, ends = output.start_logits[0], output.end_logits[0]
            for logits, label in zip((starts, ends), window["labels"], strict=True):
                loss += float(nn.functional.cross_entropy(logits, torch.tensor(label)))
            none = min(none, float(starts[0] + ends[0]))
            inside = range(window["first"], window["last"] + 1)
            for i, j in product(inside, inside):
                if i <= j < i + 30 and float(starts[i] + ends[j]) > best:
                    best = float(starts[i] + ends[j])
                    offsets = window["offsets"]
                    text = data.columns["context"][number][offsets[i][0] : offsets[j][1]]
        if silent and none > best:
            text = ""
        answered.add(text)
        references = [answer for answer, _ in json.loads(data.columns["answers"][number])]
        scores = whole["answer_em"][number], whole["answer_f1"][number]
        assert scores == answer_scores(text, references)
        assert whole["loss"][number] == pytest.approx(loss)
        assert whole["tokens"][number] == 2 * len(row["windows"])
    assert len(answered) > 1


def test_windows_that_hold_the_answer_want_its_tokens() -> None:
    model = answerer(length=24)
    for row, cell in zip(
        model.encode(questions()).rows, questions().columns["answers"], strict=True
    ):
        ((text, _),) = json.loads(cell)
        first, last = row["labels"]
        ids = row["input_ids"][first : last + 1]
        assert model.tokenizer.decode(ids) == text
        for window in row["windows"]:
            held = window["labels"] != [0, 0]
            tokens = model.tokenizer.decode(window["input_ids"][window["first"] : -1])
            assert not held or text in tokens


def test_a_question_that_leaves_no_room_is_refused() -> None:
    data = questions(2)
    columns = {**data.columns, "question": ("in", "rain " * 40)}
    with pytest.raises(HeadtoolError, match=r"example 2: a question of 4[0-9] tokens"):
        answerer(length=24).encode(TextData("dev.json", "questions", columns))


@pytest.mark.slow
def test_commands(tmp_path: Path) -> None:
    folder = str(save(answerer(length=24), tmp_path / "model"))
    data = tmp_path / "dev.json"
    data.write_text(json.dumps(asked(12)))
    found = headtool.compare(folder, str(data), methods=["gradient", "confidence"])
    assert np.isfinite(found.scores["score"]).all()
    scores = headtool.score(folder, str(data), methods=["lrp"])
    pruning = headtool.prune(
        folder, scores=scores, keep_heads=5, data=str(data), out=tmp_path / "pruned"
    )
    assert set(pruning.quality) == {"f1", "loss"}
    small = headtool.load_model(str(tmp_path / "pruned"))
    assert (small.task, small.sites.n_heads) == ("question-answering", 5)
