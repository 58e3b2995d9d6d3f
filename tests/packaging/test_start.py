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


def imported_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["code"] == 0
    return set(report["modules"])


def test_the_command_prints_help() -> None:
    done = call("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for name in ("methods", "heads", "score"):
        assert re.search(rf"\b{name}\b", done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), ("env",), ("heads", "--help"), ("score", "--help")],
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert imported_by(*arguments).isdisjoint(HEAVY)


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
