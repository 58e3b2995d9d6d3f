"""``--limit``: the same rows everywhere, no class left out unsaid, and in the record."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from headtool.data import load_data
from headtool.results.runs import read_run

PARTS = ("weight", "bias")
CLASSES = ("neutral", "entailment", "contradiction")
QUICK = ("--method", "magnitude", "--steps", "100%", "--draws", 2, "--resamples", 20)


@pytest.fixture
def by_label(workplace: Path) -> str:
    """A file of 300 examples, sorted by label."""
    data = load_data("builtin:nli/matched", limit=300)
    columns = (data.columns[name] for name in ("label", "text_a", "text_b"))
    rows = sorted(zip(*columns, strict=True), key=lambda row: CLASSES.index(row[0]))
    lines = [f"{first}\t{second}\t{label}\n" for label, first, second in rows]
    Path("sorted.tsv").write_text("text_a\ttext_b\tlabel\n" + "".join(lines))
    return "sorted.tsv"


def end_of(document: dict[str, Any]) -> float:
    """What is left of the accuracy without any head."""
    return next(row["value"] for row in document["curves"] if row["budget"] == 32)


def test_a_file_sorted_by_label_is_no_trap(document: Any, headtool: Any, by_label: str) -> None:
    curve = ("curve", *QUICK, "--data", by_label, "--limit", 60)
    drawn = document(*curve)
    # Without heads, the model gives one answer, which is right for a class of three.
    assert end_of(drawn) == pytest.approx(1 / 3, abs=0.1)
    assert not [note for note in drawn["provenance"]["notes"] if "class" in note]
    first = headtool(*curve, "--limit-order", "first", "--format", "json")
    notes = json.loads(first.out)["provenance"]["notes"]
    assert end_of(json.loads(first.out)) in (0, 1)
    assert any("`limit` 60 leaves out every example of 'contradiction' (100)" in n for n in notes)
    assert any("all 60 examples are of class 'neutral'" in note for note in notes)
    assert "--limit 60 leaves out every example of" in first.err
    assert "or let it draw (--limit-order seeded)" in first.err


def test_every_command_sees_the_same_rows(headtool: Any, by_label: str) -> None:
    expected = load_data(by_label, limit=30, seed=5)
    assert Counter(expected.columns["label"]) == dict.fromkeys(CLASSES, 10)
    common = ("--data", by_label, "--limit", 30, "--seed", 5)
    commands: dict[str, tuple[object, ...]] = {
        "score": ("--method", "magnitude"),
        "ablate": ("--heads", "enc-self.0.0"),
        "roles": ("--role", "separator"),
    }
    sources = []
    for name, options in commands.items():
        assert headtool(name, *common, *options, "--out", name).code == 0
        ((source,),) = [tuple(read_run(Path(name)).manifest["provenance"].values())]
        sources.append(source["data"])
    assert {source["sha256"] for source in sources} == {expected.fingerprint}
    assert expected.drawn is not None
    for source in sources:
        assert source["drawn"] == expected.drawn.described()
        assert source["classes"] == dict.fromkeys(sorted(CLASSES), 10)
    assert headtool("curve", *QUICK, *common, "--out", "curve").code == 0
    settings = read_run(Path("curve")).manifest["provenance"]["curve"]
    halves = [settings["selection_source"], settings["sources"][by_label]]
    both = Counter(halves[0]["classes"]) + Counter(halves[1]["classes"])
    assert both == dict.fromkeys(CLASSES, 10)
    assert [half["drawn"] for half in halves] == [expected.drawn.described()] * 2
    drawn = "30 of 300, drawn by seed 5, each class in its share"
    page = Path("curve/report.html").read_text()
    assert f"The examples of sorted.tsv are {drawn}." in page
    assert f"15 examples, from {drawn}" in page
    shown = headtool("score", *common, "--method", "magnitude")
    assert f"30 examples ({drawn})" in shown.out


def test_an_unfinished_run_does_not_go_on_with_other_rows(
    headtool: Any, by_label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.experiments import ablation

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    common = (
        "ablate",
        "--data",
        by_label,
        "--limit",
        12,
        "--heads",
        "enc-self.0.0",
        "--out",
        "run",
    )
    with monkeypatch.context() as patch:
        patch.setattr(ablation, "ablation_frame", stop)
        assert headtool(*common).code == 130
    other = headtool(*common, "--limit-order", "first")
    assert other.code == 2, other.err
    assert "run" in other.err
    assert headtool(*common).code == 0


def test_a_half_without_a_class(headtool: Any, workplace: Path) -> None:
    rows = [f"a {row}\tb\tneutral\n" for row in range(20)] + ["a c\tb\tentailment\n"]
    Path("rare.tsv").write_text("text_a\ttext_b\tlabel\n" + "".join(rows))
    done = headtool("curve", *QUICK, "--data", "rare.tsv", "--format", "json")
    assert done.code == 0, done.err
    (note,) = [
        note for note in json.loads(done.out)["provenance"]["notes"] if "no example of" in note
    ]
    assert "no example of 'entailment' (1) is among the" in note
    assert "('neutral' (" in note


def test_targets_of_a_regression_are_no_classes(headtool: Any, bert: Path, workplace: Path) -> None:
    shutil.copytree(bert, "model")
    weights = load_file("model/model.safetensors")
    weights |= {f"classifier.{part}": weights[f"classifier.{part}"][:1] for part in PARTS}
    save_file(weights, "model/model.safetensors", metadata={"format": "pt"})
    config = json.loads(Path("model/config.json").read_text())
    config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    Path("model/config.json").write_text(json.dumps(config))
    Path("alike.tsv").write_text("text\tlabel\n" + "a film\t0.5\n" * 6 + "b film\tbad\n")
    common = ("--model", "model", "--data", "alike.tsv", "--format", "json")
    done = headtool("score", *common, "--limit", 4, "--limit-order", "first")
    assert done.code == 0, done.err
    assert "class" not in done.err
    assert json.loads(done.out)["provenance"]["gradient"]["data"]["classes"] is None
    # A row that is drawn keeps the number that it has in the file.
    seeds = [headtool("score", *common, "--limit", 4, "--seed", seed) for seed in range(4)]
    faults = [one.err for one in seeds if one.code == 2]
    assert faults
    assert all("'alike.tsv', example 7: the label 'bad'" in fault for fault in faults)
