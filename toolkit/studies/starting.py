"""A first study file, to be changed."""

from __future__ import annotations

import os
from pathlib import Path

from headtool.errors import HeadtoolError, StorageError
from headtool.results.replacing import replacing

__all__ = ["SCHEMA_FILE", "example_study", "write_example"]

SCHEMA_FILE = Path(__file__).with_name("study.schema.json")
"""The JSON schema of study files, for editors."""

_EXAMPLE = Path(__file__).with_name("example.yaml")
_LINE = "# yaml-language-server: $schema="


def example_study(name: str = "study") -> str:
    """Return an example of a study file, with comments; it runs on the built-in models.

    Its first line tells editors where the JSON schema of study files lies.

    Parameters
    ----------
    name
        What the study is called; its runs go to ``runs/NAME``.
    """
    text = _EXAMPLE.read_text(encoding="utf-8")
    return f"{_LINE}{SCHEMA_FILE.as_uri()}\n{text.replace('NAME', name)}"


def write_example(path: Path | str, *, force: bool = False) -> Path:
    """Write an example of a study file; see `example_study`.

    Parameters
    ----------
    path
        Where to; the study is called as the file.
    force
        Replace a file that is there.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    HeadtoolError
        If there is something already, or it cannot be written.
    """
    path = Path(path)
    if os.path.lexists(path) and (not force or not path.is_file()):
        remedy = "choose another name" if path.is_dir() else "choose another, or add `force=True`"
        raise HeadtoolError(f"{path} exists already; {remedy}")
    name = "".join(c if c.isalnum() and c.isascii() else "-" for c in path.stem).strip("-")
    try:
        with replacing(path) as made:
            made.write_text(example_study(name or "study"), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    return path
