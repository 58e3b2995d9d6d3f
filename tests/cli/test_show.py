"""`headtool show` and `headtool env` tell a reader what the functions found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

RUNS = Path(__file__).parents[1] / "results" / "old_runs"


def test_a_run_is_shown(headtool: Any) -> None:
    done = headtool("show", RUNS / "compare")
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines()]
    assert ["kind", "compare"] not in lines  # the command says it
    assert ["methods", "gradient,", "confidence"] in lines
    assert ["data", "builtin:nli/mismatched,", "40", "examples"] in lines
    assert ["scores", "64", "a", "method's", "score", "of", "a", "head"] in lines
    assert "make one with headtool report" in " ".join(done.out.split())


def test_a_folder_that_is_no_run(headtool: Any, tmp_path: Path) -> None:
    done = headtool("show", tmp_path)
    assert done.code == 2
    assert done.err == f"error: {tmp_path} is no headtool run: it has no manifest.json\n"


def test_the_environment_is_shown(headtool: Any) -> None:
    from importlib.metadata import version

    done = headtool("env")
    assert done.code == 0, done.err
    assert ["torch", version("torch")] in [line.split() for line in done.out.splitlines()]
    assert headtool("env", "--format", "csv").out.startswith("part,name,value\n")
