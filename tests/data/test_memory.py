"""Tables in memory: frames, data sets and lists are read as files are, and named by content."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest

import headtool
from headtool.data.memory import is_held
from headtool.errors import HeadtoolError

ROWS = [
    {"sentence": "a good film", "label": "pos", "id": 1},
    {"sentence": "a dull one", "label": "neg", "id": 2},
    {"sentence": "so-so", "label": "neg", "id": 3},
]
TOKENS = [
    {"input_ids": [5, 6, 7, 0], "attention_mask": [1, 1, 1, 0], "labels": 1},
    {"input_ids": [5, 8, 0, 0], "attention_mask": [1, 1, 0, 0], "labels": 0},
]


def every_form(rows: list[dict[str, Any]]) -> list[Any]:
    return [rows, pd.DataFrame(rows), datasets.Dataset.from_list(rows)]


@pytest.mark.parametrize("rows", [ROWS, TOKENS])
def test_all_forms_are_the_same_data(rows: list[dict[str, Any]]) -> None:
    read = [headtool.load_data(data) for data in every_form(rows)]
    assert len({one.fingerprint for one in read}) == 1
    assert {one.spec for one in read} == {f"memory:{read[0].fingerprint[:8]}"}
    assert len({str(one.columns) for one in read}) == 1


def test_a_file_has_the_same_fingerprint(tmp_path: Any) -> None:
    frame = pd.DataFrame(ROWS)
    frame.to_csv(tmp_path / "dev.csv", index=False)
    from_file = headtool.load_data(str(tmp_path / "dev.csv"))
    assert headtool.load_data(frame).fingerprint == from_file.fingerprint


def test_columns_are_named_as_for_files() -> None:
    renamed = pd.DataFrame(ROWS).rename(columns={"sentence": "review", "label": "verdict"})
    with pytest.raises(HeadtoolError, match="the DataFrame has no column 'text'"):
        headtool.load_data(renamed)
    found = headtool.load_data(renamed, columns={"text": "review", "label": "verdict"}, limit=2)
    assert found.columns["label"] == ("pos", "neg")
    tokens = pd.DataFrame(TOKENS).rename(columns={"input_ids": "ids", "labels": "y"})
    found = headtool.load_data(tokens, columns={"input_ids": "ids", "labels": "y"})
    assert found.columns == {
        "input_ids": ("[5, 6, 7, 0]", "[5, 8, 0, 0]"),
        "attention_mask": ("[1, 1, 1, 0]", "[1, 1, 0, 0]"),
        "label": ("1", "0"),
    }


def test_values_of_other_libraries() -> None:
    rows = [{"input_ids": np.array([4, 5]), "labels": np.int64(1)}]
    assert headtool.load_data(rows).columns == {"input_ids": ("[4, 5]",), "label": ("1",)}
    data = datasets.Dataset.from_list(TOKENS).with_format("torch")
    assert headtool.load_data(data).columns["input_ids"][0] == "[5, 6, 7, 0]"
    assert data.format["type"] == "torch"
    named = datasets.ClassLabel(names=["bad", "good"])
    data = datasets.Dataset.from_dict({"text": ["x", "y"], "label": [1, -1]}).cast_column(
        "label", named
    )
    assert headtool.load_data(data).columns["label"] == ("good",)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([{"text": "a", "label": 1}, {"text": "b"}], "the list, row 2: no key 'label'"),
        ([{"text": None, "label": 1}], "the list, row 1: column 'text' holds null"),
        (pd.DataFrame({"text": ["a", None], "label": [1, 2]}), "DataFrame, row 2: .* holds null"),
        (pd.DataFrame({"text": [], "label": []}), "has no rows"),
        ([{"input_ids": ["x"], "labels": 1}], "row 1: column 'input_ids' holds .*whole numbers"),
        ([{"input_ids": [], "labels": 1}], "column 'input_ids' holds"),
        (datasets.DatasetDict(dev=datasets.Dataset.from_list(ROWS)), r"several splits \('dev'\)"),
        (datasets.Dataset.from_list(ROWS).to_iterable_dataset(), "is a stream"),
        (3, "a int is no data set"),
    ],
)
def test_what_cannot_be_read(data: Any, says: str) -> None:
    with pytest.raises(HeadtoolError, match=says):
        headtool.load_data(data)


def test_columns_of_tokens_go_alone() -> None:
    with pytest.raises(HeadtoolError, match="do not go together; texts in token numbers need"):
        headtool.load_data(TOKENS, columns={"input_ids": "input_ids", "text": "x"})
    with pytest.raises(HeadtoolError, match="was a table in memory; give the table itself"):
        headtool.load_data("memory:0123abcd")


def test_lists_of_specs_are_no_table() -> None:
    assert not any(is_held(data) for data in (["a.tsv", "b.tsv"], "a.tsv", None, [], 3))
    assert all(is_held(data) for data in every_form(ROWS))


def test_a_large_one_prints_one_line() -> None:
    data = headtool.load_data([{"text": f"row {i}", "label": i % 2} for i in range(10_000)])
    assert repr(data) == f"<TextData {data.spec}: 10,000 rows of classification (text_a, label)>"
