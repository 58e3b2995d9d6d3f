"""``headtool roles``: what it prints and writes, and what it refuses in one line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

from headtool.analysis.comparison import TABLES
from headtool.analysis.overlap import kept_frame
from headtool.heads import Head
from headtool.results.runs import read_run, write_run
from headtool.schema import TABLES as SCHEMA

from .conftest import Run

TREES = [
    [("a", 2, "det"), ("film", 0, "root"), ("plot", 2, "nmod"), (".", 2, "punct")],
    [("good", 3, "amod"), ("dull", 3, "amod"), ("plot", 0, "root"), (".", 3, "punct")],
    [("a", 3, "det"), ("bad", 3, "amod"), ("film", 0, "root"), ("b", 3, "nmod")],
]
LONG = [("a", 0, "root"), *[("b", 1, "dep")] * 30]


def conllu(*trees: list[tuple[str, int, str]]) -> str:
    return "\n".join(
        "".join(
            f"{number}\t{form}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n"
            for number, (form, head, relation) in enumerate(tree, start=1)
        )
        for tree in trees
    )


@pytest.fixture
def treebank(workplace: Path) -> str:
    (workplace / "dev.conllu").write_text(conllu(*TREES * 8))
    return "dev.conllu"


def test_json_has_a_row_per_head_and_role(headtool: Run, bert: Path, treebank: str) -> None:
    arguments = ("roles", "--model", bert, "--treebank", treebank, "--format", "json")
    done = headtool(*arguments, "--least", 16)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["schema"] == "headtool/roles/1"
    rows = pd.DataFrame(document["roles"])
    assert tuple(rows.columns) == SCHEMA["roles"].names
    once = rows[rows["role"] != "syntactic"]
    assert once["role"].value_counts().to_dict() == dict.fromkeys(
        ["positional", "rare-token", "separator", "punctuation", "first-token"], 8
    )
    syntactic = rows[rows["role"] == "syntactic"]
    assert {
        "amod dependent->head": 24,
        "amod head->dependent": 16,
        "punct dependent->head": 16,
    }.items() <= dict(zip(syntactic["detail"], syntactic["n"], strict=True)).items()
    tested = rows.dropna(subset=["share"])
    assert (tested["low"] <= tested["share"]).all()
    assert (tested["share"] <= tested["high"]).all()
    source = document["provenance"]
    assert source["treebank"]["sentences"] == 24
    assert source["options"]["thresholds"]["positional"] == 0.9
    assert source["model"]["sha256"]
    assert len(source["treebank"]["sha256"]) == 64


@pytest.mark.slow
def test_shares_do_not_depend_on_batches(headtool: Run, bert: Path, treebank: str) -> None:
    arguments = ("roles", "--model", bert, "--treebank", treebank, "--format", "csv")
    large, small = (
        pd.read_csv(io.StringIO(headtool(*arguments, "--batch-tokens", size).out))
        for size in (4096, 9)
    )
    pd.testing.assert_frame_equal(large, small, rtol=1e-9)


def test_options_reach_the_result(headtool: Run, llama: Path, treebank: str) -> None:
    done = headtool(
        *("roles", "--model", llama, "--treebank", treebank, "--format", "json", "--common", 2),
        *("--role", "previous-token,rare-token,syntactic", "--threshold", "rare-token=0.01"),
        *("--least", 8, "--correction", "bh", "--alpha", "0.2", "--limit", 20),
    )
    assert done.code == 0, done.err
    document = json.loads(done.out)
    options = document["provenance"]["options"]
    assert options["correction"] == "bh"
    assert document["provenance"]["data"]["examples"] == 20
    rows = pd.DataFrame(document["roles"])
    assert set(rows["role"]) == {"syntactic", "rare-token", "previous-token"}
    assert (rows.loc[rows["role"] == "rare-token", "threshold"] == 0.01).all()
    assert rows.loc[rows["role"] == "syntactic", "n"].min() >= 8
    assert set(rows["kind"]) == {"dec-self"}


def test_a_table_for_readers(headtool: Run, llama: Path, treebank: str) -> None:
    done = headtool("roles", "--model", llama, "--treebank", treebank, "--least", 8)
    assert done.code == 0, done.err
    assert "24 sentences" in done.out
    assert "previous-token" in done.out
    assert "induction" in done.out
    assert "the best head of each relation" in done.out
    assert "none is outside the 500 most frequent" in done.err
    assert "sequences of 9 random tokens, said twice" in done.err


@pytest.mark.slow
def test_data_sets_of_every_task(
    headtool: Run, bert: Path, bart: Path, gpt2: Path, reviews: Path, book: Path, workplace: Path
) -> None:
    (workplace / "a.de").write_text("a b c\nd e f g\n")
    (workplace / "a.en").write_text("c b\nd e f\n")
    for model, data, kinds in (
        (bert, reviews, {"enc-self"}),
        (gpt2, book, {"dec-self"}),
        (bart, "a.de,a.en", {"enc-self", "dec-self"}),
    ):
        done = headtool("roles", "--model", model, "--data", data, "--format", "json")
        assert done.code == 0, done.err
        rows = pd.DataFrame(json.loads(done.out)["roles"])
        assert set(rows["kind"]) == kinds
        assert "syntactic" not in set(rows["role"])
        assert ("induction" in set(rows["role"])) == (model == gpt2)


def test_long_sentences_and_lost_words_are_counted(
    headtool: Run, bert: Path, workplace: Path
) -> None:
    odd = [("film", 0, "root"), ("\xa0", 1, "dep"), ("a", 1, "det")]
    (workplace / "dev.conllu").write_text(conllu(*TREES, LONG, odd))
    done = headtool("roles", "--model", bert, "--treebank", "dev.conllu", "--format", "json")
    assert done.code == 0, done.err
    assert "1 of 5 sentences left out: longer than the 20 tokens" in done.err
    source = json.loads(done.out)["provenance"]
    assert source["treebank"]["too_long"] == 1
    assert source["data"]["examples"] == 4
    assert "words without a token, whose dependencies do not count: 1" in done.err
    assert source["treebank"]["words_without_token"] == 1


# -- runs ---------------------------------------------------------------------------------------


def saved_comparison(folder: Path, sha256: str) -> Path:
    """A comparison whose methods keep half of the heads of a model with these weights."""
    heads = [Head("enc-self", layer, index) for layer in (0, 1) for index in range(4)]
    first = pd.Series([True] * 4 + [False] * 4).to_numpy()
    kept = kept_frame({"gradient": {4: first}, "confidence": {4: ~first}}, heads)
    write_run(
        folder,
        command="headtool compare",
        provenance={"compare": {"model": {"spec": "theirs", "sha256": sha256}}},
        tables={name: kept if name == "kept" else SCHEMA[name].empty() for name in TABLES},
    )
    return folder


@pytest.mark.slow
def test_a_run_is_written_shown_again_and_joined_with_a_comparison(
    headtool: Run, bert: Path, treebank: str, workplace: Path
) -> None:
    done = headtool("roles", "--model", bert, "--treebank", treebank, "--out", "run")
    assert done.code == 0, done.err
    run = read_run(workplace / "run")
    assert set(run.manifest["tables"]) == {"roles", "sites"}
    sha256 = run.manifest["provenance"]["roles"]["model"]["sha256"]
    again = headtool("roles", "run")
    assert again.out == done.out
    saved_comparison(workplace / "compared", sha256)
    joined = headtool("roles", "run", "--kept", "compared", "--format", "csv")
    assert joined.code == 0, joined.err
    assert joined.out.splitlines()[0] == ",".join(SCHEMA["role_survival"].names)
    shown = headtool("roles", "run", "--kept", "compared")
    assert "surviving roles" in shown.out
    assert "50% removed" in shown.out
    at_once = headtool(
        *("roles", "--model", bert, "--treebank", treebank, "--kept", "compared", "--out", "both"),
        *("--format", "json"),
    )
    assert at_once.code == 0, at_once.err
    survival = pd.DataFrame(json.loads(at_once.out)["survival"])
    assert survival["method"].unique().tolist() == ["gradient", "confidence"]
    by_role = survival.groupby("role")["kept"].sum()
    assert (by_role == survival.groupby("role")["heads"].first()).all()
    pd.testing.assert_frame_equal(read_run(workplace / "both").table("role_survival"), survival)


def test_a_comparison_of_another_model_is_refused(
    headtool: Run, bert: Path, treebank: str, workplace: Path
) -> None:
    saved_comparison(workplace / "compared", "0" * 64)
    done = headtool("roles", "--model", bert, "--treebank", treebank, "--kept", "compared")
    assert done.code == 2
    assert "compared is about another model" in done.err
    assert "methods were compared on theirs" in done.err


# -- bad input ----------------------------------------------------------------------------------

COMMANDS = [
    ("--treebank broken.conllu", ["'broken.conllu', line 2", "3 columns instead of 10"]),
    ("--treebank none.conllu", ["no such file", "none.conllu"]),
    ("--treebank long.conllu", ["no sentence that", "1 are longer than its 20 tokens"]),
    ("--treebank invisible.conllu", ["no dependency", "1 words have no token"]),
    ("--treebank foreign.conllu", ["unknown to", "treebank of its language"]),
    ("--treebank dev.conllu --data dev.conllu", ["exclude each other"]),
    ("--treebank dev.conllu --columns text=a", ["--columns is for --data"]),
    ("--treebank dev.conllu --limit 0", ["--limit must be at least 1"]),
    ("--treebank dev.conllu --kind cross", ["no cross attention; it has enc-self"]),
    ("--treebank dev.conllu --role positionl", ["'positionl'", "did you mean 'positional'"]),
    ("--treebank dev.conllu --role induction", ["only a decoder", "--role"]),
    ("--treebank dev.conllu --role ,", ["no role in ','"]),
    ("--treebank dev.conllu --threshold positional", ["ROLE=SHARE", "'positional'"]),
    ("--treebank dev.conllu --threshold positional=high", ["'positional=high'"]),
    ("--treebank dev.conllu --threshold positional=1.5", ["positional", "(0, 1]", "1.5"]),
    ("--treebank dev.conllu --threshold pos=0.5", ["unknown role 'pos'"]),
    ("--treebank dev.conllu --threshold a=1,a=0.5", ["a twice"]),
    ("--treebank dev.conllu --correction westfall-young", ["holm, bh, by or none"]),
    ("--treebank dev.conllu --correction holmes", ["did you mean 'holm'"]),
    ("--treebank dev.conllu --alpha 0", ["--alpha must be between 0 and 1, got 0"]),
    ("--treebank dev.conllu --least 0", ["--least must be at least 1"]),
    ("--treebank dev.conllu --common -1", ["--common must be at least 0"]),
    ("--treebank dev.conllu --frequencies counts", ["'counts', line 1", "TOKEN COUNT"]),
    ("--treebank dev.conllu --role positional --frequencies counts", ["rare-token", "--role"]),
    ("--treebank dev.conllu --force", ["--force replaces a run at --out"]),
    ("--treebank dev.conllu --kept dev.conllu", ["dev.conllu"]),
    ("--data dev.conllu", ["dev.conllu is a treebank; give it with --treebank"]),
]


@pytest.mark.parametrize(("arguments", "parts"), COMMANDS)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: str, parts: list[str], headtool: Run, bert: Path, treebank: str, workplace: Path
) -> None:
    (workplace / "broken.conllu").write_text(conllu(TREES[0][:1]) + "2\tfilm\t_\n")
    (workplace / "long.conllu").write_text(conllu(LONG))
    (workplace / "invisible.conllu").write_text(conllu([("\xa0", 2, "dep"), ("a", 0, "root")]))
    (workplace / "foreign.conllu").write_text(conllu([("x1", 0, "root"), *[("yy", 1, "d")] * 9]))
    (workplace / "counts").write_text("the many\n")
    before = sorted(path.name for path in workplace.iterdir())
    out = () if "--force" in arguments else ("--out", "run")
    done = headtool("roles", "--model", bert, *arguments.split(), *out)
    assert done.code == 2, done.out
    assert done.out == ""
    line = done.err.strip()
    assert "\n" not in line
    assert line.startswith("error: ")
    assert all(part in line for part in parts), line
    assert sorted(path.name for path in workplace.iterdir()) == before


def test_a_decoder_has_no_cross_roles(
    headtool: Run, llama: Path, bart: Path, treebank: str
) -> None:
    done = headtool("roles", "--model", llama, "--treebank", treebank, "--kind", "cross")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "the model has no cross attention; it has dec-self" in done.err
    done = headtool("roles", "--model", bart, "--treebank", treebank, "--kind", "cross")
    assert done.code == 2
    assert "roles are those of self-attention" in done.err


def test_options_that_a_finished_run_cannot_take(
    headtool: Run, bert: Path, treebank: str, workplace: Path
) -> None:
    made = headtool("roles", "--model", bert, "--treebank", treebank, "--out", "run")
    assert made.code == 0, made.err
    saved_comparison(workplace / "compared", "0" * 64)
    for arguments, part in (
        ("run --common 3", "--common needs the model"),
        ("run --treebank dev.conllu", "--treebank needs the model"),
        ("run --out other", "--out needs the model"),
        ("dev.conllu", "dev.conllu"),
        ("compared", "compared is a run of compare and holds no roles"),
        ("run --kept run", "run holds no comparison"),
    ):
        done = headtool("roles", *arguments.split())
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert part in done.err
