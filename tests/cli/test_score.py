"""``headtool score``: what it prints and writes, and that each option has an effect."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headtool.data import load_data
from headtool.methods import get_method
from headtool.methods.gradient import Gradient
from headtool.models import load_model
from headtool.models.huggingface.model import HuggingFaceModel
from headtool.results.runs import read_run

FIELDS = {"method", "kind", "layer", "head", "score", "stderr", "rank"}
ALL = "gradient,ablation,gates,confidence"
FAST = ("--set", "gates.steps=3")


@pytest.fixture
def score(headtool, bert, reviews):
    """Run ``headtool score --format json`` on the classifier, or on another model."""

    def run(*arguments: object, model: Path = bert, data: Path = reviews) -> dict[str, Any]:
        done = headtool(
            *("score", "--model", model, "--data", data, "--format", "json"), *arguments
        )
        assert done.code == 0, done.err
        return json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return run


def scores(document: dict[str, Any]) -> list[float]:
    return [row["score"] for row in document["scores"]]


# -- what is printed ----------------------------------------------------------------------------


def test_json_is_what_the_library_computes(score, bert, reviews) -> None:
    document = score("--method", "gradient,ablation")
    assert document["schema"] == "headtool/scores/1"
    model = load_model(str(bert), device="cpu")
    examples = model.encode(load_data(str(reviews)))
    for name in ("gradient", "ablation"):
        frame = get_method(name)().score(model, examples).frame
        rows = [row for row in document["scores"] if row["method"] == name]
        assert len(rows) == 8
        for field in ("kind", "layer", "head", "score", "stderr", "rank"):
            assert [row[field] for row in rows] == frame[field].tolist(), field


def test_rows_have_their_fields_and_null_where_nothing_is_computed(score) -> None:
    document = score("--method", ALL, *FAST)
    for row in document["scores"]:
        assert set(row) >= FIELDS
        assert row["kind"] == "enc-self"
        assert (row["stderr"] is None) == (row["method"] == "gates")
    for name in ALL.split(","):
        ranks = [row["rank"] for row in document["scores"] if row["method"] == name]
        assert sorted(ranks) == list(range(1, 9))
        by_rank = sorted(
            (row for row in document["scores"] if row["method"] == name),
            key=lambda row: row["rank"],
        )
        assert scores({"scores": by_rank}) == sorted(scores({"scores": by_rank}), reverse=True)


def test_provenance_says_what_made_the_numbers(score, bert, reviews) -> None:
    document = score("--method", "gates", "--seed", 5, "--limit", 6, *FAST)
    found = document["provenance"]["gates"]
    assert found["method"] == "gates"
    assert found["options"]["steps"] == 3
    assert found["options"]["holdout"] == 0.2
    assert found["seed"] == 5
    assert found["metric"] == "accuracy"
    model = {
        "spec": str(bert),
        "library": "transformers",
        "class": "BertForSequenceClassification",
        "task": "classification",
        "heads": "enc-self 2 x 4",
        "dtype": "float32",
        "device": "cpu",
    }
    assert found["model"] == found["model"] | model
    data = {"spec": str(reviews), "examples": 6, "truncated": 0, "batch_tokens": 4096}
    assert found["data"] == found["data"] | data
    assert len(found["model"]["sha256"]) == len(found["data"]["sha256"]) == 64
    assert {"python", "headtool", "torch", "transformers", "numpy"} <= set(found["versions"])


def test_csv_says_the_same_as_json(headtool, score, bert, reviews) -> None:
    document = score("--method", "gradient,ablation")
    done = headtool(
        *("score", "--model", bert, "--data", reviews, "--method", "gradient,ablation"),
        *("--format", "csv"),
    )
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["method"], row["head"], float(row["score"])) for row in rows] == [
        (row["method"], str(row["head"]), row["score"]) for row in document["scores"]
    ]
    assert done.err == ""


def test_table_shows_each_method(headtool, bert, reviews) -> None:
    done = headtool("score", "--model", bert, "--data", reviews, "--method", ALL, *FAST)
    assert done.code == 0
    assert done.err == ""
    for name in ALL.split(","):
        assert f"\n{name}  {bert} on {reviews}, 8 examples, " in f"\n{done.out}"
    assert done.out.count("enc-self (rows: layers, columns: heads)") == 4
    assert done.out.count("\nmost important") == 4
    assert "kept heads, original weights" in done.out


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/x]", ":smile:", "a\x1b[31mb"])
def test_names_are_shown_as_they_are(headtool, bert, workplace, name: str) -> None:
    shutil.copytree(bert, workplace / name)
    data = workplace / f"{name}.tsv".replace("/", "")
    data.write_text("text\tlabel\na good film\t1\nbad\t0\n")
    done = headtool("score", "--model", name, "--data", data.name, "--out", "[red]")
    assert done.code == 0, done.err
    shown = name.replace("\x1b", r"\x1b")
    assert f"gradient  {shown} on {data.name}, 2 ".replace("\x1b", r"\x1b") in done.out
    assert done.err == "written to [red]\n"


# -- notes --------------------------------------------------------------------------------------


def test_notes_go_to_stderr_and_quiet_keeps_them_back(headtool, bert, workplace) -> None:
    long = "good film " * 30
    Path("long.tsv").write_text(f"sentence\tgold_label\n{long}\t1\nbad\t0\nplot\t-\n")
    arguments = ("score", "--model", bert, "--data", "long.tsv", "--format", "json")
    done = headtool(*arguments, "--out", "run")
    assert json.loads(done.out)["provenance"]["gradient"]["data"]["truncated"] == 1
    assert done.err.splitlines() == [
        "'long.tsv': left out 1 of 3 rows, which have no label",
        "long.tsv: 1 of 2 examples were cut to the model's length",
        "written to run",
    ]
    quiet = headtool(*arguments, "--out", "other", "--quiet")
    assert quiet.err == ""
    assert json.loads(quiet.out) == json.loads(done.out)


# -- every option has an effect -----------------------------------------------------------------


def test_kind(score, bart, workplace) -> None:
    Path("a.de").write_text("a good film\nbad plot\n")
    Path("b.en").write_text("fine\ndull film .\n")
    whole = score(model=bart, data="a.de,b.en")
    part = score("--kind", "cross,enc-self", model=bart, data="a.de,b.en")
    assert [row["kind"] for row in whole["scores"]] == (
        ["enc-self"] * 2 + ["dec-self"] * 8 + ["cross"] * 8
    )
    kept = [row for row in whole["scores"] if row["kind"] != "dec-self"]
    assert [row["kind"] for row in part["scores"]] == [row["kind"] for row in kept]
    assert scores(part) == pytest.approx(scores({"scores": kept}), rel=1e-5)
    assert sorted(row["rank"] for row in part["scores"]) == list(range(1, 11))


def test_limit(score, reviews, workplace) -> None:
    lines = reviews.read_text().splitlines(keepends=True)
    Path("first.tsv").write_text("".join(lines[:4]))
    first = score(data=workplace / "first.tsv")
    limited = score("--limit", 3, "--limit-order", "first")
    assert limited["provenance"]["gradient"]["data"]["examples"] == 3
    assert scores(limited) == scores(first)
    assert scores(limited) != scores(score())
    assert scores(score("--limit", 8)) == scores(score("--limit", 999)) == scores(score())


def test_limit_counts_blocks_of_a_text(score, llama, book) -> None:
    two = score("--limit", 2, model=llama, data=book)
    assert two["provenance"]["gradient"]["data"]["examples"] == 2
    whole = score(model=llama, data=book)
    # 39 words eight times over, in blocks of 20 tokens with [CLS] and [SEP] around 18 words.
    words = len(book.read_text().split())
    assert whole["provenance"]["gradient"]["data"]["examples"] == math.ceil(words / 18)
    assert scores(two) != scores(whole)
    first = score("--limit", 2, "--limit-order", "first", model=llama, data=book)
    drawn = {"limit": 2, "limit_order": "seeded", "seed": 0}
    of = whole["provenance"]["gradient"]["data"]["examples"]
    assert two["provenance"]["gradient"]["data"]["drawn"] == {**drawn, "of": of}
    assert whole["provenance"]["gradient"]["data"]["drawn"] is None
    assert first["provenance"]["gradient"]["data"]["drawn"]["limit_order"] == "first"


def test_columns(score, reviews, workplace) -> None:
    rows = [line.split("\t") for line in reviews.read_text().splitlines()[1:]]
    lines = [f"{label}\tdull dull dull\t{text}\n" for text, label in rows]
    Path("renamed.tsv").write_text("gold\ttext\treview\n" + "".join(lines))
    renamed = score("--columns", "text=review,label=gold", data="renamed.tsv")
    assert scores(renamed) == scores(score())
    assert scores(renamed) != scores(score("--columns", "label=gold", data="renamed.tsv"))


def test_set(score) -> None:
    plain = score()
    example = score("--set", "gradient.granularity=example", "--set", "gradient.normalize=none")
    assert example["provenance"]["gradient"]["options"]["granularity"] == "example"
    assert plain["provenance"]["gradient"]["options"]["granularity"] == "token"
    assert scores(example) != scores(plain)


def test_metric(score) -> None:
    accuracy = score("--method", "ablation")
    loss = score("--method", "ablation", "--metric", "loss")
    assert accuracy["provenance"]["ablation"]["metric"] == "accuracy"
    assert loss["provenance"]["ablation"]["metric"] == "loss"
    assert all("accuracy" in row for row in accuracy["scores"])
    assert all("loss" in row for row in loss["scores"])
    # Accuracy on eight examples comes in eighths; the loss does not.
    assert all(value * 8 == round(value * 8) for value in scores(accuracy))
    assert not all(value * 8 == round(value * 8) for value in scores(loss))


def test_seed(score) -> None:
    arguments = ("--method", "gates", "--set", "gates.steps=20", "--set", "gates.init=released")
    assert scores(score(*arguments)) == scores(score(*arguments, "--seed", 0))
    assert scores(score(*arguments)) != scores(score(*arguments, "--seed", 1))


def test_batch_tokens(score, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    collate = HuggingFaceModel.collate

    def spy(self, examples, index):
        batch = collate(self, examples, index)
        sizes.append(batch.inputs["input_ids"].numel())
        return batch

    monkeypatch.setattr(HuggingFaceModel, "collate", spy)
    whole = score()
    assert len(sizes) == 1
    sizes.clear()
    small = score("--batch-tokens", 22)
    assert len(sizes) > 2
    assert max(sizes) <= 22
    assert small["provenance"]["gradient"]["data"]["batch_tokens"] == 22
    assert scores(small) == pytest.approx(scores(whole), rel=1e-5)


def test_dtype(score) -> None:
    half = score("--dtype", "bfloat16")
    assert half["provenance"]["gradient"]["model"]["dtype"] == "bfloat16"
    assert scores(half) != scores(score())
    assert scores(half) == pytest.approx(scores(score()), abs=0.1)


def test_device(score) -> None:
    assert score("--device", "cpu")["provenance"]["gradient"]["model"]["device"] == "cpu"


# -- the run directory --------------------------------------------------------------------------


def test_out_holds_what_is_printed(headtool, score, bert, reviews, workplace) -> None:
    document = score("--method", ALL, *FAST, "--set", "gates.train=classifier.*", "--out", "a/run")
    run = read_run(Path("a/run"))
    assert [path.name for path in workplace.rglob("*")].count("run") == 1
    assert run.manifest["provenance"] == document["provenance"]
    assert run.manifest["command"].startswith(f"headtool score --model {bert} --data {reviews} ")
    assert run.manifest["command"].endswith("--set 'gates.train=classifier.*' --out a/run")
    assert set(run.manifest["tables"]) >= {"scores", "ablation.outcomes", "gates.evaluation"}
    assert set(run.manifest["weights"]) == {"gates.weights"}
    saved = run.table("scores")
    assert len(saved) == len(document["scores"]) == 32
    for row, (_, frame_row) in zip(document["scores"], saved.iterrows(), strict=True):
        for name, value in row.items():
            assert value == frame_row[name] or (value is None and pd.isna(frame_row[name]))


def test_outcomes_give_the_scores_again(score, workplace) -> None:
    document = score("--method", "ablation", "--out", "run")
    table = read_run(Path("run")).table("ablation.outcomes")
    table["correct"] = table["prediction"] == table["gold"]
    accuracy = table.groupby("mask", observed=True)["correct"].mean()
    for row in document["scores"]:
        name = f"{row['kind']}.{row['layer']}.{row['head']}"
        assert row["score"] == pytest.approx(accuracy[""] - accuracy[name], abs=1e-12)


def test_printing_does_not_depend_on_writing(headtool, bert, reviews, workplace) -> None:
    arguments = ("score", "--model", bert, "--data", reviews, "--format", "csv")
    assert headtool(*arguments).out == headtool(*arguments, "--out", "run").out


def test_force_replaces_a_run(headtool, score, bert, reviews, workplace) -> None:
    score("--out", "run")
    done = headtool("score", "--model", bert, "--data", reviews, "--out", "run")
    assert done.code == 2
    assert done.err == "error: run exists already; choose another --out or add --force\n"
    score("--method", "confidence", "--out", "run", "--force")
    assert set(read_run(Path("run")).manifest["provenance"]) == {"confidence"}
    assert [path.name for path in workplace.iterdir()] == ["run"]


# -- how it ends --------------------------------------------------------------------------------


def test_interruption(headtool, bert, reviews, workplace, monkeypatch) -> None:
    def interrupted(self, job):
        raise KeyboardInterrupt

    monkeypatch.setattr(Gradient, "compute", interrupted)
    done = headtool("score", "--model", bert, "--data", reviews, "--out", "a b")
    assert done.code == 130
    assert done.out == ""
    assert done.err == (
        f"interrupted; to start again: headtool score --model {bert} --data {reviews} --out 'a b'\n"
    )
    assert list(workplace.iterdir()) == []


def test_an_interrupted_command_continues(headtool, bert, reviews, workplace, monkeypatch) -> None:
    from headtool.methods.shapley import _Game

    command = ("score", "--model", bert, "--data", reviews, "--method", "magnitude,shapley")
    settings = ("--set", "shapley.permutations=8", "--set", "shapley.signal=loss")
    straight = headtool(*command, *settings, "--format", "csv")
    assert straight.code == 0, straight.err
    original, walked = _Game.walk, []

    def walk(self, orders, **ends):
        walked.append(len(orders))
        if len(walked) == 2:
            raise KeyboardInterrupt
        return original(self, orders, **ends)

    monkeypatch.setattr(_Game, "walk", walk)
    stopped = headtool(*command, *settings, "--out", "run")
    assert stopped.code == 130
    assert stopped.err.startswith("interrupted; to continue: headtool score --model ")
    assert [path.name for path in workplace.iterdir()] == ["run.unfinished"]
    other = headtool(*command, "--out", "run")
    assert other.code == 2
    assert "run.unfinished holds an unfinished run of something else" in other.err
    done = headtool(*command, *settings, "--out", "run", "--format", "csv")
    assert walked == [4, 4, 4]
    assert done.out == straight.out
    assert [path.name for path in workplace.iterdir()] == ["run"]


def test_a_bug_keeps_its_traceback(headtool, bert, reviews, workplace, monkeypatch) -> None:
    def wrong(self, job):
        raise ZeroDivisionError

    monkeypatch.setattr(Gradient, "compute", wrong)
    with pytest.raises(ZeroDivisionError):
        headtool("score", "--model", bert, "--data", reviews, "--out", "run")
    assert list(workplace.iterdir()) == []
