"""``headtool methods``, and a method that another package registers."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..support.damage import complaint

EXAMPLE = Path(__file__).resolve().parents[1] / "example_package"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that registers the method ``depth``."""
    monkeypatch.syspath_prepend(EXAMPLE)
    yield
    sys.modules.pop("example_depth", None)


def listed(headtool) -> dict[str, dict[str, object]]:
    done = headtool("methods", "--format", "json")
    assert done.code == 0
    assert done.err == ""
    document = json.loads(done.out)
    assert document["schema"] == "headtool/methods/1"
    assert "headtool" in document["provenance"]["versions"]
    return {method["name"]: method for method in document["methods"]}


def test_json_lists_every_option_with_default_and_help(headtool) -> None:
    found = listed(headtool)
    assert list(found) == [
        *(
            "ablation",
            "activation",
            "attribution",
            "confidence",
            "dsp",
            "fisher",
            "flap",
            "gates",
            "gradient",
            "integrated",
            "lrp",
            "magnitude",
            "random",
        ),
        *("retrieval", "shapley", "taylor", "wanda"),
    ]
    options = {
        f"{name}.{option['name']}": option["default"]
        for name, method in found.items()
        for option in method["options"]
    }
    # As README and METHODS have them; a changed default is a change for users.
    assert options == {
        "ablation.signal": "metric",
        "ablation.replacement": "zero",
        "ablation.optimal_steps": 50,
        "ablation.beam": None,
        "ablation.length_penalty": None,
        "ablation.max_length": None,
        "ablation.tokenize": "13a",
        "activation.variant": "minitron",
        "attribution.baseline": "zero",
        "attribution.backward": "gradient",
        "attribution.sign": "absolute",
        "confidence.statistic": "max",
        "confidence.exclude": "eos",
        "dsp.train": "gates",
        "dsp.steps": 400,
        "dsp.batch_size": 32,
        "dsp.gate_lr": 0.05,
        "dsp.weight_lr": 3e-5,
        "dsp.label_smoothing": 0.0,
        "dsp.holdout": 0.2,
        "dsp.scratch_steps": 0,
        "dsp.scratch_batch_size": None,
        "dsp.scratch_lr": None,
        "dsp.scratch_warmup": None,
        "dsp.heads": None,
        "dsp.variant": "gumbel",
        "dsp.temperature": None,
        "fisher.granularity": "batch",
        "fisher.batch_size": 32,
        "fisher.samples": 2048,
        "fisher.heads": None,
        "flap.normalize": "layer",
        "flap.power": 1,
        "gates.lambda": None,
        "gates.heads": None,
        "gates.penalty": None,
        "gates.train": "gates",
        "gates.init": "open",
        "gates.sweep": None,
        "gates.steps": 400,
        "gates.batch_size": 32,
        "gates.gate_lr": 0.05,
        "gates.weight_lr": 3e-5,
        "gates.label_smoothing": 0.0,
        "gates.holdout": 0.2,
        "gates.scratch_steps": 0,
        "gates.scratch_batch_size": None,
        "gates.scratch_lr": None,
        "gates.scratch_warmup": None,
        "gradient.granularity": "token",
        "gradient.normalize": "layer",
        "gradient.batch_size": 32,
        "integrated.path": "gates",
        "integrated.ig_steps": 10,
        "integrated.sign": "absolute",
        "lrp.rule": "attnlrp",
        "lrp.sign": "absolute",
        "shapley.signal": "metric",
        "shapley.permutations": 20,
        "shapley.stderr": None,
        "shapley.tolerance": 0.02,
        "ablation.screen": None,
        "ablation.screen_by": "attribution",
        "ablation.screen_cut": 0.5,
        "gates.target": None,
        "retrieval.needles": 20,
        "retrieval.tokens": 8,
        "retrieval.cue": 2,
        "retrieval.lengths": None,
        "retrieval.needle": "text",
        "retrieval.share": "copied",
        "integrated.baseline": "zero",
        "taylor.granularity": "group",
        "taylor.batch_size": 8,
    }
    for method in found.values():
        assert method["summary"]
        assert method["reference"]
        assert all(option["help"] for option in method["options"])
    granularity = found["gradient"]["options"][0]
    assert granularity["choices"] == ["token", "example", "batch", "cumulative"]


