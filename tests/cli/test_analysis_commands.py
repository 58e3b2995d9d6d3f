"""``headtool test`` and ``headtool correlate``: from saved outcomes to claims."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headtool.analysis.assessment import assess_outcomes
from headtool.analysis.compat import compat_tests
from headtool.analysis.paired import Paired
from headtool.metrics import get_metric
from headtool.results.runs import read_run

JSON = ("--format", "json")
FIELDS = {
    *("kind", "layer", "head", "delta", "ci_low", "ci_high", "p", "p_adjusted", "verdict", "mde")
}


@pytest.fixture
def run(headtool, bert, reviews, tmp_path: Path) -> Path:
    done = headtool(
        "ablate", "--model", bert, "--data", reviews, "--out", tmp_path / "run", "--quiet"
    )
    assert done.code == 0, done.err
    return tmp_path / "run"


def document(done) -> dict:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_tests_are_those_of_the_library(headtool, run: Path) -> None:
    found = document(headtool("test", run, "--format", "json", "--seed", "2", "--margin", "0.3"))
    assert found["schema"] == "headtool/tests/1"
    expected = assess_outcomes(
        read_run(run).outcomes(), get_metric("accuracy", task="classification"), margin=0.3, rng=2
    )
    assert found["tests"][0].keys() >= FIELDS
    for name in ("delta", "p", "p_adjusted", "verdict"):
        assert [row[name] for row in found["tests"]] == expected.frame[name].tolist()
    settings = found["provenance"]["settings"]
    assert settings["test"] == "mcnemar"
    assert settings["margin"] == 0.3


@pytest.mark.slow
def test_options_have_an_effect(headtool, run: Path) -> None:
    def settings(*arguments: object) -> dict:
        command = ("test", run, "--format", "json", "--margin", "0.2")
        return document(headtool(*command, *arguments))["provenance"]["settings"]

    assert settings("--correction", "holm")["correction"] == "holm"
    assert settings("--metric", "loss")["test"] == "sign-flip"
    assert settings("--test", "mcnemar-midp")["test"] == "mcnemar-midp"
    assert settings("--interval", "percentile")["interval"] == "percentile"
    assert settings("--alpha", "0.01")["expected_false_positives_uncorrected"] == 0.08
    assert settings("--metric", "loss", "--resamples", "50")["resamples"] == 50


def test_a_score_run_with_ablation_can_be_tested(headtool, bert, reviews, tmp_path: Path) -> None:
    command = ("score", "--model", bert, "--data", reviews, "--out", tmp_path / "scores")
    assert headtool(*command, "--method", "gradient,ablation").code == 0
    found = document(headtool("test", tmp_path / "scores", "--format", "json", "--margin", "0.2"))
    assert len(found["tests"]) == 8


def test_verdict_table(headtool, run: Path) -> None:
    done = headtool("test", run, "--margin", "0.2")
    assert done.code == 0, done.err
    assert " needed, " in done.out
    assert "without correction" in done.out
    assert "mcnemar" in done.out


def test_runs_and_data_sets_correlate_alike(headtool, bert, reviews, tmp_path: Path) -> None:
    lines = reviews.read_text(encoding="utf-8").splitlines()
    halves = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    halves[0].write_text("\n".join([lines[0], *lines[1::2]]) + "\n", encoding="utf-8")
    halves[1].write_text("\n".join([lines[0], *lines[2::2]]) + "\n", encoding="utf-8")
    model = ("--model", bert, "--metric", "loss")
    direct = document(
        headtool(
            *("correlate", *model, "--format", "json"),
            *("--data", halves[0], "--data", halves[1], "--permutations", "200"),
        )
    )
    runs = []
    for half in halves:
        runs.append(half.with_suffix(""))
        assert headtool("ablate", *model, "--data", half, "--out", runs[-1]).code == 0
    saved = document(headtool("correlate", *runs, "--format", "json", "--permutations", "200"))
    assert direct["schema"] == saved["schema"] == "headtool/correlations/1"
    (row,) = direct["correlations"]
    for name, value in saved["correlations"][0].items():
        if isinstance(value, float):
            assert row[name] == pytest.approx(value), name
    deltas = [
        (outcomes.masked["loss"] - outcomes.whole["loss"]).mean(axis=1)
        for outcomes in (read_run(folder).outcomes() for folder in runs)
    ]
    assert row["pearson"] == pytest.approx(np.corrcoef(*deltas)[0, 1])
    table = headtool("correlate", *runs, "--permutations", "200")
    assert "p within layers" in table.out


def bad(done, *words: str) -> None:
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert all(word in done.err for word in words), done.err


def test_bad_runs(headtool, bert, reviews, run: Path, tmp_path: Path) -> None:
    bad(headtool("test", tmp_path / "none"), "none", "no headtool run")
    scores = tmp_path / "scores"
    assert headtool("score", "--model", bert, "--data", reviews, "--out", scores).code == 0
    bad(headtool("test", scores), "scores holds no outcomes", "headtool ablate --out")
    bad(headtool("test", run, "--margin", "-1"), "margin")
    bad(headtool("test", run, "--metric", "pearson"), "pearson")
    bad(headtool("test", run, "--correction", "hom"), "did you mean 'holm'")
    bad(headtool("test", run, "--alpha", "2"), "alpha")
    bad(headtool("correlate", run), "two")
    bad(headtool("correlate"), "two or more runs")
    bad(headtool("correlate", run, run, "--data", reviews), "not both")
    bad(headtool("correlate", run, tmp_path / "none"), "none")
    (run / "outcomes.parquet").write_bytes(b"damaged")
    bad(headtool("test", run), "outcomes.parquet", "damaged")


def test_runs_of_different_models_or_metrics_do_not_mix(
    headtool, bert, llama, reviews, tmp_path: Path
) -> None:
    story = tmp_path / "story.txt"
    story.write_text("a good film . the plot is dull . " * 20, encoding="utf-8")
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    assert headtool("ablate", "--model", bert, "--data", reviews, "--out", one).code == 0
    assert headtool("ablate", "--model", llama, "--data", story, "--out", two).code == 0
    command = ("ablate", "--model", bert, "--data", reviews, "--metric", "loss")
    assert headtool(*command, "--out", three).code == 0
    bad(headtool("correlate", one, two), "another model")
    bad(headtool("correlate", one, three), "accuracy", "loss", "--metric")


def test_other_tools_p_values_are_labelled(headtool, run: Path) -> None:
    mode = "compare-mt-with-replacement"
    found = document(headtool("test", run, "--compat", mode, "--resamples", "200", *JSON))
    assert found["schema"] == "headtool/compat-tests/1"
    assert {row["mode"] for row in found["tests"]} == {mode}
    paired = Paired.from_outcomes(
        read_run(run).outcomes(), get_metric("accuracy", task="classification")
    )
    expected = compat_tests(paired, mode, resamples=200).frame["p"]
    assert [row["p"] for row in found["tests"]] == expected.tolist()
    assert mode in headtool("test", run, "--compat", mode).out
    bad(headtool("test", run, "--compat", "bleu"), "bleu")
    bad(headtool("test", run, "--compat", mode, "--alpha", "0.01"), "--compat", "no other options")


def test_heads_that_matter_everywhere_are_counted(headtool, bert, tmp_path: Path) -> None:
    header, examples = "text\tlabel", ["good film .\tpositive"]
    sets = []
    for name in ("a", "b", "c"):
        sets.append(tmp_path / f"{name}.tsv")
        sets[-1].write_text("\n".join([header, *examples * 40]) + "\n", encoding="utf-8")
    arguments = [argument for path in sets for argument in ("--data", path)]
    command = ("correlate", "--model", bert, "--metric", "loss", "--permutations", "100")
    found = document(headtool(*command, *arguments, *JSON))
    assert len(found["correlations"]) == 3
    assert len(found["replication"]) == 8
    # Forty examples that all change in the same way, so every head has an effect on all three sets.
    assert {row["data_sets"] for row in found["replication"]} == {3}
    assert "heads with an effect" in headtool(*command, *arguments).out


@pytest.mark.parametrize("command", ["test", "correlate"])
def test_help_names_the_metric_of_a_run(headtool, command: str) -> None:
    text = " ".join(headtool(command, "--help").out.replace("│", " ").split())
    assert f"Default: the {'run' if command == 'test' else 'runs'}'" in text
