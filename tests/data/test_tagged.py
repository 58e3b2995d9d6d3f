"""Sentences with tags: CoNLL's columns, and tables of lists."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import pytest

from headtool.data import load_data
from headtool.errors import HeadtoolError

CONLL = """-DOCSTART- -X- O O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

# NN B-NP O
Ada NNP B-NP B-PER
"""


def test_columns_of_conll(tmp_path: Path) -> None:
    path = tmp_path / "eng.conll"
    path.write_text(CONLL)
    data = load_data(str(path))
    assert data.kind == "tokens"
    assert [json.loads(cell) for cell in data.columns["tokens"]] == [
        ["EU", "rejects"],
        ["#", "Ada"],
    ]
    assert [json.loads(cell) for cell in data.columns["tags"]] == [["B-ORG", "O"], ["O", "B-PER"]]
    chunks = load_data(str(path), columns={"tags": "column3"})
    assert json.loads(chunks.columns["tags"][0]) == ["B-NP", "B-VP"]


def test_comments_and_tabs(tmp_path: Path) -> None:
    path = tmp_path / "wnut.conll"
    path.write_text("# id 7 domain=en\nNew York\tB-LOC\r\nslept\tO\n\n\n# id 8\n# \tO\n")
    data = load_data(str(path))
    assert [json.loads(cell) for cell in data.columns["tokens"]] == [["New York", "slept"], ["#"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EU O\nrejects\n", "line 2: expected 2, as above columns .* found 1"),
        ("EU\nrejects\n", "line 1: expected two or more columns"),
        ("-DOCSTART- O\n\n", "has no sentences"),
    ],
)
def test_faulty_columns(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.conll"
    path.write_text(text)
    with pytest.raises(HeadtoolError, match=message):
        load_data(str(path))


def test_numbers_of_tags_become_their_names(tmp_path: Path) -> None:
    features = datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")),
        ner_tags=datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"])),
    )
    rows = {"tokens": [["Ada", "slept"], ["Rain"]], "ner_tags": [[1, 0], [0]]}
    made = datasets.Dataset.from_dict(rows, features=features)
    made.to_parquet(tmp_path / "dev.parquet")
    data = load_data(str(tmp_path / "dev.parquet"))
    assert [json.loads(cell) for cell in data.columns["tags"]] == [["B-PER", "O"], ["O"]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "2 tokens and 1 tags"),
        ({"tokens": "a b", "tags": ["O", "O"]}, "'a b' in column 'tokens' is no list"),
        ({"tokens": [], "tags": []}, "has no tokens"),
    ],
)
def test_faulty_lists(row: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(HeadtoolError, match=message):
        load_data(str(path))


def test_roles_that_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match="tagged sentences need tokens=NAME,tags=NAME alone"):
        load_data(str(tmp_path / "x.jsonl"), columns={"tokens": "a", "label": "b"})
