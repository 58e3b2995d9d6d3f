"""Ways to damage what a user gives, and what must be said of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Edit = Callable[[Path], object]


def edit_json(name: str, change: Callable[[dict[str, Any]], object]) -> Edit:
    """Change a JSON document below a folder."""

    def edit(folder: Path) -> None:
        path = folder / name
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit


def set_in(name: str, **values: object) -> Edit:
    """Set entries of a JSON document below a folder."""
    return edit_json(name, lambda document: document.update(values))


def write(name: str, content: bytes) -> Edit:
    """Put other content into a file below a folder."""
    return lambda folder: (folder / name).write_bytes(content)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def complaint(headtool: Callable[..., Any], place: Path, words: list[str]) -> str:
    """Run a command that must fail as bad input does, and return its one line."""
    before = contents(place)
    done = headtool(*words)
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.endswith("\n")
    assert done.err.count("\n") == 1, done.err
    assert done.err.rstrip("\n").isprintable()
    assert contents(place) == before
    return str(done.err)
