"""``headtool test``, ``correlate`` and ``score`` on what models translate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sacrebleu

from headtool.metrics.translation import BLEU, CHRF
from headtool.quiet import silence
from headtool.results.runs import read_run

from ..support.translation import GREEDY, MT, deltas, refused
from .conftest import settings_of_the_process


@pytest.fixture(scope="module", autouse=True)
def _fairseq() -> None:
    with silence():
        pytest.importorskip("fairseq")


# -- test -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 24 heads, greedy."""
    from typer.testing import CliRunner

    from headtool.cli.main import app

    folder = tmp_path_factory.mktemp("translation") / "run"
    command = ["ablate", *MT, *GREEDY, "--limit", "40", "--kind", "enc-self,cross", "--out", folder]
    with settings_of_the_process():
        done = CliRunner().invoke(app, list(map(str, command)))
    assert done.exit_code == 0, done.output
    return folder


def test_heads_are_tested_in_points_and_summed_up_by_kind(document, headtool, saved: Path) -> None:
    found = document("test", saved, "--resamples", 2000)
    settings = found["provenance"]["settings"]
    assert (settings["metric"], settings["test"], settings["margin"]) == (
        "bleu",
        "randomisation",
        1.0,
    )
    assert settings["signature"] == BLEU().signature
    tests = pd.DataFrame(found["tests"])
    assert len(tests) == settings["heads"] == 24
    assert (tests["verdict"] == "needed").any()
    for row in found["kinds"]:
        part = tests[tests["kind"] == row["kind"]]
        assert row["heads"] == len(part) == 12
        assert row["mean"] == pytest.approx(part["delta"].mean())
        assert row["sd"] == pytest.approx(np.std(part["delta"], ddof=1))
        assert (row["lowest"], row["highest"]) == (part["delta"].min(), part["delta"].max())
        assert row["significant"] == (part["p_adjusted"] <= 0.05).sum()
        assert row["needed"] == (part["verdict"] == "needed").sum()
    assert {row["kind"] for row in found["kinds"]} == {"enc-self", "cross"}
    table = headtool("test", saved, "--resamples", 2000)
    assert BLEU().signature in table.out
    assert "significant" in table.out


def test_a_kind_by_itself_is_the_family(document, saved: Path) -> None:
    found = document("test", saved, "--kind", "cross", "--resamples", 2000)
    assert {row["kind"] for row in found["tests"]} == {"cross"}
    assert found["provenance"]["settings"]["heads"] == 12


def test_another_metric_is_computed_from_the_translations(document, saved: Path) -> None:
    found = document("test", saved, "--metric", "chrf", "--kind", "cross", "--resamples", 500)
    direct = document(
        *("ablate", *MT, "--metric", "chrf", "--greedy", "--limit", 40, "--kind", "cross")
    )
    assert deltas(found["tests"]) == pytest.approx(deltas(direct["ablation"]), rel=1e-12)
    assert found["provenance"]["settings"]["signature"] == CHRF().signature
    assert found["provenance"]["settings"]["whole"] == pytest.approx(direct["whole"]["chrf"])


def test_sacrebleus_own_test_is_offered(document, saved: Path) -> None:
    found = document("test", saved, "--compat", "sacrebleu-paired-ar", "--kind", "cross")
    assert len(found["tests"]) == 12
    assert all(0 < row["p"] <= 1 for row in found["tests"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--metric", "loss"), ("made for bleu", "loss", "headtool ablate --metric loss")),
        (("--metric", "mcc"), ("'mcc' is not defined for seq2seq", "bleu, chrf, ter")),
        (("--kind", "dec-self"), ("no dec-self head", "enc-self, cross")),
        (("--kind", "enc"), ("'enc'", "enc-self")),
    ],
)
def test_what_a_run_cannot_answer(headtool, saved: Path, arguments, words) -> None:
    refused(headtool("test", saved, *arguments), words)


def test_a_run_of_losses_has_no_translations(headtool, tmp_path: Path) -> None:
    out = tmp_path / "loss"
    done = headtool("ablate", *MT, "--limit", 4, "--heads", "cross.0.0", "--out", out)
    assert done.code == 0, done.err
    refused(
        headtool("test", out, "--metric", "bleu"),
        ("made for loss", "holds nothing for bleu", "headtool ablate --metric bleu"),
    )


