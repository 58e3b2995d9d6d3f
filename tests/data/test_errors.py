"""Faulty data: one line that names the place and the remedy, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from headtool.data import load_data, parse_columns
from headtool.errors import HeadtoolError

GOOD = b"text\tlabel\nfine\t1\nbad\t0\n"

# file name, content, what the message must contain
FILES = [
    ("missing.tsv", None, ["no such file", "missing.tsv", "check the path"]),
    ("empty.tsv", b"", ["is empty", "at least one example"]),
    ("bom.tsv", b"\xef\xbb\xbf", ["is empty"]),
    ("header.tsv", b"text\tlabel\n", ["no rows below its header"]),
    ("blank.tsv", b"\n\n", ["no rows below its header"]),
    ("binary.tsv", b"text\tlabel\na\x00b\t1\n", ["line 2", "NUL byte", "UTF-8"]),
    ("utf16.tsv", "text\tlabel\na\t1\n".encode("utf-16"), ["NUL byte", "UTF-16"]),
    ("latin.tsv", b"text\tlabel\nok\t0\ncaf\xe9\t1\n", ["line 3", "0xe9", "iconv"]),
    ("latin-bom.tsv", b"\xef\xbb\xbftext\tlabel\n\xe9\t1\n", ["line 2", "0xe9"]),
    ("short.tsv", GOOD + b"only text\n", ["line 4", "expected 2 columns", "found 1", "tabs"]),
    ("long.tsv", GOOD + b"a\tb\t1\n" + GOOD, ["line 4", "expected 2 columns", "found 3"]),
    ("gap.tsv", GOOD + b"\nfine\t1\n", ["line 4", "expected 2 columns", "found 1"]),
    ("label.tsv", GOOD + b"no label\t \n", ["line 4", "label in column 'label' is empty"]),
    ("names.tsv", b"a\tb\nfine\t1\n", ["no column 'text'", "'a', 'b'", "`columns`, like text_a="]),
    ("nolabel.tsv", b"text\tb\nfine\t1\n", ["no column 'label'", "'text', 'b'", "label=NAME"]),
    ("twice.tsv", b"text\ttext\tlabel\na\tb\t1\n", ["2 columns 'text'", "rename"]),
    ("agree.tsv", b"sentence\tgold_label\na\t-\n", ["has no labels", "choose a split"]),
    ("quote.csv", b'text,label\nok,1\n"open,0\nmore,1\n', ["line 3", "not valid CSV"]),
    (
        "huge.csv",
        b'text,label\n"' + b"x" * 140_000 + b'",1\n',
        ["line 2", "larger", ".jsonl"],
    ),
    (
        "ragged.csv",
        b'text,label\n"a\nb",1\nc,d,1\n',
        ["line 4", "expected 2 columns", "found 3", "commas"],
    ),
    (
        "broken.jsonl",
        b'{"text": "a", "label": 1}\n{"text": \n',
        ["line 2, column 10", "not valid JSON"],
    ),
    ("deep.jsonl", b"[" * 100_000, ["line 1", "not valid JSON"]),
    ("list.jsonl", b'["a", 1]\n', ["line 1", "not a JSON object", "one object per line"]),
    ("null.jsonl", b'{"text": null, "label": 1}\n', ["line 1", "'text' holds null"]),
    ("nest.jsonl", b'{"text": ["a"], "label": 1}\n', ["line 1", "'text' holds list"]),
    ("bool.jsonl", b'{"text": "a", "label": true}\n', ["line 1", "'label' holds bool"]),
    (
        "key.jsonl",
        b'{"text": "a", "label": 1}\n\n{"text": "b", "lable": 1}\n',
        ["line 3", "no key 'label'", "'text', 'lable'"],
    ),
    ("surrogate.jsonl", b'{"text": "\\ud800", "label": 1}\n', ["line 1", "surrogate"]),
    ("blank.jsonl", b"\n \n", ["has no rows"]),
    ("fake.parquet", b"PAR1 not really PAR1", ["not a readable Parquet file"]),
    ("empty.parquet", b"", ["is empty"]),
    ("white.txt", b" \n\t\n", ["only white space"]),
    ("empty.txt", b"", ["is empty"]),
    ("data.xlsx", b"PK\x03\x04", ["unknown suffix '.xlsx'", ".tsv, .csv, .jsonl, .parquet"]),
    ("data", b"text", ["unknown suffix ''", ".txt"]),
]


def message_of(spec: str, **options) -> str:
    with pytest.raises(HeadtoolError) as caught:
        load_data(spec, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


@pytest.mark.parametrize(("name", "content", "parts"), FILES, ids=[case[0] for case in FILES])
def test_faulty_files(tmp_path, name, content, parts):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    message = message_of(str(path))
    for part in [str(path), *parts]:
        assert part in message


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("nowhere", ["no data set 'nowhere'", "builtin:nli/matched", "hub:NAME"]),
        ("builtin:nli/matchd", ["'nli/matchd'", "did you mean 'nli/matched'"]),
        ("builtin:mt/train", ["unknown built-in data set 'mt/train'", "mt/noisy"]),
        ("bultin:nli/matched", ["no data set 'bultin:nli/matched'", "builtin:nli/matched"]),
        ("hub:glue/sst2", ["'hub:glue/sst2' lacks its split", "hub:glue/sst2:validation"]),
        ("a.de,b.en", ["no such file", "'a.de'"]),
        ("a.de,b.en,c.fr", ["names 3 files", "needs two"]),
        ("x" * 5000 + ".tsv", ["cannot read", "too long"]),
    ],
)
def test_specs_that_name_nothing(spec, parts):
    message = message_of(spec)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("name", ["folder", "folder.tsv", "folder.txt"])
def test_a_folder_is_no_file(tmp_path, name):
    (tmp_path / name).mkdir()
    message = message_of(str(tmp_path / name))
    assert "is a folder; name" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(GOOD)
    path.chmod(0)
    assert "Permission denied" in message_of(str(path))


@pytest.mark.parametrize("cut", [10, -10])
def test_a_parquet_file_cut_short(tmp_path, cut):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"text": ["a"] * 50, "label": [1] * 50}).to_parquet(path)
    path.write_bytes(path.read_bytes()[:cut])
    assert "not a readable Parquet file" in message_of(str(path))


def test_a_parquet_file_with_damaged_pages(tmp_path):
    path = tmp_path / "x.parquet"
    frame = pd.DataFrame({"text": [f"sentence {i}" for i in range(500)], "label": [1] * 500})
    frame.to_parquet(path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    assert "not a readable Parquet file" in message_of(str(path))


@pytest.mark.parametrize(
    ("frame", "part"),
    [
        ({"text": ["a", None], "label": [0, 1]}, "row 2: column 'text' holds null"),
        ({"text": ["a", "b"], "label": [[0], [1]]}, "row 1: column 'label' holds list"),
        ({"text": [], "label": []}, "has no rows"),
    ],
)
def test_parquet_values_that_are_no_text(tmp_path, frame, part):
    pd.DataFrame(frame).to_parquet(tmp_path / "x.parquet")
    assert part in message_of(str(tmp_path / "x.parquet"))


def test_unequal_translation_files_give_both_counts(tmp_path):
    (tmp_path / "t.de").write_text("eins\nzwei\n")
    (tmp_path / "t.en").write_text("one\ntwo\nthree\n")
    message = message_of(f"{tmp_path}/t.de,{tmp_path}/t.en")
    assert "has 2 lines" in message
    assert "has 3" in message


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one(tmp_path, limit):
    message = message_of(str(tmp_path / "not-even-there.tsv"), limit=limit)
    assert message == f"`limit` must be at least 1, got {limit}"


@pytest.mark.parametrize(
    ("columns", "part"),
    [
        ({"text": "review"}, "no column 'review', only 'text', 'label'"),
        ({"label": "gold"}, "no column 'gold'"),
        ({"text": "text", "text_b": "other"}, "no column 'other'"),
        ({"lable": "label"}, "unknown column role 'lable'; did you mean 'label'?"),
        ({"text": "text", "text_a": "text"}, "mean the same column"),
        ({"text_b": "text"}, "'text_b' needs 'text_a'"),
        ({"source": "text"}, "translation needs source=NAME,target=NAME alone"),
        ({"source": "text", "target": "text", "label": "label"}, "do not go together"),
    ],
)
def test_columns_that_do_not_fit(tmp_path, columns, part):
    path = tmp_path / "x.tsv"
    path.write_bytes(GOOD)
    assert part in message_of(str(path), columns=columns)


@pytest.mark.parametrize("spec", ["builtin:mt/test", "fairseq-bin:d/test", "a.de,b.en", "x.txt"])
def test_columns_where_there_are_none(spec):
    assert "`columns` applies to tables" in message_of(spec, columns={"text": "a"})


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("text", "'text' is not role=column"),
        ("text=", "is not role=column"),
        ("=a", "is not role=column"),
        ("", "is not role=column"),
        ("text=a,,label=b", "'' is not role=column"),
        ("text=a,text=b", "names 'text' twice"),
        ("txt=a", "unknown column role 'txt'; did you mean 'text'?"),
    ],
)
def test_columns_that_do_not_parse(text, part):
    with pytest.raises(HeadtoolError) as caught:
        parse_columns(text)
    assert part in str(caught.value)


def test_a_header_of_sentences_is_cut_short(tmp_path):
    """CoLA as GLUE ships it has no header: its first line must not flood the message."""
    path = tmp_path / "x.tsv"
    path.write_text("\t".join(["gj04", "1", "", "word " * 200]) + "\n" + "a\tb\tc\td\n")
    message = message_of(str(path))
    assert "no column 'text'" in message
    assert len(message) < 400 + len(str(Path(tmp_path)))
