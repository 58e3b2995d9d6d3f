"""Ablation by BLEU, chrF and TER on the command line: numbers, runs, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
import transformers

from headtool.metrics.translation import BLEU
from headtool.quiet import silence
from headtool.results.runs import read_run

from ..support.translation import GREEDY, MT, deltas, refused


@pytest.fixture(scope="module", autouse=True)
def _fairseq() -> None:
    with silence():
        pytest.importorskip("fairseq")


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
    from headtool.models.fairseq.model import FairseqModel

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


# -- what is refused ------------------------------------------------------------------------------


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