# -- correlate and score --------------------------------------------------------------------------


@pytest.mark.slow
def test_correlations_of_data_sets_and_of_their_runs(document, headtool, tmp_path: Path) -> None:
    common = (*MT, *GREEDY, "--limit", 10, "--kind", "cross")
    sets = ("builtin:mt/test", "builtin:mt/noisy")
    quick = ("--permutations", 200, "--resamples", 100)
    from_data = document("correlate", *common, "--data", sets[0], "--data", sets[1], *quick)
    (row,) = from_data["correlations"]
    assert (row["data_x"], row["data_y"]) == sets
    assert -1 <= row["pearson"] <= 1
    assert 0 < row["reliability_x"] <= 1
    assert from_data["provenance"]["data"][sets[0]]["search"]["beam"] == 1
    runs = [tmp_path / str(number) for number in range(2)]
    for name, out in zip(sets, runs, strict=True):
        extra = ("--kind", "cross,dec-self")
        done = headtool("ablate", *common[:-2], *extra, "--data", name, "--out", out)
        assert done.code == 0, done.err
    from_runs = document("correlate", *runs, "--kind", "cross", *quick)
    assert from_runs["correlations"] == from_data["correlations"]
    other = document("correlate", *runs, "--metric", "ter", "--kind", "dec-self", *quick)
    assert other["correlations"][0]["n_heads"] == 12
    refused(headtool("correlate", *runs, "--greedy"), ("--greedy", "decoded already"))


def test_other_tokens_of_bleu(document, headtool, tmp_path: Path) -> None:
    common = ("ablate", *MT, *GREEDY, "--limit", 8, "--heads", "cross.2.2,cross.2.0")
    runs = {name: tmp_path / name for name in ("13a", "char")}
    found = {
        name: document(*common, "--tokenize", name, "--out", out) for name, out in runs.items()
    }
    table = read_run(runs["char"]).table("hypotheses")
    whole = table.loc[table["mask"] == "", "text"].tolist()
    references = read_run(runs["char"]).table("references")["text"].tolist()
    score = sacrebleu.corpus_bleu(whole, [references], tokenize="char").score
    assert found["char"]["whole"]["bleu"] == pytest.approx(score, rel=1e-12)
    assert found["13a"]["whole"]["bleu"] != pytest.approx(score)
    tested = document("test", runs["char"], "--resamples", 200)["provenance"]["settings"]
    assert "tok:char" in tested["signature"]
    assert tested["whole"] == pytest.approx(score)
    refused(headtool("correlate", *runs.values()), ("tok:char", "tok:13a", "count the same"))
    scored = document(
        *("score", *MT, "--metric", "bleu", "--limit", 8, "--kind", "cross"),
        *("--method", "ablation", "--set", "ablation.beam=1", "--set", "ablation.tokenize=char"),
    )
    assert "tok:char" in scored["provenance"]["ablation"]["signature"]
    lost = deltas(found["char"]["ablation"])
    for row in scored["scores"]:
        head = f"{row['kind']}.{row['layer']}.{row['head']}"
        assert head not in lost or row["score"] == pytest.approx(-lost[head])


def test_scores_are_what_bleu_loses(document, headtool, tmp_path: Path) -> None:
    out = tmp_path / "scores"
    common = (*MT, "--metric", "bleu", "--limit", 8, "--kind", "cross")
    found = document(
        *("score", *common, "--method", "ablation,gradient", "--set", "ablation.beam=1"),
        *("--out", out),
    )
    scores = {
        f"{row['kind']}.{row['layer']}.{row['head']}": row["score"]
        for row in found["scores"]
        if row["method"] == "ablation"
    }
    lost = deltas(document("ablate", *common, "--greedy")["ablation"])
    assert scores == pytest.approx({head: -delta for head, delta in lost.items()})
    assert found["provenance"]["ablation"]["search"]["beam"] == 1
    assert found["provenance"]["ablation"]["signature"] == BLEU().signature
    assert "search" not in found["provenance"]["gradient"]
    assert deltas(document("test", out, "--resamples", 200)["tests"]) == pytest.approx(lost)
    assert document("test", out, "--metric", "ter", "--resamples", 200)["tests"]
    table = headtool("score", *common, "--method", "ablation", "--set", "ablation.beam=1")
    assert "greedy; BLEU|" in table.out
    assert "hypotheses" not in table.out
