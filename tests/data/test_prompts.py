"""Tables with prompts, choices and corrupted texts."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from headtool.data import TextData, load_data, parse_columns
from headtool.data.prompts import as_choices
from headtool.errors import HeadtoolError

PROMPTS = [
    {"prompt": "When Ann and Bob met,", "corrupted": "When Ann and Eve met,", "answer": " Bob"},
    {"prompt": "two plus two is", "corrupted": "two plus one is", "answer": "four"},
]
CHOICES = [
    {"prompt": "The sky is", "choices": ["blue", "a tree, or so"], "label": 0},
    {"prompt": "Trees are", "choices": ["tall", "wet", "blue"], "label": 2},
]


def written(folder: Path, rows: list[dict[str, object]], suffix: str) -> str:
    """Write rows in a format; formats without lists get them as JSON."""
    path = folder / f"data{suffix}"
    frame = pd.DataFrame(rows)
    plain = frame.map(lambda cell: json.dumps(cell) if isinstance(cell, list) else cell)
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    elif suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix == ".csv":
        plain.to_csv(path, index=False)
    else:  # no quoting, no escaping
        lines = ["\t".join(plain.columns), *("\t".join(map(str, row)) for row in plain.values)]
        path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_prompts_are_found_by_their_columns(suffix: str, tmp_path: Path) -> None:
    data = load_data(written(tmp_path, PROMPTS, suffix))
    assert data.kind == "prompt"
    assert set(data.columns) == {"prompt", "corrupted", "answer"}
    assert data.columns["answer"] == (" Bob", "four")
    assert data.columns["corrupted"][1] == "two plus one is"
    wrong = [{**row, "wrong": "x", "other": "y"} for row in PROMPTS]
    assert "wrong" in load_data(written(tmp_path, wrong, suffix)).columns


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_choices_are_lists(suffix: str, tmp_path: Path) -> None:
    data = load_data(written(tmp_path, CHOICES, suffix))
    assert data.kind == "choice"
    assert as_choices(data.columns["choices"][0]) == ["blue", "a tree, or so"]
    assert data.columns["label"] == ("0", "2")
    assert data.draw(1).columns["label"][0] in {"0", "2"}


def test_columns_of_other_names(tmp_path: Path) -> None:
    rows = [{"question": "a", "options": ["b", "c"], "gold": 1}]
    path = written(tmp_path, rows, ".jsonl")
    columns = parse_columns("prompt=question,choices=options,label=gold")
    assert load_data(path, columns=columns).columns["prompt"] == ("a",)


def test_corrupted_texts_beside_labels(tmp_path: Path) -> None:
    rows = [{"text": "good film", "corrupted": "bad film", "label": "1"}]
    data = load_data(written(tmp_path, rows, ".tsv"))
    assert dict(data.columns) == {
        "text_a": ("good film",), "corrupted": ("bad film",), "label": ("1",)
    }  # fmt: skip
    pairs = [{"premise": "a", "hypothesis": "b", "corrupted_b": "c", "label": "1"}]
    data = load_data(written(tmp_path, pairs, ".csv"))
    assert (data.columns["corrupted"], data.columns["corrupted_b"]) == (("a",), ("c",))


def test_corrupted_sources_beside_targets(tmp_path: Path) -> None:
    rows = [{"source": "ein Hund", "target": "a dog", "corrupted": "eine Katze"}]
    data = load_data(written(tmp_path, rows, ".tsv"))
    assert data.kind == "translation"
    assert set(data.columns) == {"source", "target", "corrupted"}


def test_the_corrupted_text_is_part_of_the_fingerprint() -> None:
    columns = {"prompt": ("a",), "answer": ("b",), "corrupted": ("c",)}
    others = columns | {"corrupted": ("d",)}
    first, second = (TextData("x", "prompt", each) for each in (columns, others))
    assert first.fingerprint != second.fingerprint
    with pytest.raises(ValueError, match="prompt data cannot have columns"):
        TextData("x", "prompt", {"prompt": ("a",)})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"prompt": "a", "choices": ["b"], "label": 0},
            "line 1: .* no list of two or more choices",
        ),
        ({"prompt": "a", "choices": "b, c", "label": 0}, "line 1: 'b, c' is no list of two"),
        ({"prompt": "a", "choices": ["b", ""], "label": 0}, "line 1: .* no list of two or more"),
        ({"prompt": "a", "choices": ["b", {"c": 1}], "label": 0}, "line 1: .*'choices' holds dict"),
        ({"prompt": "a", "choices": ["b", "c"], "label": 2}, "none of the 2 choices; .* 0 to 1"),
        ({"prompt": "a", "choices": ["b", "c"], "label": "b"}, "label 'b' is none of the 2"),
        ({"prompt": " ", "answer": "b"}, "line 1: column 'prompt' is empty"),
        ({"prompt": "a", "answer": "b", "wrong": " b"}, "line 1: the wrong answer is the right"),
        ({"prompt": "a", "answer": ["b"]}, "line 1: column 'answer' holds list"),
        ({"text": "a", "corrupted_b": "b", "label": 1}, "'corrupted_b' but one text only"),
    ],
)
def test_bad_rows_are_refused(row: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match=message):
        load_data(written(tmp_path, [row], ".jsonl"))


@pytest.mark.parametrize(
    "text",
    ["prompt=a,source=b", "prompt=a,choices=b,answer=c", "prompt=a,text=b", "wrong=a,label=b"],
)
def test_roles_that_do_not_go_together_are_refused(text: str) -> None:
    with pytest.raises(HeadtoolError, match="do not go together"):
        parse_columns(text)
