"""Questions about texts: SQuAD's JSON, and tables in the hub's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headtool.data import load_data
from headtool.errors import HeadtoolError

from ..support.tasks import asked


def test_a_file_of_squad(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(asked(4, unanswerable=True)))
    data = load_data(str(path))
    assert (data.kind, len(data)) == ("questions", 4)
    assert data.columns["answerable"] == ("no", "yes", "yes", "no")
    ((text, start),) = json.loads(data.columns["answers"][1])
    assert data.columns["context"][1][start : start + len(text)] == text
    path.write_text(json.dumps(asked(4)))
    assert "answerable" not in load_data(str(path)).columns


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_tables_as_the_hub_has_them(suffix: str, tmp_path: Path) -> None:
    row = {
        "question": "who",
        "context": "Ada slept",
        "answers": {"text": ["Ada"], "answer_start": [0]},
    }
    path = tmp_path / f"dev{suffix}"
    if suffix == ".parquet":
        pd.DataFrame([row]).to_parquet(path)
    else:
        path.write_text(json.dumps(row))
    assert load_data(str(path)).columns["answers"] == ('[["Ada", 0]]',)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], "not in SQuAD's form: 'data' is missing or no list"),
        (
            {"data": [{"paragraphs": [{"context": 3, "qas": []}]}]},
            "'context' is missing or no text",
        ),
        (
            {"data": [{"paragraphs": [{"qas": [{"question": "q", "answers": []}]}]}]},
            "'context' is missing or no text",
        ),
        ({"data": []}, "has no questions"),
        (
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": "Ada slept",
                                "qas": [
                                    {
                                        "question": "who",
                                        "answers": [{"text": "Ada", "answer_start": 1}],
                                    }
                                ],
                            }
                        ]
                    }
                ]
            },
            "question 1: the answer 'Ada' does not stand at character 1",
        ),
    ],
)
def test_faulty_files(found: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(found))
    with pytest.raises(HeadtoolError, match=message):
        load_data(str(path))


@pytest.mark.parametrize(
    "answers", ["Ada", {"text": "Ada", "answer_start": 0}, {"text": ["Ada"]}, [{"text": 3}]]
)
def test_faulty_answers(answers: object, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"question": "who", "context": "Ada", "answers": answers}))
    with pytest.raises(HeadtoolError, match="is no list of answers"):
        load_data(str(path))
