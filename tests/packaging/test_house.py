"""The order of rooms: nothing imports upwards, and nothing in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from ..support.modules import MODULES, REPOSITORY

# From the ground up: a room may import the rooms before it, and itself. The ground is what lies
# loose in toolkit/; its two entry points import what they like.
ORDER = (
    "ground",
    "heads",
    "schema",
    "data",
    "metrics",
    "results",
    "exchange",
    "attention",
    "masks",
    "surgery",
    "builtin",
    "models",
    "analysis",
    "engine",
    "workers",
    "pruning",
    "reports",
    "methods",
    "patterns",
    "experiments",
    "studies",
    "cli",
)
ENTRY_POINTS = ("headtool", "headtool.__main__")

# The same inside reports/.
REPORTS = (
    "marks",
    "colours",
    "wording",
    "blocks",
    "contents",
    "terminal",
    "charts",
    "findings",
    "sections",
    "formats",
    "writing",
    "results",
)


def imported(code: str) -> Iterator[tuple[str, int]]:
    """What code imports and in which line, imports inside functions included."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole if whole in MODULES else node.module), node.lineno


def room(module: str) -> str:
    parts = module.split(".")
    inside = len(parts) > 2 or (len(parts) == 2 and MODULES[module].name == "__init__.py")
    return parts[1] if inside else "ground"


def arrows() -> Iterator[tuple[str, str, int]]:
    for module, path in MODULES.items():
        if module in ENTRY_POINTS:
            continue
        for target, line in imported(path.read_text(encoding="utf-8")):
            if target in MODULES and target not in (module, *ENTRY_POINTS):
                yield module, target, line


def test_every_room_has_its_place() -> None:
    assert {room(module) for module in MODULES} == set(ORDER)


def test_nothing_imports_upwards() -> None:
    wrong = [
        f"{MODULES[module].relative_to(REPOSITORY)}:{line} imports {target}"
        for module, target, line in arrows()
        if ORDER.index(room(target)) > ORDER.index(room(module))
    ]
    assert wrong == []


def test_reports_do_not_import_upwards() -> None:
    inside = [
        (module.split(".")[2], target.split(".")[2], f"{module}:{line} imports {target}")
        for module, target, line in arrows()
        if {room(module), room(target)} == {"reports"}
        and "headtool.reports" not in (module, target)
    ]
    assert {name for name, _, _ in inside} <= set(REPORTS)
    assert len(inside) > 50
    wrong = [where for by, of, where in inside if REPORTS.index(of) > REPORTS.index(by)]
    assert wrong == []


def test_no_circle_between_files() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, target, _ in arrows():
        graph[module].add(target)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"these import each other: {' -> '.join(error.args[1])}")


def test_the_rooms_are_explained_in_their_order() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("| room | what lives there |")[1].split("\n\n")[0]
    listed = re.findall(r"^\| (?:`(?:toolkit/)?)?(\w+)/?`? \|", table, re.MULTILINE)
    assert tuple(listed) == ORDER
    (reports,) = re.findall(r"^\| `reports/` \| (.*), in this order \|", table, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", reports)) == REPORTS


def test_the_ground_is_small() -> None:
    loose = {path.name for path in (REPOSITORY / "toolkit").glob("*.py")}
    assert len(loose - {"__init__.py", "__main__.py"}) <= 6


def test_imports_are_seen_wherever_they_stand() -> None:
    """Without this, a mistake in the search would let everything pass."""
    code = "import os\ndef f():\n    if os:\n        from headtool.cli import main\n"
    assert dict(imported(code)) == {"os": 1, "headtool.cli.main": 4}
    assert sum(1 for _ in arrows()) > 500
