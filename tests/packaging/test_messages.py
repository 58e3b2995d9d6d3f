"""Messages of the library name fields; only the command line speaks of options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LIBRARY = sorted(
    path
    for folder in ("toolkit", "analysis", "methods", "reports")
    for path in (REPOSITORY / folder).rglob("*.py")
)

# A suggested command may have options, up to the end of its part of the sentence.
_COMMAND = re.compile(r"\b(headtool|pip|make|ray start|fairseq-\w+) [^;,()]*")
_OPTION = re.compile(r"(?<![\w-])--\w[\w-]*")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """All string literals but docstrings and arguments of other programs; values are ``x``."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.List) and [
            one.value for one in node.elts[:1] if isinstance(one, ast.Constant)
        ] in (["git"], ["nvidia-smi"]):
            skipped.update(map(id, node.elts))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            skipped.update(map(id, node.args))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = node.values
            skipped.update(map(id, parts))
            shown = [part.value if isinstance(part, ast.Constant) else "x" for part in parts]
            yield node.lineno, "".join(map(str, shown))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield node.lineno, node.value


def options(code: str) -> list[tuple[int, str]]:
    """The options that literals in code name, outside commands."""
    return [
        (line, option)
        for line, text in texts(ast.parse(code))
        for option in _OPTION.findall(_COMMAND.sub("", text))
    ]


def test_no_message_of_the_library_names_an_option() -> None:
    found = {
        f"{path.relative_to(REPOSITORY)}:{line}: {option}"
        for path in LIBRARY
        for line, option in options(path.read_text(encoding="utf-8"))
    }
    assert len(LIBRARY) > 150
    assert not found, "name the field in backticks; cli/fields.py makes it an option"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('error("--alpha must be above 0")', ["--alpha"]),
        ('error(f"{place} exists; " "choose another --out")', ["--out"]),
        ('error(f"--{name} must be above 0")', ["--x"]),
        ('error("make one with headtool ablate --out DIR, or choose another --run")', ["--run"]),
        ('error("make one with headtool ablate --metric bleu --out DIR")', []),
        ('error("dashes -- such as these, or a-- b")', []),
        ('def f():\n    "Read ``--data``."', []),
        ('["git", "describe", "--always"]', []),
    ],
)
def test_what_counts_as_naming_an_option(code: str, found: list[str]) -> None:
    assert [option for _, option in options(code)] == found
