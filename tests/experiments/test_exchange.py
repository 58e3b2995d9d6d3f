"""Scores go out in every format and come in again; what other commands make of them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headtool
from headtool.errors import HeadtoolError

from ..cli.conftest import Run

FORMATS = ("csv", "json", "retrieval", "mib", "duo", "hf")
LOSSY = {"hf": "which heads go", "duo": "the mean over a group"}


@pytest.fixture(scope="module")
def scoring() -> headtool.Scoring:
    return headtool.score("builtin:nli", limit=8, methods=["magnitude"])


def exported(scores: object, to: str) -> str:
    given = {"remove": "25%"} if to == "hf" else {}
    return headtool.export_scores(scores, to=to, model="builtin:nli", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "second"), list(itertools.product(FORMATS, repeat=2)))
def test_round_trips_of_each_pair(
    first: str, second: str, scoring: headtool.Scoring, tmp_path: Path
) -> None:
    scores: object = scoring
    for to in (first, second):
        file = tmp_path / f"{to}.txt"
        file.write_text(exported(scores, to))
        kind = None if to in ("csv", "json") else "enc-self"
        scores = headtool.import_scores(file, name="back", heads="4x8", kind=kind)  # type: ignore[arg-type]
        assert isinstance(scores, headtool.Imported)
        assert scores.format == to
    assert isinstance(scores, headtool.Imported)
    then, now = scoring.frame, scores.frame
    assert now[["kind", "layer", "head"]].equals(then[["kind", "layer", "head"]])
    if "hf" in (first, second):
        goes = now["score"] == 0
        assert goes.sum() == 8
        assert set(then[goes]["rank"]) == set(range(25, 33))
    elif "duo" in (first, second):  # moved into 0 to 1
        span = then["score"].max() - then["score"].min()
        moved = (then["score"] - then["score"].min()) / span
        np.testing.assert_allclose(now["score"], moved, atol=1e-12)
        assert now["rank"].tolist() == then["rank"].tolist()
    else:
        assert now["score"].tolist() == then["score"].tolist()
        assert now["rank"].tolist() == then["rank"].tolist()


def test_repeats_go_round(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    repeats = {f"{i}-{j}": rng.normal(3 * j, 1, 40).tolist() for i in range(3) for j in range(4)}
    file = tmp_path / "x.json"
    file.write_text(json.dumps(repeats))
    found = headtool.import_scores(file, name="x", out=tmp_path / "run")
    assert found.repeats == 40
    assert found.reliability > 0.99
    assert 0.9 < found.reliability_of_ranks <= 1
    run = headtool.read_run(tmp_path / "run")
    assert len(run.table("score_repeats")) == 12 * 40
    assert json.loads(headtool.export_scores(run, to="retrieval")) == repeats


def test_reliability_is_what_halves_say(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(60, 30)) * 4 + rng.normal(size=30)
    file = tmp_path / "x.json"
    file.write_text(json.dumps({f"0-{j}": matrix[:, j].tolist() for j in range(30)}))
    found = headtool.import_scores(file, name="x")
    r = []
    for _ in range(400):
        half = rng.permutation(60) < 30
        r.append(np.corrcoef(matrix[half].mean(0), matrix[~half].mean(0))[0, 1])
    mean = np.mean(r)
    assert found.reliability == pytest.approx(2 * mean / (1 + mean), abs=0.02)


def test_imported_scores_correlate(tmp_path: Path, scoring: headtool.Scoring) -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=32)
    for name in ("a", "b"):
        values = truth[:, None] + rng.normal(0, 2, (32, 25))
        keyed = {f"{h // 8}-{h % 8}": values[h].tolist() for h in range(32)}
        (tmp_path / f"{name}.json").write_text(json.dumps(keyed))
        headtool.import_scores(
            tmp_path / f"{name}.json", name=name, kind="enc-self", out=tmp_path / name
        )
    found = headtool.correlate_runs(
        [tmp_path / "a", tmp_path / "b", scoring], permutations=100, resamples=50
    )
    assert found.frame[["data_x", "data_y"]].to_numpy().tolist() == [
        ["a", "b"],
        ["a", "magnitude"],
        ["b", "magnitude"],
    ]
    row = found.frame.iloc[0]
    assert 0.4 < row["pearson"] < row["disattenuated"]
    assert row["pearson_low"] < row["pearson"] < row["pearson_high"]
    assert 0.5 < row["reliability_x"] < 1
    assert np.isnan(found.frame["reliability_y"][1])
    assert len(found.replication) == 0
    assert set(found.provenance["runs"]) >= {f"{tmp_path / 'a'} a", "magnitude"}
    ablated = headtool.ablate("builtin:nli", limit=8)
    beside = headtool.correlate_runs([tmp_path / "a", ablated], permutations=100, resamples=50)
    assert beside.frame["data_y"].tolist() == ["builtin:nli/matched"]


def test_a_comparison_takes_saved_scores(tmp_path: Path, scoring: headtool.Scoring) -> None:
    file = tmp_path / "x.csv"
    file.write_text(headtool.export_scores(scoring, to="csv"))
    theirs = headtool.import_scores(file, name="theirs", model="builtin:nli")
    found = headtool.compare(
        "builtin:nli",
        methods=["magnitude", headtool.method_of_run(theirs)],
        limit=16,
        steps="50%",
        draws=2,
    )
    curves = {
        method: part["value"].tolist()
        for method, part in found.curves.groupby("method")
        if method in ("magnitude", "theirs")
    }
    assert curves["magnitude"] == curves["theirs"]


def test_scores_of_another_model_are_refused(tmp_path: Path, scoring: headtool.Scoring) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps({f"{i}-{j}": i + j for i in range(4) for j in range(9)}))
    wide = headtool.import_scores(file, name="wide", kind="enc-self")
    with pytest.raises(HeadtoolError, match=r"scores of 36 heads \(enc-self 4 layers, 36 heads\)"):
        headtool.prune("builtin:nli", scores=wide, remove="25%")
    model = headtool.load_model("builtin:nli")
    examples = model.encode(headtool.load_data("builtin:nli/matched", limit=4))
    with pytest.raises(HeadtoolError, match="wide are of 36 heads, and builtin:nli has enc-self"):
        headtool.method_of_run(wide).score(model, examples)
    known = headtool.method_of_run(scoring)
    with pytest.raises(HeadtoolError, match="about other weights than"):
        known.score(model.fresh(1), examples)
    with pytest.raises(HeadtoolError, match="give the model that was scored"):
        headtool.export_scores(wide, to="duo", model="builtin:nli")
    file.write_text(json.dumps({f"{i}-{j}": i + j for i in range(4) for j in range(8)}))
    fits = headtool.import_scores(file, name="fits", kind="enc-self")
    assert len(headtool.prune("builtin:nli", scores=fits, remove="25%").removed) == 8


def test_names_and_fields_that_do_not_fit(tmp_path: Path, scoring: headtool.Scoring) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"0-0": 1, "0-1": 2}')
    for name in ("gradient", "compare", "a b", "", "../x"):
        with pytest.raises(HeadtoolError, match="`name`"):
            headtool.import_scores(file, name=name)
    with pytest.raises(HeadtoolError, match="`heads` is for scores without a model"):
        headtool.import_scores(file, name="x", model="builtin:nli", heads="4x8")
    with pytest.raises(HeadtoolError, match="unknown format 'xml'"):
        headtool.import_scores(file, name="x", format="xml")
    with pytest.raises(HeadtoolError, match="`remove` is for the format hf"):
        headtool.export_scores(scoring, to="csv", remove="10%")
    with pytest.raises(HeadtoolError, match="say how many by `remove` or `keep_heads`"):
        headtool.export_scores(scoring, to="hf")
    with pytest.raises(HeadtoolError, match="width of the model; give `model`"):
        headtool.export_scores(scoring, to="mib")
    with pytest.raises(HeadtoolError, match="no scores of cross heads"):
        headtool.export_scores(scoring, to="csv", kind="cross")


def test_a_graph_has_what_mib_reads(scoring: headtool.Scoring) -> None:
    document = json.loads(exported(scoring, "mib"))
    assert document["cfg"] == {
        "n_layers": 4,
        "n_heads": 8,
        "parallel_attn_mlp": False,
        "d_model": 96,
    }
    names = ["input", *(n for i in range(4) for n in (*(f"a{i}.h{j}" for j in range(8)), f"m{i}"))]
    assert list(document["nodes"]) == [*names, "logits"]
    assert all("score" not in document["nodes"][f"m{i}"] for i in range(4))
    scores = scoring.frame["score"].tolist()
    assert [document["nodes"][n]["score"] for n in names if n.startswith("a")] == scores
    assert document["edges"] == {}


@pytest.mark.slow
def test_the_commands(headtool: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{j},{(5 * i + 3 * j) % 32}" for i in range(4) for j in range(8)]
    Path("x.csv").write_text("\n".join(["layer,head,score", *rows, ""]))
    done = headtool("import", "x.csv", "--name", "theirs", "--model", "builtin:nli", "--out", "run")
    assert done.code == 0
    assert "32 heads from x.csv, format csv" in done.out
    assert "written to run" in done.err
    assert headtool("show", "run").code == 0
    assert headtool("report", "run").code == 0
    assert "theirs" in Path("run/report.html").read_text()
    pruned = headtool("prune", "--scores", "run", "--remove", "25%", "--format", "json")
    assert len(json.loads(pruned.out)["removed"]) == 8
    curve = headtool(
        *("curve", "--method", "magnitude", "--scores", "run", "--limit", 16, "--steps", "50%"),
        *("--draws", 1, "--format", "csv"),
    )
    assert {"magnitude", "theirs"} <= set(curve.out.replace("\n", ",").split(","))
    tested = headtool("test", "run")
    assert (tested.code, "holds no outcomes" in tested.err) == (2, True)
    out = headtool("export", "run", "--to", "csv")
    frame = pd.read_csv(__import__("io").StringIO(out.out))
    assert frame["score"].tolist() == [float(row.split(",")[2]) for row in rows]
    assert headtool("export", "run", "--to", "duo", "--out", "d.tsv").code == 0
    again = headtool("export", "run", "--to", "duo", "--out", "d.tsv")
    assert (again.code, "d.tsv exists already" in again.err) == (2, True)
    assert headtool("export", "run", "--to", "duo", "--out", "d.tsv", "--force").code == 0
    wrong = headtool("import", "x.csv", "--name", "theirs", "--format", "jsn")
    assert (wrong.code, "did you mean 'json'?" in wrong.err) == (2, True)
    wrong = headtool("import", "x.csv", "--name", "theirs", "--dtype", "bfloat16")
    assert (wrong.code, "give --model" in wrong.err) == (2, True)
