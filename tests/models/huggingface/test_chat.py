"""Conversations: what becomes prompt and answer, and how the chat template writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import headtool
from headtool.data import TextData, load_data
from headtool.errors import HeadtoolError

from ...support.tasks import talker

USER = {"role": "user", "content": "rain in paris"}
SYSTEM = {"role": "system", "content": "talk"}
ASSISTANT = {"role": "assistant", "content": "grace walked"}


def saved(tmp_path: Path, *rows: dict[str, Any]) -> str:
    path = tmp_path / "chat.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def test_the_last_message_is_the_answer(tmp_path: Path) -> None:
    data = load_data(saved(tmp_path, {"messages": [SYSTEM, USER, ASSISTANT]}))
    assert data.kind == "prompt"
    assert json.loads(data.columns["messages"][0]) == [SYSTEM, USER]
    assert data.columns["answer"] == ("grace walked",)


def test_a_prompt_may_be_what_the_user_says(tmp_path: Path) -> None:
    spec = saved(tmp_path, {"prompt": "rain in paris", "choices": ["ada", "grace"], "label": 1})
    assert set(load_data(spec).columns) == {"prompt", "choices", "label"}
    data = load_data(spec, columns={"messages": "prompt"})
    assert data.kind == "choice"
    assert json.loads(data.columns["messages"][0]) == [USER]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": [USER]}, "the last message is of 'user', and there is no column 'answer'"),
        ({"messages": [ASSISTANT]}, "the last message is of 'assistant'"),
        ({"messages": [{"role": "user"}]}, "is no list of messages"),
        ({"messages": []}, "is no list of messages"),
        ({"messages": [USER], "choices": ["a"], "label": 0}, "is no list of two or more choices"),
        ({"messages": [USER], "answer": " "}, "column 'answer' is empty"),
    ],
)
def test_faulty_conversations(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match=message):
        load_data(saved(tmp_path, row))


def test_prompts_and_messages_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="do not go together"):
        load_data(saved(tmp_path, {}), columns={"messages": "a", "prompt": "b"})


def test_the_template_is_the_prompt_and_nothing_else_is_added() -> None:
    model = talker()
    columns = {
        "messages": (json.dumps([SYSTEM, USER]),) * 2,
        "choices": ('["ada", "grace walked"]',) * 2,
        "label": ("1", "0"),
    }
    examples = model.encode(TextData("c", "choice", columns))
    prompt = "[CLS] talk [SEP] rain in paris [MASK]"
    whole = headtool.evaluate(model, examples, []).whole
    losses = []
    for answer in ("ada", "grace walk ##ed"):
        ids = model.tokenizer.convert_tokens_to_ids(f"{prompt} {answer}".split())
        start = len(prompt.split())
        with torch.no_grad():
            logits = model.module(input_ids=torch.tensor([ids])).logits[0]
        wanted = torch.tensor(ids[start:])
        losses.append(
            float(nn.functional.cross_entropy(logits[start - 1 : -1], wanted)) * len(wanted)
        )
    np.testing.assert_allclose(whole["loss"], [losses[1], losses[0]])
    right = [losses[1] < losses[0], losses[0] < losses[1]]
    assert whole["acc"].tolist() == right


def test_models_without_a_template_and_templates_that_refuse() -> None:
    model = talker()
    data = TextData("c", "prompt", {"messages": (json.dumps([USER]),), "answer": ("ada",)})
    model.tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(HeadtoolError, match=r"does not take these messages \(roles must alternate"):
        model.encode(data)
    model.tokenizer.chat_template = None
    with pytest.raises(HeadtoolError, match="has no chat template, which c, example 1 needs"):
        model.encode(data)


@pytest.mark.slow
def test_scores_of_a_conversation() -> None:
    model = talker()
    columns = {"messages": (json.dumps([USER]),) * 6, "answer": ("ada walked", "grace") * 3}
    data = TextData("c", "prompt", columns)
    found = headtool.score(model, data, methods=["gradient", "confidence", "attribution"])
    assert np.isfinite(found.frame["score"]).all()
