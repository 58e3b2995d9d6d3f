"""``headtool compare`` and ``curve`` do what their Python functions do: same tables, same run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import headtool as toolkit
from headtool.cli.main import app
from headtool.results.runs import read_run

FEW: dict[str, Any] = {
    "methods": ["gradient", "ablation"],
    "steps": "50%",
    "draws": 2,
    "resamples": 50,
    "limit": 16,
    "seed": 3,
}
ARGUMENTS = (
    *("--method", "gradient,ablation", "--steps", "50%", "--draws", 2, "--resamples", 50),
    *("--limit", 16, "--seed", 3),
)


def as_json(comparison: toolkit.Comparison) -> Any:
    return json.loads(json.dumps(comparison.document()))


@pytest.mark.slow
def test_compare_gives_the_same_as_its_command(
    document: Callable[..., dict[str, Any]], workplace: Path
) -> None:
    sets = ["builtin:nli/matched", "builtin:nli/mismatched"]
    data = [part for spec in sets for part in ("--data", spec)]
    shown = document("compare", *ARGUMENTS, *data, "--stability", 2, "--out", "by-command")
    found = toolkit.compare("builtin:nli", sets, **FEW, stability=2, out="by-function")
    assert as_json(found) == shown
    assert shown["schema"] == "headtool/comparison/1"
    ours, theirs = (read_run(Path(name)).manifest for name in ("by-function", "by-command"))
    assert ours["tables"] == theirs["tables"]
    assert ours["provenance"] == theirs["provenance"]
    assert theirs["command"].startswith("headtool compare")
    assert found.folder == Path("by-function")
    assert (found.folder / "report.html").is_file()


def test_curve_gives_the_same_as_its_command(
    document: Callable[..., dict[str, Any]], workplace: Path
) -> None:
    shown = document("curve", *ARGUMENTS, "--keep-one-per-layer")
    found = toolkit.curve("builtin:nli", **FEW, keep_one_per_layer=True, out="run")
    assert as_json(found) == shown
    assert shown["schema"] == "headtool/curves/1"
    assert (Path("run") / "report.html").is_file()


@pytest.mark.parametrize("name", ["compare", "curve"])
def test_the_commands_options_have_the_defaults_of_a_request(name: str) -> None:
    command = typer.main.get_group(app).commands[name]  # type: ignore[attr-defined]
    shown = {option.name: option.default for option in command.params}
    defaults = {field.name: field.default for field in dataclasses.fields(toolkit.Request)}
    same = set(shown) & set(defaults)
    assert {"steps", "draws", "alpha", "resamples", "per_kind", "batch_tokens", "seed"} <= same
    assert {option: shown[option] for option in same} == {
        option: defaults[option] for option in same
    }
    methods = defaults["methods"] if name == "compare" else ("gradient",)
    assert shown["method"] == ",".join(methods)