def test_csv_says_the_same(headtool) -> None:
    done = headtool("methods", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    expected = [
        (name, option["name"], "" if option["default"] is None else str(option["default"]))
        for name, method in listed(headtool).items()
        for option in method["options"]
    ]
    assert [(row["method"], row["name"], row["default"]) for row in rows] == expected
    assert rows[0]["choices"] == "metric loss"


def test_table_shows_options_as_they_are_set(headtool) -> None:
    done = headtool("methods")
    assert done.err == ""
    lines = [line.strip() for line in done.out.splitlines()]
    assert any(line.startswith("gradient.granularity=token ") for line in lines)
    assert any(line.startswith("gates.heads=none ") for line in lines)
    assert "[token | example | batch | cumulative]" in done.out
    assert "--set METHOD.OPTION=VALUE" in lines[-1]


def test_methods_that_are_named_are_explained(headtool) -> None:
    done = headtool("methods", "lrp", "random", "lrp")
    assert done.err == ""
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines if line[:1].isalpha()] == ["lrp", "random", "Set"]
    assert "  A higher score means more important. With sign=signed" in done.out  # no ``markup``
    assert "    lrp.rule=attnlrp" in done.out
    assert "gradient." not in done.out
    found = json.loads(headtool("methods", "fisher", "--format", "json").out)["methods"]
    assert [method["name"] for method in found] == ["fisher"]


def test_an_unknown_name_is_one_line(headtool) -> None:
    done = headtool("methods", "lpr")
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: unknown method 'lpr'; did you mean 'lrp'?")


def test_every_option_can_be_set_to_its_default(headtool, bert, reviews) -> None:
    for_classifiers = [name for name in listed(headtool) if name != "retrieval"]
    settings = [
        f"{name}.{option['name']}={'none' if option['default'] is None else option['default']}"
        for name, method in listed(headtool).items()
        for option in method["options"]
        if option["name"] != "steps" and name in for_classifiers
    ]
    words = [word for setting in settings for word in ("--set", setting)]
    done = headtool(
        *("score", "--model", bert, "--data", reviews, "--format", "json"),
        *("--method", ",".join(for_classifiers), *words),
        *("--set", "gates.steps=2", "--set", "dsp.steps=2"),
    )
    assert done.code == 0, done.err


@pytest.mark.usefixtures("example")
def test_a_method_of_another_package_is_like_any_other(headtool, bert, reviews, tmp_path) -> None:
    assert listed(headtool)["depth"] == {
        "name": "depth",
        "summary": "layer of the head",
        "reference": "an example",
        "options": [{"name": "slope", "default": 1.0, "choices": [], "help": "score of a layer"}],
    }
    arguments = ["score", "--model", bert, "--data", reviews, "--method", "depth,confidence"]
    arguments += ["--set", "depth.slope=2.5"]
    document = json.loads(headtool(*arguments, "--format", "json").out)
    assert document["provenance"]["depth"]["options"] == {"slope": 2.5}
    scores = {
        (row["layer"], row["head"]): row["score"]
        for row in document["scores"]
        if row["method"] == "depth"
    }
    assert scores == {(layer, head): 2.5 * layer for layer in (0, 1) for head in range(4)}
    done = headtool(*arguments, "--out", tmp_path / "run")
    assert done.code == 0
    assert "slope=2.5" in done.out


@pytest.mark.usefixtures("example")
def test_its_options_are_checked_as_well(headtool) -> None:
    done = headtool("score", "--method", "depth", "--set", "depth.slope=steep")
    assert done.code == 2
    assert done.err == "error: depth.slope must be a number, got 'steep'\n"


