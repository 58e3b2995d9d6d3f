"""The installed command: it starts, starts light, and knows its version."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("headtool")
HEAVY = ("torch", "transformers", "fairseq", "pandas", "datasets", "scipy", "statsmodels")

# Runs the command inside a fresh interpreter and tells what that has imported in the end.
WATCHED = """
import json, sys
from headtool.cli.main import run
code = 0
try:
    run()
except SystemExit as end:
    code = end.code or 0
print("\\n" + json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def imported_by(*arguments: str, code: int = 0) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["code"] == code
    return set(report["modules"])


def test_the_command_prints_help() -> None:
    done = call("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for name in ("methods", "heads", "score"):
        assert re.search(rf"\b{name}\b", done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        *(("--help",), ("--version",), ("env",), ("heads", "--help"), ("score", "--help")),
        *(("compare", "--help"), ("methods",), ("methods", "lrp"), ("methods", "--format", "json")),
    ],
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    found = imported_by(*arguments)
    assert found.isdisjoint(HEAVY)
    assert "numpy" not in found or "--help" not in arguments


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "--method", "gradiant"),
        ("score", "--set", "gradient.granularty=token"),
        ("compare", "--method", "gates", "--set", "gates.steps=many"),
        ("curve", "--set", "gradient.granularity=word"),
        ("dynamics", "--checkpoints", "x", "--method", "gradiant"),
        ("score", "--kind", "self"),
        ("roles", "--kind", "self"),
        ("heads", "--kind", "self"),
        ("score", "--limit", "none"),
        ("ablate", "--margin", "0.1"),
        ("methods", "gradiant"),
        ("scroe",),
        ("score", "--modle", "x"),
    ],
)
def test_mistakes_in_options_are_told_before_torch_is_imported(arguments: tuple[str, ...]) -> None:
    assert imported_by(*arguments, code=2).isdisjoint(HEAVY)


@pytest.mark.slow
def test_score_imports_only_what_it_uses() -> None:
    others = ("statsmodels", "matplotlib", "plotly", "datasets", "sacrebleu", "fairseq")
    arguments = ("score", "--limit", "4", "--method", "magnitude", "--format", "json")
    assert imported_by(*arguments).isdisjoint(others)


def test_importing_headtool_imports_next_to_nothing() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; old = set(sys.modules); import headtool\n"
            "print(*sorted(set(sys.modules) - old))",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    rooms = {name for name in done.stdout.split() if name.startswith("headtool")}
    assert rooms == {"headtool"}


def test_the_watch_sees_heavy_imports() -> None:
    """Without this, a mistake in the watching code would let everything pass."""
    done = subprocess.run(
        [sys.executable, "-c", "import pandas\n" + WATCHED, "--help"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "pandas" in json.loads(done.stdout.splitlines()[-1])["modules"]


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert version("headtool") == project["version"]
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == project["version"]
    lines = dict(line.split() for line in call("--version").stdout.splitlines())
    assert next(iter(lines.items())) == ("headtool", project["version"])
    assert lines["torch"] == version("torch")
    assert lines["transformers"] == version("transformers")
    assert lines["python"] == platform.python_version()
