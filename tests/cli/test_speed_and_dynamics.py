"""``headtool speed`` and ``headtool dynamics`` on small models."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
import torch
import transformers


def document(done) -> dict:
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture
def mask(workplace: Path) -> Path:
    path = workplace / "mask.txt"
    path.write_text("E:1:1 E:2:2 E:2:4")
    return path


@pytest.fixture
def trainer_output(workplace: Path, bert: Path) -> Path:
    """Checkpoints of a Trainer: the model, and the same with less and less of its first layer."""
    place = workplace / "run"
    for step, factor in ((5, 1.0), (40, 0.5), (200, 0.1)):
        shutil.copytree(bert, place / f"checkpoint-{step}")
        model = transformers.AutoModelForSequenceClassification.from_pretrained(bert)
        with torch.no_grad():
            model.get_submodule("bert.encoder.layer.0.attention.output.dense").weight.mul_(factor)
        model.save_pretrained(place / f"checkpoint-{step}")
    (place / "runs").mkdir()
    return place


def test_speed(headtool, mask: Path, bert: Path) -> None:
    command = f"speed --model {bert} --mask {mask} --batch-sizes 1,3 --length 8 --repetitions 2"
    found = document(headtool(*shlex.split(command), "--format", "json"))
    assert found["schema"] == "headtool/speed/1"
    assert [row["model"] for row in found["speed"]] == ["whole", "masked", "pruned"] * 2
    assert {row["batch_size"] for row in found["speed"]} == {1, 3}
    done = headtool(*shlex.split(command), "--out", "runs/speed")
    assert done.code == 0
    assert "enc-self 2 x 4" in done.out
    assert (Path("runs") / "speed" / "speed.parquet").is_file()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("", ["--pruned and --mask", "neither"]),
        ("--mask mask.txt --pruned x", ["both"]),
        ("--mask mask.txt --batch-sizes 1,none", ["--batch-sizes", "'none'"]),
        ("--mask mask.txt --batch-sizes 0", ["--batch-sizes", "'0'"]),
        ("--mask mask.txt --work training", ["'training'", "decode"]),
        ("--mask mask.txt --work decode --length 8", ["does not decode"]),
        ("--mask mask.txt --beam 3", ["--beam is for --work decode"]),
        ("--pruned nowhere", ["nowhere"]),
        ("--mask mask.txt --repetitions 0", ["--repetitions must be at least 1"]),
    ],
)
def test_bad_speed(headtool, mask: Path, bert: Path, arguments: str, parts) -> None:
    done = headtool("speed", "--model", bert, *shlex.split(arguments), "-q")
    assert done.code == 2
    assert len(done.err.strip().splitlines()) == 1
    for part in parts:
        assert part in done.err


def test_dynamics(headtool, trainer_output: Path, reviews: Path) -> None:
    command = f"dynamics --checkpoints {trainer_output} --data {reviews} --steps 50%"
    found = document(headtool(*shlex.split(command), "--format", "json"))
    assert found["schema"] == "headtool/dynamics/1"
    names = [f"checkpoint-{step}" for step in (5, 40, 200)]
    assert [row["checkpoint"] for row in found["prunability"]] == names
    assert [row["removed"] for row in found["curves"]] == [0, 4, 8] * 3
    assert all(row["relative"] == 1 for row in found["curves"] if row["removed"] == 0)
    assert len(found["scores"]) == 3 * 8
    assert len(found["rank_stability"]) == 3
    done = headtool(*shlex.split(command), "--out", "dyn", "--figure", "dyn.svg")
    assert done.code == 0, done.err
    figure = Path("dyn.svg").read_text()
    assert figure.count("checkpoint-40") == 2  # a curve, and a point of the other panel
    assert "checkpoint-200" in done.out
    assert {path.stem for path in Path("dyn").glob("*.parquet")} == {
        "checkpoint_scores",
        "checkpoint_curves",
        "prunability",
        "rank_stability",
    }
    assert not Path("dyn.unfinished").exists()


def test_a_figure_of_an_interrupted_run_is_drawn_again(
    headtool, trainer_output: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy tells it from a figure of something else, which stays."""
    from headtool.experiments import dynamics

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = f"dynamics --checkpoints {trainer_output} --data {reviews} --steps 50% --out dyn "
    options = "--method magnitude --figure dyn.svg -q"
    with monkeypatch.context() as patch:
        patch.setattr(dynamics, "write_run", interrupted)
        assert headtool(*shlex.split(command + options)).code == 130
    assert {path.name for path in Path().iterdir()} == {"run", "dyn.svg", "dyn.unfinished"}
    Path("dyn.svg").write_text("mine")
    refused = headtool(*shlex.split(command + options))
    assert refused.code == 2
    assert "dyn.svg exists already" in refused.err
    shutil.copy(Path("dyn.unfinished") / "figure", "dyn.svg")
    done = headtool(*shlex.split(command + options))
    assert done.code == 0, done.err
    assert {path.name for path in Path().iterdir()} == {"run", "dyn.svg", "dyn"}


def test_curves_are_those_of_the_masks(headtool, trainer_output: Path, reviews: Path) -> None:
    """All heads removed: what remains is the same for all, as only attention differs."""
    command = f"dynamics --checkpoints '{trainer_output}/checkpoint-*' --data {reviews} "
    options = "--steps 100% --metric loss --method ablation --format json"
    found = document(headtool(*shlex.split(command + options)))
    floors = [row["value"] for row in found["curves"] if row["removed"] == 8]
    assert floors[0] == pytest.approx(floors[1], rel=1e-5)
    assert floors[0] == pytest.approx(floors[2], rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("--checkpoints nowhere/*", ["'nowhere/*' names 0 checkpoints"]),
        ("--checkpoints run", ["--data is missing"]),
        ("--checkpoints run --data {reviews} --method gardient", ["'gardient'", "gradient"]),
        ("--checkpoints run --data {reviews} --steps 0", ["--steps"]),
        ("--checkpoints run --data {reviews} --kind cross", ["no cross attention"]),
        ("--checkpoints run --data {reviews} --beam 2", ["--beam"]),
        ("--checkpoints run --data {reviews} --figure x.gif", ["x.gif", "'gif'", "pdf"]),
        ("--checkpoints run --data {reviews} --figure no/x.pdf", ["no/x.pdf", "make it first"]),
    ],
)
def test_bad_dynamics(headtool, trainer_output: Path, reviews: Path, arguments: str, parts) -> None:
    done = headtool("dynamics", *shlex.split(arguments.format(reviews=reviews)), "-q")
    assert done.code == 2, done.err
    assert len(done.err.strip().splitlines()) == 1
    for part in parts:
        assert part in done.err


def test_checkpoints_of_other_models(headtool, trainer_output, reviews, gpt2, llama) -> None:
    shutil.rmtree(trainer_output / "checkpoint-40")
    smaller = transformers.BertConfig.from_pretrained(trainer_output / "checkpoint-5")
    smaller.num_attention_heads = 2
    transformers.BertForSequenceClassification(smaller).save_pretrained(
        trainer_output / "checkpoint-200"
    )
    command = f"dynamics --checkpoints {trainer_output} --data {reviews} --out dyn -q"
    done = headtool(*shlex.split(command))
    assert done.code == 2
    assert "checkpoint-200 has other heads (enc-self 2 x 2)" in done.err
    assert [path.name for path in Path().iterdir()] == ["run"]
    (trainer_output / "checkpoint-200" / "model.safetensors").write_bytes(b"cut short")
    assert headtool(*shlex.split(command)).code == 2
    assert [path.name for path in Path().iterdir()] == ["run"]
