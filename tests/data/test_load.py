"""Data sets as users write them: each format, read back as it was written."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import os
import pickle
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headtool.data import TextData, load_data, parse_columns
from headtool.errors import HeadtoolError

IN_TMP_PATH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
# Everything UTF-8 can hold, with the characters that str.splitlines() would split at.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    | st.sampled_from('\u2028\u0085\x0c\x1c"\\,')
)
CELL = TEXT.map(lambda text: text.translate(str.maketrans("\t\n\r", "   ")))
LABEL = CELL.filter(str.strip)


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


# --- formats ----------------------------------------------------------------------------------


@IN_TMP_PATH
@given(st.lists(st.tuples(CELL, CELL, LABEL), min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_tsv_keeps_every_character(tmp_path, rows, newline):
    lines = ["\t".join(row) for row in [("text_a", "text_b", "label"), *rows]]
    spec = write(tmp_path / "x.tsv", newline.join(lines) + newline)
    columns = load_data(spec).columns
    assert list(zip(*columns.values(), strict=True)) == rows


@IN_TMP_PATH
@given(st.lists(st.tuples(TEXT, TEXT.filter(str.strip)), min_size=1))
def test_csv_reads_what_the_csv_module_wrote(tmp_path, rows):
    path = tmp_path / "x.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    columns = load_data(str(path)).columns
    assert list(zip(*columns.values(), strict=True)) == rows


@IN_TMP_PATH
@given(st.lists(st.tuples(TEXT, TEXT.filter(str.strip)), min_size=1), st.booleans())
def test_jsonl_reads_what_the_json_module_wrote(tmp_path, rows, ascii_only):
    lines = [json.dumps({"text": t, "label": y}, ensure_ascii=ascii_only) for t, y in rows]
    columns = load_data(write(tmp_path / "x.jsonl", "\n\n".join(lines))).columns
    assert list(zip(*columns.values(), strict=True)) == rows


@IN_TMP_PATH
@given(st.lists(st.tuples(TEXT, st.integers(-5, 5)), min_size=1))
def test_parquet_reads_what_pandas_wrote(tmp_path, rows):
    pd.DataFrame(rows, columns=["text", "label"]).to_parquet(tmp_path / "x.parquet")
    columns = load_data(str(tmp_path / "x.parquet")).columns
    assert list(zip(*columns.values(), strict=True)) == [(t, str(y)) for t, y in rows]


def test_quotes_in_tsv_are_characters(tmp_path):
    spec = write(tmp_path / "x.tsv", 'text\tlabel\n"half open\t0\nit\'s ""quoted""\t1\n')
    assert load_data(spec).columns["text_a"] == ('"half open', 'it\'s ""quoted""')


def test_csv_counts_lines_of_the_file(tmp_path):
    spec = write(tmp_path / "x.csv", 'text,label\n"one\ntwo",1\n\nthree,\n')
    with pytest.raises(HeadtoolError, match=r"x\.csv', line 5: the label in column 'label'"):
        load_data(spec)


@pytest.mark.parametrize("suffix", [".tsv", ".TSV"])
def test_byte_order_mark_and_crlf_and_blank_lines_at_the_end(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    spec = write(path, b"\xef\xbb\xbftext\tlabel\r\nfine\t1\r\n\r\n\n")
    assert load_data(spec).columns == {"text_a": ("fine",), "label": ("1",)}


def test_numbers_become_strings(tmp_path):
    spec = write(tmp_path / "x.jsonl", '{"text": 5, "label": 0.5}\n{"label": 1, "text": "a"}\n')
    assert load_data(spec).columns == {"text_a": ("5", "a"), "label": ("0.5", "1")}


def test_parquet_uses_the_label_names_that_datasets_stored(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    feature = {"names": ["no", "yes"], "_type": "ClassLabel"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"label": feature}}})}
    table = pa.table({"text": ["a", "b", "c"], "label": [1, -1, 0]})
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "x.parquet")
    columns = load_data(str(tmp_path / "x.parquet")).columns
    assert columns == {"text_a": ("a", "c"), "label": ("yes", "no")}


def test_translation_files_stay_aligned_over_blank_lines(tmp_path):
    write(tmp_path / "t.de", "eins\n\nzwei \u2028 drei\n")
    write(tmp_path / "t.en", "one\r\nmissing\r\ntwo three")
    data = load_data(f"{tmp_path}/t.de,{tmp_path}/t.en")
    assert data.kind == "translation"
    assert data.columns == {
        "source": ("eins", "", "zwei \u2028 drei"),
        "target": ("one", "missing", "two three"),
    }


def test_a_text_file_is_one_document(tmp_path):
    data = load_data(write(tmp_path / "book.txt", "one\r\n\r\ntwo\n"))
    assert (data.kind, data.columns) == ("text", {"text": ("one\n\ntwo\n",)})


def test_a_comma_in_the_name_of_one_file_is_no_pair(tmp_path):
    spec = write(tmp_path / "a,b.tsv", "text\tlabel\nx\t1\n")
    assert load_data(spec).kind == "classification"


def test_a_home_folder_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "x.txt", "text")
    assert load_data("~/x.txt").name == "x"


@pytest.mark.parametrize(
    ("spec", "n_columns"),
    [("nli/matched", 3), ("nli/mismatched", 3), ("mt/test", 2), ("mt/noisy", 2)],
)
def test_builtin_sets(spec, n_columns):
    data = load_data(f"builtin:{spec}", limit=50)
    assert (len(data), len(data.columns), data.name) == (50, n_columns, spec)
    assert all(value.strip() for values in data.columns.values() for value in values)


# --- columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ("text label", "text"),
        ("label sentence", "sentence"),
        ("text_a label", "text_a"),
        ("text text_a text_b label", "text_a text_b"),
        ("index sentence1 sentence2 label", "sentence1 sentence2"),
        ("promptID premise hypothesis label1 gold_label", "premise hypothesis"),
        ("index question sentence label", "question sentence"),
        ("id qid1 qid2 question1 question2 is_duplicate", "question1 question2"),
        ("index genre sentence1 sentence2 score", "sentence1 sentence2"),
        ("similarity sentence1 sentence2", "sentence1 sentence2"),
        ("Quality #1_ID #1_String #2_String", "#1_String #2_String"),
    ],
)
def test_columns_of_glue_are_found(tmp_path, header, texts):
    labels = {"label", "gold_label", "is_duplicate", "Quality", "score", "similarity"}
    names = [name.replace("_String", " String") for name in header.split()]
    row = ["LABEL" if name in labels else f"<{name}>" for name in names]
    data = load_data(write(tmp_path / "x.tsv", "\t".join(names) + "\n" + "\t".join(row) + "\n"))
    expected = [(f"<{name.replace('_String', ' String')}>",) for name in texts.split()]
    assert list(data.columns.values()) == [*expected, ("LABEL",)]


def test_columns_named_by_the_user_win(tmp_path):
    spec = write(tmp_path / "x.csv", "text,label,premise,claim,gold\nt,0,p,c,1\n")
    mapping = parse_columns("text_a=premise, text_b = claim,label=gold")
    assert load_data(spec, columns=mapping).columns == {
        "text_a": ("p",),
        "text_b": ("c",),
        "label": ("1",),
    }
    assert load_data(spec, columns={"text": "claim"}).columns == {"text_a": ("c",), "label": ("0",)}


def test_a_named_text_without_label_gives_documents(tmp_path):
    spec = write(tmp_path / "x.jsonl", '{"text": "one"}\n{"text": "two"}\n')
    data = load_data(spec, columns={"text": "text"})
    assert (data.kind, data.columns) == ("text", {"text": ("one", "two")})


def test_a_table_with_source_and_target(tmp_path):
    spec = write(tmp_path / "x.tsv", "de\ten\nja\tyes\n")
    data = load_data(spec, columns=parse_columns("source=de,target=en"))
    assert (data.kind, data.columns) == ("translation", {"source": ("ja",), "target": ("yes",)})


def test_rows_marked_as_unlabelled_are_left_out_aloud(tmp_path, caplog):
    spec = write(tmp_path / "x.tsv", "sentence\tgold_label\na\tneutral\nb\t-\nc\tneutral\n")
    with caplog.at_level(logging.WARNING, logger="headtool"):
        data = load_data(spec)
    assert data.columns["text_a"] == ("a", "c")
    assert "left out 1 of 3 rows" in caplog.text


def test_a_dash_is_a_label_like_any_other_elsewhere(tmp_path):
    spec = write(tmp_path / "x.tsv", "text\tlabel\na\t+\nb\t-\n")
    assert load_data(spec).columns["label"] == ("+", "-")


# --- the data set itself ----------------------------------------------------------------------


def example(spec="d/x.tsv", texts=("a", "b", "c"), labels=("0", "1", "0")):
    return TextData(spec, "classification", {"text_a": tuple(texts), "label": tuple(labels)})


def test_the_fingerprint_is_of_the_contents_alone():
    data = example()
    assert data.fingerprint == example(spec="elsewhere.csv").fingerprint
    assert len(data.fingerprint) == 64
    others = [
        example(texts=("a", "b", "d")),
        example(texts=("b", "a", "c")),
        example(labels=("1", "1", "0")),
        example(texts=("ab", "", "c")),
        data.head(2),
        TextData("x", "translation", {"source": ("a", "b", "c"), "target": ("0", "1", "0")}),
        TextData("x", "text", {"text": ("a", "b", "c")}),
        TextData("x", "text", {"text": ("a", "b", "c")}, pretokenized=True),
    ]
    assert len({data.fingerprint, *(other.fingerprint for other in others)}) == 1 + len(others)


def test_the_fingerprint_does_not_change_between_versions():
    content = b"classification pretokenized=False\nlabel 3\n1:01:11:0text_a 3\n1:a1:b1:c"
    assert example().fingerprint == hashlib.sha256(content).hexdigest()


def test_head_and_take():
    data = example()
    assert data.head(2).columns == {"text_a": ("a", "b"), "label": ("0", "1")}
    assert data.head(99) is data
    taken = data.take([2, 0, 2])
    assert taken.columns == {"text_a": ("c", "a", "c"), "label": ("0", "0", "0")}
    assert (taken.spec, taken.kind) == (data.spec, data.kind)
    with pytest.raises(IndexError):
        data.take([3])
    with pytest.raises(ValueError, match="above zero"):
        data.take([])


def test_limit(tmp_path):
    spec = write(tmp_path / "x.tsv", "text\tlabel\na\t0\nb\t1\n")
    assert [len(load_data(spec, limit=n)) for n in (1, 2, 3)] == [1, 2, 2]


def test_it_survives_pickling():
    data = example()
    assert pickle.loads(pickle.dumps(data)) == data


@pytest.mark.parametrize(
    "columns",
    [{"text": ("a",)}, {"text_a": ("a",), "label": ()}, {"text_a": (), "label": ()}],
)
def test_columns_that_do_not_fit_are_a_bug(columns):
    with pytest.raises(ValueError, match="columns"):
        TextData("x", "classification", columns)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("/data/sst2/dev.tsv", "sst2/dev"),
        ("dev.tsv", "dev"),
        ("../dev.v2.tsv", "dev.v2"),
        ("/dev.tsv", "dev"),
        ("a/b/test.de,a/b/test.en", "b/test"),
        ("builtin:nli/matched", "nli/matched"),
        ("fairseq-bin:/m/data-bin/test", "data-bin/test"),
        ("hub:glue/sst2:validation", "sst2/validation"),
        ("hub:imdb:test", "imdb/test"),
    ],
)
def test_names(spec, name):
    assert TextData(spec, "text", {"text": ("a",)}).name == name


# --- real files -------------------------------------------------------------------------------

REAL = {
    "sst2/dev.tsv": (872, {"0", "1"}),
    "cola/dev_out_of_domain.tsv": (516, {"0", "1"}),
    "mnli/dev_matched.tsv": (9815, {"entailment", "neutral", "contradiction"}),
    "rte/dev.tsv": (277, {"entailment", "not_entailment"}),
    "reviews/cr.tsv": (3771, {"0", "1"}),
}


@pytest.mark.parametrize("file", REAL)
def test_real_classification_sets(shared, file):
    rows, labels = REAL[file]
    data = load_data(str(Path(shared) / "data" / file))
    assert (len(data), set(data.columns["label"])) == (rows, labels)
    reference = pd.read_csv(
        Path(shared) / "data" / file, sep="\t", quoting=csv.QUOTE_NONE, dtype=str, na_filter=False
    )
    assert data.columns == {
        {"text": "text_a"}.get(name, name): tuple(reference[name]) for name in reference.columns
    }


def test_real_translation_and_text(shared):
    folder = Path(shared) / "data"
    files = [folder / "tatoeba-de-en" / f"test.{language}" for language in ("de", "en")]
    data = load_data(",".join(map(os.fspath, files)))
    expected = [tuple(file.read_text(encoding="utf-8").rstrip("\n").split("\n")) for file in files]
    assert list(data.columns.values()) == expected
    text = load_data(str(folder / "lm" / "wikitext2.valid.txt"))
    assert len(text) == 1
    assert "<unk>" in text.columns["text"][0]
