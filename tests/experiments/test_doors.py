"""Every command is its Python function: both give the same tables and the same settings."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headtool as door
from headtool.cli.main import app
from headtool.engine.units import Unit, UnitResult, in_turn

from ..support.modules import MODULES


@dataclass(frozen=True)
class Place:
    """What commands and functions are tried on."""

    model: str
    data: str
    other: str
    runs: Path


@pytest.fixture(scope="module")
def place(bert: Path, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A model, two data sets, and runs on them."""
    runs = tmp_path_factory.mktemp("doors")
    lines = reviews.read_text(encoding="utf-8").splitlines()
    other = runs / "other.tsv"
    other.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n", encoding="utf-8")
    made = Place(str(bert), str(reviews), str(other), runs)
    door.score(made.model, made.data, methods=["magnitude"], out=runs / "scores")
    door.ablate(made.model, made.data, out=runs / "ablation")
    door.ablate(made.model, made.other, out=runs / "ablation-other")
    door.roles(made.model, made.data, out=runs / "saved-roles")
    (runs / "mask.txt").write_text("E:1:1 E:2:2")
    for step in (1, 2):
        shutil.copytree(bert, runs / "trained" / f"checkpoint-{step}")
    return made


@pytest.fixture(autouse=True)
def _there(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the folder of the runs."""
    monkeypatch.chdir(place.runs)


CASES: list[tuple[str, Callable[[Place], Any]]] = [
    (
        "score --model {model} --data {data} --method magnitude,gradient --limit 6 --seed 3",
        lambda at: door.score(
            at.model, at.data, methods=["magnitude", "gradient"], limit=6, seed=3
        ),
    ),
    ("ablate --model {model} --data {data}", lambda at: door.ablate(at.model, at.data)),
    (
        "ablate --model {model} --data {data} --all-but-one --rescale --metric loss --seed 2",
        lambda at: door.ablate(
            at.model, at.data, all_but_one=True, rescale=True, metric="loss", seed=2
        ),
    ),
    (
        "ablate --model {model} --data {data} --heads enc-self.0.1 --replacement mean",
        lambda at: door.ablate(at.model, at.data, heads=["enc-self.0.1"], replacement="mean"),
    ),
    (
        "ablate --model {model} --data {data} --sequential --margin 0.2",
        lambda at: door.ablate_sequentially(at.model, at.data, margin=0.2),
    ),
    (
        "test ablation --metric loss --correction holm --margin 0.1",
        lambda at: door.test("ablation", metric="loss", correction="holm", margin=0.1),
    ),
    (
        "test ablation --compat sacrebleu-paired-ar --resamples 50",
        lambda at: door.test_as("sacrebleu-paired-ar", "ablation", resamples=50),
    ),
    (
        "correlate --model {model} --data {data} --data {other} --metric loss --resamples 20 "
        "--permutations 20 --limit 5",
        lambda at: door.correlate(
            at.model, [at.data, at.other], metric="loss", resamples=20, permutations=20, limit=5
        ),
    ),
    (
        "correlate ablation ablation-other --metric loss --resamples 20 --permutations 20",
        lambda at: door.correlate_runs(
            ["ablation", "ablation-other"], metric="loss", resamples=20, permutations=20
        ),
    ),
    (
        "prune --model {model} --scores scores --remove 40% --data {data} --rescale least-squares",
        lambda at: door.prune(
            at.model, scores="scores", remove="40%", data=at.data, rescale="least-squares"
        ),
    ),
    (
        "prune --model {model} --mask mask.txt --out smaller --force",
        lambda at: door.prune(at.model, mask="mask.txt", out="smaller", force=True),
    ),
    (
        "dynamics --checkpoints trained --data {data} --method magnitude --steps 50%",
        lambda at: door.dynamics("trained", at.data, method="magnitude", steps="50%"),
    ),
    (
        "roles --model {model} --data {data} --role separator --threshold separator=0.7",
        lambda at: door.roles(
            at.model, at.data, roles=["separator"], thresholds={"separator": 0.7}
        ),
    ),
    ("roles saved-roles", lambda at: door.roles_of_run("saved-roles")),
    (
        "compare --model {model} --data {data} --data {other} --method gradient,magnitude "
        "--steps 50% --draws 2 --resamples 20",
        lambda at: door.compare(
            at.model,
            [at.data, at.other],
            methods=["gradient", "magnitude"],
            steps="50%",
            draws=2,
            resamples=20,
        ),
    ),
    (
        "curve --model {model} --data {data} --method magnitude --steps 50% --draws 2 "
        "--resamples 20 --seed 2",
        lambda at: door.curve(
            at.model, at.data, methods=["magnitude"], steps="50%", draws=2, resamples=20, seed=2
        ),
    ),
    ("show scores", lambda at: door.show("scores")),
    ("env", lambda at: door.env()),
    ("methods", lambda at: door.list_methods()),
    ("methods lrp", lambda at: door.list_methods(["lrp"])),
    ("heads --model {model} --kind enc-self", lambda at: door.list_heads(at.model)),
]


def printed(headtool: Any, command: str, at: Place) -> dict[str, Any]:
    done = headtool(*shlex.split(command.format(**vars(at))), "--format", "json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("command", "call"), CASES, ids=[command[:40] for command, _ in CASES])
def test_a_command_prints_what_its_function_returns(
    headtool: Any, place: Place, command: str, call: Callable[[Place], Any]
) -> None:
    document = printed(headtool, command, place)
    result = call(place)
    assert document == json.loads(json.dumps(result.document(), allow_nan=False))
    assert document["schema"].startswith("headtool/")


@pytest.mark.slow
def test_speed(headtool: Any, place: Place) -> None:
    """Times differ from run to run; all else is the same."""
    document = printed(
        headtool,
        "speed --model {model} --mask mask.txt --batch-sizes 1,2 --length 8 --repetitions 2",
        place,
    )
    found = door.speed(
        place.model, mask="mask.txt", batch_sizes=[1, 2], length=8, repetitions=2
    ).document()
    assert document["provenance"] == found["provenance"]
    for row, other in zip(document["speed"], found["speed"], strict=True):
        same = ("work", "batch_size", "model")
        assert row.keys() == other.keys()
        assert [row[name] for name in same] == [other[name] for name in same]


def test_validate(headtool: Any, place: Place) -> None:
    """Times differ from run to run; all else is the same."""
    command = "validate --methods magnitude,taylor --set taylor.granularity=element"
    document = printed(headtool, f"{command} --models 2 --limit 8 --seed 3", place)
    methods = ["magnitude", door.get_method("taylor")(granularity="element")]
    found = door.validate(methods, models=2, limit=8, seed=3).document()
    assert document["provenance"] == found["provenance"]
    assert document["heads"] == found["heads"]
    for row, other in zip(document["validation"], found["validation"], strict=True):
        assert row | {"seconds": 0} == other | {"seconds": 0}
    assert {row["variant"] for row in found["validation"]} == {"", "granularity=element"}


@pytest.mark.slow
@pytest.mark.parametrize("format", ["html", "markdown"])
def test_report(headtool: Any, place: Place, format: str) -> None:
    done = headtool("report", "ablation", "--format", format)
    assert done.code == 0, done.err
    written = Path(done.out.strip())
    text = written.read_text(encoding="utf-8")
    again = door.write_report("ablation", format=format, force=True)
    assert again == written
    assert again.read_text(encoding="utf-8") == text


def test_every_command_is_compared() -> None:
    commands = {str(command.name) for command in app.registered_commands}
    compared = {command.split()[0] for command, _ in CASES}
    assert compared | {"speed", "validate", "report", "import", "export"} == commands


RUN_A_MODEL: list[Callable[..., Any]] = [
    lambda at, **more: door.score(at.model, at.data, **more),
    lambda at, **more: door.ablate(at.model, at.data, **more),
    lambda at, **more: door.ablate_sequentially(at.model, at.data, **more),
    lambda at, **more: door.correlate(
        at.model, [at.data, at.other], resamples=20, permutations=20, **more
    ),
    lambda at, **more: door.compare(
        at.model, at.data, methods=["magnitude"], steps="50%", draws=1, resamples=20, **more
    ),
    lambda at, **more: door.curve(
        at.model, at.data, methods=["magnitude"], steps="50%", draws=1, resamples=20, **more
    ),
    lambda at, **more: door.prune(at.model, mask="mask.txt", data=at.data, **more),
    lambda at, **more: door.dynamics("trained", at.data, method="magnitude", steps="50%", **more),
    lambda at, **more: door.roles(at.model, at.data, roles=["separator"], **more),
]


@pytest.mark.parametrize("call", RUN_A_MODEL)
def test_whoever_runs_the_units_is_asked(place: Place, call: Callable[..., Any]) -> None:
    asked: list[int] = []

    def execute(
        units: Sequence[Unit], work: Callable[[Unit], UnitResult]
    ) -> Iterator[tuple[Unit, UnitResult]]:
        asked.append(len(units))
        return in_turn(units, work)

    found = call(place, workers=execute)
    assert sum(asked) > 0
    assert json.dumps(found.document()) == json.dumps(call(place).document())


@pytest.mark.slow
def test_no_module_but_the_command_lines_imports_typer() -> None:
    modules = sorted(name for name in MODULES if name.split(".")[1:2] != ["cli"])
    modules.remove("headtool.__main__")
    assert "headtool.experiments.roles" in modules
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    if not name.startswith('headtool.models.fairseq'):\n"
        "        importlib.import_module(name)\n"
        "print('typer' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[-2] == "False"
