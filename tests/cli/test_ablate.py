"""``headtool ablate``: what it prints, writes and continues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtool.data import load_data
from headtool.engine.evaluation import evaluate
from headtool.heads import Head, HeadMask
from headtool.metrics import get_metric
from headtool.models import load_model
from headtool.results.runs import read_run


@pytest.fixture
def ablate(headtool, bert, reviews):
    """Run ``headtool ablate --format json`` on the classifier."""

    def run(*arguments: object) -> dict[str, Any]:
        done = headtool(
            *("ablate", "--model", bert, "--data", reviews, "--format", "json"), *arguments
        )
        assert done.code == 0, done.err
        return json.loads(done.out)

    return run


def rows(document: dict[str, Any], metric: str) -> dict[str, float]:
    return {
        f"{row['kind']}.{row['layer']}.{row['head']}": row["delta"]
        for row in document["ablation"]
        if row["metric"] == metric
    }


def test_deltas_are_masked_minus_whole_of_every_metric(ablate, bert, reviews) -> None:
    document = ablate()
    assert document["schema"] == "headtool/ablation/1"
    assert set(document["whole"]) == {"accuracy", "loss"}
    model = load_model(str(bert))
    examples = model.encode(load_data(str(reviews)))
    masks = [HeadMask.without(model.sites, [head]) for head in model.sites.heads]
    outcomes = evaluate(model, examples, masks)
    for name in ("accuracy", "loss"):
        metric = get_metric(name, task="classification")
        whole = metric.compute(outcomes.whole)
        assert document["whole"][name] == pytest.approx(whole)
        expected = {
            str(head): metric.compute(outcomes.row(i)) - whole
            for i, head in enumerate(model.sites.heads)
        }
        assert rows(document, name) == pytest.approx(expected)


def test_chosen_heads_and_kinds(ablate, headtool, bert, reviews) -> None:
    document = ablate("--heads", "enc-self.1.2,E:1:1")
    assert set(rows(document, "loss")) == {"enc-self.1.2", "enc-self.0.0"}
    assert rows(document, "loss")["enc-self.1.2"] == pytest.approx(
        rows(ablate(), "loss")["enc-self.1.2"], abs=1e-6
    )
    assert len(rows(ablate("--kind", "enc-self"), "loss")) == 8


def test_all_but_one_chooses_on_one_half_and_reports_on_the_other(ablate, bert, reviews) -> None:
    document = ablate("--all-but-one", "--metric", "loss", "--seed", "3")
    model = load_model(str(bert))
    examples = model.encode(load_data(str(reviews)))
    n = len(examples)
    order = np.random.default_rng(3).permutation(n)
    first, second = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
    for best in document["best"]:
        site = model.sites[best["layer"]]
        loss = []
        for head in site.heads:
            closed = [other for other in site.heads if other != head]
            outcomes = evaluate(model, examples, [HeadMask.without(model.sites, closed)])
            loss.append(outcomes.masked["loss"][0] - outcomes.whole["loss"])
        means = [values[first].mean() for values in loss]
        assert best["head"] == int(np.argmin(means))
        assert best["delta_chosen_on"] == pytest.approx(min(means), abs=1e-6)
        assert best["delta"] == pytest.approx(loss[best["head"]][second].mean(), abs=1e-6)


def test_rescale_and_replacement_have_an_effect(ablate) -> None:
    plain = rows(ablate("--all-but-one"), "loss")
    assert rows(ablate("--all-but-one", "--rescale"), "loss") != plain
    zero = rows(ablate(), "loss")
    for name in ("mean", "resample"):
        assert rows(ablate("--replacement", name), "loss") != zero


def test_the_run_holds_outcomes_and_no_unfinished_units(ablate, tmp_path: Path) -> None:
    document = ablate("--out", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    run = read_run(tmp_path / "run")
    outcomes = run.outcomes()
    assert [str(mask.closed[0]) for mask in outcomes.masks] == list(rows(document, "loss"))
    deltas = (outcomes.masked["loss"] - outcomes.whole["loss"]).mean(axis=1)
    assert deltas == pytest.approx(list(rows(document, "loss").values()))
    assert run.source["metric"] == "accuracy"


def test_an_interrupted_command_continues(
    headtool, bert, reviews, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.models.huggingface.model import HuggingFaceModel

    command = ("ablate", "--model", bert, "--data", reviews, "--batch-tokens", "20")
    straight = headtool(*command, "--format", "json")
    assert straight.code == 0, straight.err

    original, collated = HuggingFaceModel.collate, []

    def interrupt(self, examples, index):
        collated.append(index)
        if len(collated) == 4:
            raise KeyboardInterrupt
        return original(self, examples, index)

    monkeypatch.setattr(HuggingFaceModel, "collate", interrupt)
    stopped = headtool(*command, "--out", tmp_path / "run")
    assert stopped.code == 130
    assert stopped.err.startswith("interrupted; to continue: headtool ablate --model ")
    assert f"--out {tmp_path / 'run'}" in stopped.err
    kept = sorted(path.name for path in (tmp_path / "run.unfinished").glob("unit-*.npz"))
    assert kept == ["unit-000000.npz", "unit-000001.npz"]
    assert not (tmp_path / "run").exists()

    collated.clear()
    collated += range(3)
    for run in ("fresh", "other"):  # nothing was finished; nothing was to be kept
        stopped = headtool(*command, *(["--out", tmp_path / run] if run == "fresh" else []))
        assert stopped.err.startswith("interrupted; to start again: headtool ablate --model ")
        collated.clear()
        collated += range(3)

    monkeypatch.setattr(HuggingFaceModel, "collate", original)
    done = headtool(*command, "--out", tmp_path / "run", "--format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["ablation"] == json.loads(straight.out)["ablation"]
    assert not (tmp_path / "run.unfinished").exists()


def test_table_and_csv(headtool, bert, reviews) -> None:
    command = ("ablate", "--model", bert, "--data", reviews)
    table = headtool(*command)
    assert table.code == 0, table.err
    assert "change of accuracy when this head is closed" in table.out
    alone = headtool(*command, "--all-but-one")
    assert "the best single head of each site" in alone.out
    lines = headtool(*command, "--format", "csv").out.splitlines()
    assert lines[0] == "kind,layer,head,delta,stderr,metric"
    assert len(lines) == 1 + 2 * 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--heads", "enc-self.9.1"), ("no head enc-self.9.1", "enc-self 2 x 4")),
        (("--heads", "first"), ("'first' is not a head", "enc-self.3.7")),
        (("--heads", "enc-self.0.1,enc-self.0.1"), ("enc-self.0.1", "twice")),
        (("--heads", "enc-self.0.1", "--all-but-one"), ("--heads and --all-but-one",)),
        (("--heads", "enc-self.0.1", "--kind", "enc-self"), ("--heads and --kind",)),
        (("--rescale",), ("--rescale is for --all-but-one",)),
        (("--replacement", "men"), ("unknown replacement 'men'", "did you mean 'mean'")),
        (("--metric", "bleu"), ("bleu",)),
        (("--force",), ("--force", "--out")),
        (("--limit", "1", "--all-but-one"), ("needs 2 examples", "got 1")),
    ],
)
def test_bad_input(headtool, bert, reviews, tmp_path: Path, arguments, words) -> None:
    done = headtool("ablate", "--model", bert, "--data", reviews, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert all(word in done.err for word in words), done.err


def test_units_of_another_command_are_refused(headtool, bert, reviews, tmp_path: Path) -> None:
    from headtool.engine.store import UnitStore

    with UnitStore(tmp_path / "run.unfinished", {"other": "command"}):
        pass
    done = headtool("ablate", "--model", bert, "--data", reviews, "--out", tmp_path / "run")
    assert done.code == 2
    assert "unfinished run of something else" in done.err
    assert (tmp_path / "run.unfinished" / "description.json").exists()


def test_heads_parse_both_ways() -> None:
    assert Head.parse("E:1:1") == Head("enc-self", 0, 0)


def test_sequential_decides_with_fewer_runs_and_agrees_with_all_of_them(
    headtool, bert, reviews, tmp_path: Path
) -> None:
    lines = reviews.read_text(encoding="utf-8").splitlines()
    many = tmp_path / "many.tsv"
    many.write_text("\n".join([lines[0], *lines[1:] * 40]) + "\n", encoding="utf-8")
    command = ("ablate", "--model", bert, "--data", many)
    done = headtool(
        *command, "--sequential", "--margin", "0.1", "--format", "json", "--out", tmp_path / "run"
    )
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["provenance"]["share_of_runs"] < 0.9
    full = rows(json.loads(headtool(*command, "--format", "json").out), "accuracy")
    decided = [row for row in document["tests"] if row["verdict"] != "undecided"]
    assert decided
    for row in decided:
        delta = full[f"{row['kind']}.{row['layer']}.{row['head']}"]
        wanted = {"needed": delta < 0, "harmful": delta > 0, "removable": delta > -0.1}
        assert wanted[row["verdict"]], row
    saved = read_run(tmp_path / "run").table("sequential")
    assert saved["verdict"].tolist() == [row["verdict"] for row in document["tests"]]
    table = headtool(*command, "--sequential", "--margin", "0.1")
    assert "of the runs of a full ablation" in table.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--margin", "0.1"), ("--margin is for --sequential",)),
        (("--sequential", "--all-but-one"), ("--sequential decides single heads",)),
        (("--sequential", "--metric", "loss"), ("--sequential decides single heads",)),
        (("--sequential", "--replacement", "mean"), ("--sequential decides single heads",)),
        (("--sequential", "--margin", "2"), ("margin", "2")),
    ],
)
def test_bad_sequential_input(headtool, bert, reviews, arguments, words) -> None:
    done = headtool("ablate", "--model", bert, "--data", reviews, *arguments)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert all(word in done.err for word in words), done.err


def test_a_run_that_another_process_finished_is_not_computed_again(
    headtool, bert, reviews, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headtool.engine.store import UnitStore

    original = UnitStore.__enter__

    def enter_late(self):
        (tmp_path / "run").mkdir()
        return original(self)

    monkeypatch.setattr(UnitStore, "__enter__", enter_late)
    done = headtool("ablate", "--model", bert, "--data", reviews, "--out", tmp_path / "run")
    assert done.code == 2
    assert "run exists already" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
