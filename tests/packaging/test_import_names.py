"""The rooms are imported as parts of headtool, never under the names of their folders."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROOMS = ("analysis", "cli", "methods", "reports", "toolkit")


def bare_imports(code: str) -> list[str]:
    """Room names that code imports as top-level packages."""
    found = []
    for node in ast.walk(ast.parse(code)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        found += [name for name in names if name.split(".")[0] in ROOMS]
    return found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import methods", ["methods"]),
        ("from toolkit.heads import Head", ["toolkit.heads"]),
        ("def f():\n    import os, cli.main", ["cli.main"]),
        ("import headtool.methods\nfrom . import cli\nfrom headtool import reports", []),
    ],
)
def test_the_search_finds_bare_imports(code: str, found: list[str]) -> None:
    assert bare_imports(code) == found


def test_no_file_imports_a_room_by_its_folder_name() -> None:
    folders = [REPOSITORY / name for name in (*ROOMS, "tests", "benchmarks")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(files) > 30
    found = {
        str(path.relative_to(REPOSITORY)): names
        for path in files
        if (names := bare_imports(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize("room", ROOMS)
def test_the_tests_run_against_this_repository(room: str) -> None:
    name = "headtool" if room == "toolkit" else f"headtool.{room}"
    module = importlib.import_module(name)
    assert module.__file__ is not None
    assert Path(module.__file__).parent.samefile(REPOSITORY / room)


def test_nothing_has_imported_a_room_by_its_folder_name() -> None:
    """All test files are collected by now; a bare import in any of them has left its mark here."""
    found = {
        name: file
        for name, module in sys.modules.items()
        if name.split(".")[0] in ROOMS
        and (file := getattr(module, "__file__", None))
        and Path(file).is_relative_to(REPOSITORY)
    }
    assert found == {}
