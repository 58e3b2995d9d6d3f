"""BLEU, chrF and TER on the command line: ablate, test, correlate, score, and what they refuse."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sacrebleu
import torch
import transformers

from headtool.models.fairseq_parts import silence
from headtool.runs import read_run
from headtool.translation_metrics import BLEU, CHRF

MT = ("--model", "builtin:mt", "--device", "cpu")
GREEDY = ("--metric", "bleu", "--greedy")


@pytest.fixture(scope="module", autouse=True)
def _fairseq() -> None:
    with silence():
        pytest.importorskip("fairseq")


@pytest.fixture
def document(headtool):
    """Run a command that prints JSON, and read it."""

    def run(*arguments: object) -> dict[str, Any]:
        done = headtool(*arguments, "--format", "json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    return run


def deltas(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {f"{row['kind']}.{row['layer']}.{row['head']}": row["delta"] for row in rows}


# -- ablate ---------------------------------------------------------------------------------------


@pytest.fixture
def brief(tmp_path: Path, bart: Path) -> Path:
    """The BART with random weights, which rarely stops by itself, held to 12 tokens."""
    folder = tmp_path / "bart"
    shutil.copytree(bart, folder)
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(settings | {"max_length": 12}))
    return folder


@pytest.fixture
def pair(tmp_path: Path, brief: Path) -> Path:
    """Sources, and references that the BART gets about half right."""
    sources = ["a good film", "bad plot", "the film is dull .", "fine", "a b c d e f", "dull plot"]
    references = []
    for text in bart_translations(brief, sources, beam=1):
        words = text.split()
        references.append(" ".join([*words[: len(words) // 2 + 4], "other", "words"]))
    (tmp_path / "test.src").write_text("\n".join(sources) + "\n")
    (tmp_path / "test.ref").write_text("\n".join(references) + "\n")
    return tmp_path / "test"


def bart_translations(folder: Path, sources: list[str], *, beam: int, closed: Any = None) -> list:
    """What transformers' own generate makes of each sentence by itself."""
    model = transformers.BartForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if closed is not None:
        layer, head = closed
        projection = model.model.decoder.layers[layer].encoder_attn.out_proj
        with torch.no_grad():
            projection.weight[:, 4 * head : 4 * (head + 1)] = 0
    texts = []
    for source in sources:
        inputs = tokenizer(source, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            ids = model.generate(**inputs, num_beams=beam)
        texts.append(tokenizer.decode(ids[0], skip_special_tokens=True))
    return texts


@pytest.mark.parametrize("beam", [1, 3])
def test_bleu_of_a_transformers_model_is_that_of_generate_and_sacrebleu(
    document, brief: Path, pair: Path, beam: int
) -> None:
    found = document(
        *("ablate", "--model", brief, "--data", f"{pair}.src,{pair}.ref", "--device", "cpu"),
        *("--heads", "cross.1.2,cross.0.1", "--metric", "bleu", "--beam", beam),
    )
    sources, references = (
        Path(f"{pair}.{side}").read_text().splitlines() for side in ("src", "ref")
    )

    def bleu(**options: Any) -> float:
        texts = bart_translations(brief, sources, beam=beam, **options)
        return float(sacrebleu.corpus_bleu(texts, [references]).score)

    whole = bleu()
    assert whole > 5
    assert found["whole"] == pytest.approx({"bleu": whole}, rel=1e-12)
    expected = {
        f"cross.{layer}.{head}": bleu(closed=(layer, head)) - whole
        for layer, head in ((1, 2), (0, 1))
    }
    assert any(expected.values())
    assert deltas(found["ablation"]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_the_length_penalty_is_the_one_asked_for(
    document, brief: Path, pair: Path, penalty: float
) -> None:
    found = document(
        *("ablate", "--model", brief, "--data", f"{pair}.src,{pair}.ref", "--device", "cpu"),
        *("--heads", "cross.0.1", "--metric", "bleu", "--beam", 3, "--lenpen", penalty),
    )
    search = found["provenance"]["search"]
    assert (search["beam"], search["length_penalty"]) == (3, penalty)


def test_the_document_and_the_run(document, tmp_path: Path) -> None:
    out = tmp_path / "run"
    found = document(
        "ablate", *MT, *GREEDY, "--limit", 12, "--kind", "cross,enc-self", "--out", out
    )
    assert found["schema"] == "headtool/ablation/1"
    assert set(found["whole"]) == {"bleu"}
    assert {row["metric"] for row in found["ablation"]} == {"bleu"}
    assert {row["kind"] for row in found["ablation"]} == {"cross", "enc-self"}
    assert len(found["ablation"]) == 24
    source = found["provenance"]
    assert source["signature"] == BLEU().signature
    assert source["search"]["beam"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

    run = read_run(out)
    assert run.source == source
    assert set(run.outcomes().whole) == set(BLEU().statistics)
    texts, references = run.table("hypotheses"), run.table("references")["text"].tolist()
    assert len(references) == 12
    whole = texts.loc[texts["mask"] == "", "text"].tolist()
    score = sacrebleu.corpus_bleu(whole, [references]).score
    assert found["whole"]["bleu"] == pytest.approx(score, rel=1e-12)
    head, delta = min(deltas(found["ablation"]).items(), key=lambda item: item[1])
    changed = texts[texts["mask"] == head].set_index("example")["text"]
    masked = [changed.get(number, text) for number, text in enumerate(whole)]
    assert delta == pytest.approx(sacrebleu.corpus_bleu(masked, [references]).score - score)
    assert delta < 0


def test_all_but_one(document) -> None:
    found = document("ablate", *MT, *GREEDY, "--limit", 10, "--kind", "cross", "--all-but-one")
    assert [row["layer"] for row in found["best"]] == [0, 1, 2]
    assert {row["metric"] for row in found["best"]} == {"bleu"}
    assert len(found["ablation"]) == 12


def test_an_interrupted_command_continues(
    headtool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.models.fairseq import FairseqModel

    command = ("ablate", *MT, *GREEDY, "--limit", 12, "--kind", "cross", "--batch-tokens", 60)
    straight = headtool(*command, "--format", "json")
    assert straight.code == 0, straight.err
    original, collated = FairseqModel.collate, []

    def interrupt(self, examples, index):
        collated.append(index)
        if len(collated) == 4:
            raise KeyboardInterrupt
        return original(self, examples, index)

    monkeypatch.setattr(FairseqModel, "collate", interrupt)
    stopped = headtool(*command, "--out", tmp_path / "run")
    assert stopped.code == 130
    kept = list((tmp_path / "run.unfinished").glob("unit-*.npz"))
    assert kept
    assert not (tmp_path / "run").exists()

    monkeypatch.setattr(FairseqModel, "collate", original)
    changed = headtool(*command[:-2], "--batch-tokens", 61, "--out", tmp_path / "run")
    assert changed.code == 2
    assert "unfinished run of something else" in changed.err
    done = headtool(*command, "--out", tmp_path / "run", "--format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["ablation"] == json.loads(straight.out)["ablation"]
    assert not (tmp_path / "run.unfinished").exists()


def test_table_and_csv(headtool) -> None:
    command = ("ablate", *MT, *GREEDY, "--limit", 4, "--heads", "cross.2.2,enc-self.0.0")
    table = headtool(*command)
    assert table.code == 0, table.err
    assert "greedy; BLEU|nrefs:1|case:mixed" in table.out
    assert "change of bleu when this head is closed" in table.out
    lines = headtool(*command, "--format", "csv").out.splitlines()
    assert lines[0] == "kind,layer,head,delta,stderr,metric"
    assert len(lines) == 3


# -- test -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 24 heads, greedy."""
    from typer.testing import CliRunner

    from headtool.cli.main import app

    folder = tmp_path_factory.mktemp("translation") / "run"
    command = ["ablate", *MT, *GREEDY, "--limit", "40", "--kind", "enc-self,cross", "--out", folder]
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


# -- what is refused ------------------------------------------------------------------------------


def refused(done, words: tuple[str, ...]) -> None:
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1, done.err
    assert all(word in done.err for word in words), done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--greedy",), ("--greedy is for metrics that decode", "--metric bleu")),
        (("--metric", "loss", "--beam", "4"), ("--beam is for metrics that decode",)),
        (("--metric", "accuracy", "--lenpen", "1"), ("--lenpen is for metrics that decode",)),
        (("--metric", "bleu", "--beam", "2", "--greedy"), ("--beam and --greedy exclude",)),
        (("--metric", "bleu", "--greedy", "--lenpen", "1"), ("--lenpen has no effect", "greedy")),
        (("--metric", "bleu", "--lenpen", "nan"), ("--lenpen must be a finite number",)),
        (("--metric", "bleu", "--beam", "0"), ("--beam must be at least 1", "0")),
        (("--metric", "bleu", "--beam", "x"), ("--beam must be a whole number", "'x'")),
        (
            (
                "--metric",
                "blue",
            ),
            ("unknown metric 'blue'", "did you mean 'bleu'"),
        ),
        (("--metric", "bleu", "--replacement", "resample"), ("resample", "zero or mean")),
        (("--metric", "bleu", "--sequential"), ("--sequential", "accuracy")),
    ],
)
def test_options_that_do_not_fit(headtool, tmp_path: Path, arguments, words) -> None:
    out = tmp_path / "run"
    refused(headtool("ablate", *MT, "--limit", 4, "--out", out, *arguments), words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("--set", "ablation.tokenize=zh"), ("ablation.tokenize is for bleu", "not for loss")),
        (("--set", "ablation.beam=2"), ("ablation.beam", "not for loss", "--metric bleu")),
        (("--metric", "bleu", "--set", "ablation.beam=0"), ("ablation.beam", "at least 1")),
        (
            *(
                (
                    "--metric",
                    "bleu",
                    "--set",
                    "ablation.beam=1",
                    "--set",
                    "ablation.length_penalty=1",
                ),
            ),
            ("ablation.length_penalty has no effect",),
        ),
    ],
)
def test_settings_that_do_not_fit(headtool, settings, words) -> None:
    refused(headtool("score", *MT, "--limit", 4, "--method", "ablation", *settings), words)


def test_a_classifier_has_no_bleu(headtool, bert: Path, reviews: Path) -> None:
    refused(
        headtool("ablate", "--model", bert, "--data", reviews, "--metric", "bleu"),
        ("'bleu' is not defined for classification", "accuracy"),
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    from headtool.builtin import mt

    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "checkpoint.pt").write_bytes((mt.model_folder() / "checkpoint.pt").read_bytes())
    (tmp_path / "three.en").write_text("the crane\n\nthe crane\n")
    (tmp_path / "three.ve").write_text("lan grulla\na\nb\n")
    (tmp_path / "two.ve").write_text("lan grulla\na\n")
    (tmp_path / "strange.en").write_text("鶴鶴 ☃☃\nzzqx\n")
    return tmp_path


def test_faulty_translation_data_is_one_line(headtool, files: Path) -> None:
    common = ("ablate", *GREEDY, "--heads", "cross.0.0", "--out", files / "run")
    before = sorted(files.rglob("*"))
    refused(
        headtool(*common, *MT, "--data", f"{files}/three.en,{files}/two.ve"),
        ("three.en' has 3 lines", "two.ve' has 2"),
    )
    refused(
        headtool(*common, *MT, "--data", f"{files}/strange.en,{files}/two.ve"),
        ("of the symbols", "unknown", "--bpe"),
    )
    refused(
        headtool(
            *common, *MT, "--data", f"{files}/three.en,{files}/three.ve", "--bpe", "characters"
        ),
        ("--bpe", "builtin:mt"),
    )
    checkpoint = f"fairseq:{files}/model/checkpoint.pt"
    data = ("--data", f"{files}/three.en,{files}/three.ve")
    refused(
        headtool(*common, "--model", checkpoint, *data),
        ("dict.src.txt and dict.tgt.txt", "--fairseq-data"),
    )
    for side in ("src", "tgt"):
        from headtool.builtin import mt

        name = f"dict.{side}.txt"
        (files / "model" / name).write_bytes((mt.model_folder() / name).read_bytes())
        before.append(files / "model" / name)
    refused(
        headtool(*common, "--model", checkpoint, *data, "--bpe", "characters"),
        ("unknown", "--bpe characters", "trained with"),
    )
    assert sorted(files.rglob("*")) == sorted(before)


def test_an_empty_source_line_and_unknown_characters_are_translated(document, files: Path) -> None:
    (files / "odd.en").write_text("the crane\n\n鶴\n" + "the crane " * 250 + "\nit sings\n")
    (files / "odd.ve").write_text("lan grulla\na\nb\nc\nd\n")
    found = document(
        *("ablate", *MT, *GREEDY, "--heads", "cross.0.0"),
        *("--data", f"{files}/odd.en,{files}/odd.ve"),
    )
    assert math.isfinite(found["whole"]["bleu"])
    assert found["provenance"]["data"]["examples"] == 5