def test_a_broken_package_gives_one_line(headtool, tmp_path, monkeypatch) -> None:
    info = tmp_path / "example_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headtool.methods]\nbroken = example_gone:Gone\n")
    monkeypatch.syspath_prepend(tmp_path)
    for command in (["methods"], ["score", "--method", "broken"]):
        done = headtool(*command)
        assert done.code == 2
        assert done.out == ""
        assert done.err.startswith("error: method 'broken' (example_gone:Gone) cannot be loaded")
        assert done.err.count("\n") == 1


DOCUMENT = (EXAMPLE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(language: str, part: str) -> str:
    """The block of code in CONTRIBUTING that holds `part`."""
    found = re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    (only,) = [text for text in found if part in text]
    return str(only)


def installed(folder: Path, code: str, entries: dict[str, str]) -> None:
    """Lay out a package of one module as pip does."""
    (folder / "example_depth.py").write_text(code)
    info = folder / "example_depth-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example-depth\nVersion: 1.0\n")
    lines = "".join(f"{name} = {place}\n" for name, place in entries.items())
    (info / "entry_points.txt").write_text(f"[headtool.methods]\n{lines}")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path for a package of another project."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("example_depth", None)


def test_the_package_in_the_documents_works(headtool, bert, reviews, package: Path) -> None:
    code = block("python", "class Depth")
    assert code == (EXAMPLE / "example_depth.py").read_text()
    project = tomllib.loads(block("toml", "example-depth"))
    assert project["tool"]["setuptools"]["py-modules"] == ["example_depth"]
    installed(package, code, project["project"]["entry-points"]["headtool.methods"])
    words = shlex.split(block("sh", "depth.slope").splitlines()[0])[1:]
    done = headtool(*words, "--model", bert, "--data", reviews, "--format", "csv")
    assert done.code == 0, done.err
    scores = {row["score"] for row in csv.DictReader(io.StringIO(done.out))}
    assert scores == {"0.0", "2.5"}


SCORE = "return Scored(self.slope * layers, np.full(len(layers), np.nan))"


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (
            "return Scored(layers[1:], layers)",
            "returned (7,) as 'score' where (8,) is one",
        ),
        ("return layers", "returned ndarray instead of a Scored"),
        ("raise KeyError('no such\\nlayer')", r"raised KeyError: 'no such\nlayer'"),
        ("return Scored(layers + np.inf, layers)", "returned an infinite score"),
    ],
)
def test_what_a_package_does_wrong_is_one_line(
    headtool, bert, reviews, package: Path, workplace: Path, line: str, part: str
) -> None:
    code = (EXAMPLE / "example_depth.py").read_text()
    assert SCORE in code
    installed(package, code.replace(SCORE, line), {"depth": "example_depth:Depth"})
    data = ("--model", bert, "--data", reviews)
    message = complaint(headtool, workplace, ["score", "--method", "depth", *data, "--out", "run"])
    assert "method 'depth' (example_depth)" in message
    assert part in message
    few = ("--steps", "50%", "--draws", 1, "--resamples", 20, "--quiet")
    done = headtool("curve", "--method", "depth", *data, *few, "--out", "run")
    assert done.code == 2
    assert "method 'depth' (example_depth)" in done.err
    assert "Traceback" not in done.err
    if line.startswith("raise"):
        assert "in compute" in headtool("score", "--method", "depth", *data, "--verbose").err


def test_scores_that_are_not_there_are_counted_and_pruned_by_nobody(
    headtool, bert, reviews, package: Path, workplace: Path
) -> None:
    line = "return Scored(np.where(layers > 0, np.nan, 1.0), layers)"
    code = (EXAMPLE / "example_depth.py").read_text().replace(SCORE, line)
    installed(package, code, {"depth": "example_depth:Depth"})
    done = headtool(
        "score", "--method", "depth", "--model", bert, "--data", reviews, "--out", "run"
    )
    assert done.code == 0
    assert "depth: 4 of 8 heads have no score (NaN), such as enc-self.1.0" in done.err
    words = ["prune", "--model", bert, "--scores", "run", "--remove", "50%", "--out", "small"]
    message = complaint(headtool, workplace, list(map(str, words)))
    assert "4 heads have no score by depth in run, such as enc-self.1.0" in message
    assert "--mask" in message
