"""What a run's manifest says, entry by entry; what is written here is checked as it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headtool.errors import HeadtoolError

__all__ = ["check_manifest", "check_study", "check_study_progress"]

_LARGEST = 2**63

# A shape is one of the words of _WORDS (with "?": or null), a list with the shape of its items, or
# a dictionary with those of its entries. Entries are needed unless their name ends in "?"; "*"
# stands for all others, and without it these may be anything. Needed is only what a reader of runs
# cannot do without.
_WORDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("text", lambda value: isinstance(value, str)),
    "truth": ("true or false", lambda value: isinstance(value, bool)),
    "count": (
        "a whole number from 0",
        lambda value: type(value) is int and 0 <= value < _LARGEST,
    ),
    "number": (
        "a number",
        lambda value: type(value) in (int, float) and -_LARGEST < value < _LARGEST,
    ),
    "level": ("a number between 0 and 1", lambda value: type(value) is float and 0 < value < 1),
    "list": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
}

_FILE = {"bytes": "count", "sha256": "text"}

_MODEL = {
    "spec?": "text",
    "task?": "text",
    "labels?": "count?",
    "sha256?": "text",
    "library?": "text",
    "class?": "text",
    "heads?": "text",
    "dtype?": "text",
    "device?": "text",
    "device_map?": "text",
    "load_in?": "text",
}

_DATA = {
    "spec?": "text",
    "sha256?": "text",
    "examples?": "count",
    "truncated?": "count",
    "batch_tokens?": "count",
}

_VERSIONS = {"*": "text"}

_SCREEN = {
    "heads": "count",
    "by": "text",
    "cut": "number",
    "of": "count",
    "selection_examples": "count",
    "evaluation_examples": "count",
}

_ROUNDING = {"dtype": "text", "examples": "count", "noise": {"*": "number"}}

_SOURCE = {
    "method?": "text",
    "metric?": "text",
    "options?": "object",
    "seed?": "count",
    "model?": _MODEL,
    "data?": _DATA,
    "versions?": _VERSIONS,
    "summary?": "text",
    "reference?": "text",
    "idle_options?": ["text"],
    "notes?": ["text"],
    "signature?": "text",
    "search?": "object",
    "screen?": _SCREEN,
    "beside?": ["text"],
    "rounding?": _ROUNDING,
    "scratch?": {"*": "number?"},
    "lambda?": "number?",
    "share_of_runs?": "number",
    "imported?": {
        "file?": "text",
        "sha256?": "text",
        "format?": "text",
        "repeats?": "count?",
        "reliability?": "number?",
        "reliability_of_ranks?": "number?",
        "width?": "count?",
        "groups?": "count?",
    },
    "treebank?": {"spec?": "text", "sha256?": "text", "drawn?": "object?", "*": "count"},
}
"""How the scores of a method, outcomes or roles were made."""

_OUTCOMES = {
    **_SOURCE,
    "method": "text",
    "metric": "text",
    "options": "object",
    "model": {**_MODEL, "spec": "text", "task": "text", "labels": "count?", "sha256": "text"},
    "data": {**_DATA, "spec": "text", "examples": "count"},
}
"""The same of outcomes, which are tested."""

_ABLATE = {
    **_OUTCOMES,
    "options": {
        "all_but_one?": "truth",
        "rescale?": "truth",
        "replacement?": "text",
        "beside?": ["text"],
        "sequential?": "truth",
        "margin?": "number?",
        "screen?": _SCREEN,
    },
}

_ROLES = {
    **_SOURCE,
    "model": {**_MODEL, "spec": "text"},
    "data": {**_DATA, "spec": "text", "examples": "count"},
    "options": {"correction": "text", "alpha": "level"},
    "command?": "text",
}

_COMPARISON = {
    "command?": "text",
    "metric?": "text",
    "higher_is_better?": "truth",
    "methods?": ["text"],
    "passes?": {"*": "number?"},
    "data?": ["text"],
    "select_data?": "text?",
    "budgets?": ["count"],
    "heads?": "count",
    "kinds?": "list?",
    "steps?": "text",
    "iterative?": "truth",
    "keep_one_per_layer?": "truth",
    "per_kind?": "truth",
    "replacement?": "text",
    "draws?": "count?",
    "draws_plan?": {
        "most": "count",
        "budgets": ["count"],
        "examples": ["count"],
        "rounds?": [{"masks": "count", "examples": "count"}],
    },
    "alpha?": "level",
    "margin?": "number?",
    "stability?": "count",
    "limit?": "count?",
    "batch_tokens?": "count?",
    "seed?": "count",
    "resamples?": "count?",
    "signature?": "text",
    "search?": "object",
    "model?": _MODEL,
    "sources?": {"*": _DATA},
    "selection_source?": _DATA,
    "provenance?": {"*": _SOURCE},
    "versions?": _VERSIONS,
    "tests?": {
        "*": {
            "test?": "text",
            "interval?": "text",
            "correction?": "text",
            "metric?": "text",
            "alpha?": "level",
            "margin?": "number",
            "n_examples?": "count",
            "n_tests?": "count",
            "resamples?": "count?",
            "resamples_needed?": "count?",
            "exact?": "truth",
            "expected_false_positives?": "number?",
        }
    },
    "whole?": {"*": {"*": "number?"}},
    "notes?": ["text"],
    "rounding?": _ROUNDING,
    "replicates?": "object",
    "roles?": _ROLES,
}

_SPEED = {"model?": "text", "pruned?": "text", "versions?": _VERSIONS}

_VALIDATE = {
    "models": ["text"],
    "limit": "count",
    "seed": "count",
    "methods": {"*": "object"},
    "versions?": _VERSIONS,
}

_DYNAMICS = {"command?": "text", "checkpoints?": "list", "options?": "object"}

_PROVENANCE = {
    "compare?": _COMPARISON,
    "curve?": _COMPARISON,
    "ablate?": _ABLATE,
    "ablation?": _OUTCOMES,
    "sequential?": _ABLATE,
    "roles?": _ROLES,
    "speed?": _SPEED,
    "dynamics?": _DYNAMICS,
    "validate?": _VALIDATE,
    "*": _SOURCE,
}

_MANIFEST = {
    "schema": "text",
    "command?": "text",
    "created?": "text",
    "cost?": [{"phase": "text", "token_passes": "count", "seconds": "number"}],
    "provenance": _PROVENANCE,
    "tables": {"*": _FILE},
    "weights?": {"*": _FILE},
}

_STUDY = {
    "schema": "text",
    "name": "text",
    "metric": "text?",
    "cells": [
        {
            "id": "text",
            "model": "text",
            "family": "text",
            "replicate": "text",
            "task": "text",
            "spec": "text",
            "data": ["text"],
            "run": "text",
            "settings": "object",
        }
    ],
}

_STUDY_PROGRESS = {
    "schema": "text",
    "cells": {"*": {"state": "text", "seconds": "number", "error": "text"}},
}

_TABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_manifest(manifest: Mapping[str, Any], place: str) -> None:
    """Refuse a manifest that headtool did not write like this.

    Parameters
    ----------
    manifest
        The manifest.
    place
        Its file, for errors.

    Raises
    ------
    HeadtoolError
        Naming the entry.

    Examples
    --------
    >>> from headtool.schema.manifests import check_manifest
    >>> check_manifest({"schema": "headtool/run/1", "command": None}, "run/manifest.json")
    Traceback (most recent call last):
        ...
    headtool.errors.HeadtoolError: ... is damaged: 'command' must be text, got null; restore it, ...
    """
    _check(manifest, _MANIFEST, (), place)
    for part in ("tables", "weights"):
        for name in manifest.get(part, ()):
            if not _TABLE_NAME.fullmatch(name):
                raise _damaged(place, f"{name[:50]!r} in '{part}' is no name of a table")


def check_study(document: Any, place: str) -> None:
    """Refuse a list of a study's cells that headtool did not write like this.

    Parameters
    ----------
    document
        The content of ``study.json``.
    place
        Its file, for errors.

    Raises
    ------
    HeadtoolError
        Naming the entry.
    """
    _check(document, _STUDY, (), place)


def check_study_progress(document: Any, place: str) -> None:
    """Refuse a record of how far a study is that headtool did not write like this.

    Parameters
    ----------
    document
        The content of ``progress.json``.
    place
        Its file, for errors.

    Raises
    ------
    HeadtoolError
        Naming the entry.
    """
    _check(document, _STUDY_PROGRESS, (), place)


def _check(value: Any, shape: Any, path: tuple[str, ...], place: str) -> None:
    if isinstance(shape, dict):
        _expect(value, "object", path, place)
        _check_entries(value, shape, path, place)
    elif isinstance(shape, list):
        _expect(value, "list", path, place)
        for number, item in enumerate(value, start=1):
            _check(item, shape[0], (*path, str(number)), place)
    else:
        _expect(value, shape, path, place)


def _check_entries(
    value: dict[str, Any], shape: dict[str, Any], path: tuple[str, ...], place: str
) -> None:
    named = {name.removesuffix("?"): name for name in shape if name != "*"}
    for name, written in named.items():
        if name in value:
            _check(value[name], shape[written], (*path, name), place)
        elif written == name:
            raise _damaged(place, f"{_shown((*path, name))} is missing")
    if "*" in shape:
        for name, item in value.items():
            if name not in named:
                _check(item, shape["*"], (*path, name), place)


def _expect(value: Any, word: str, path: tuple[str, ...], place: str) -> None:
    if value is None and word.endswith("?"):
        return
    wanted, fits = _WORDS[word.removesuffix("?")]
    if not fits(value):
        shown = {None: "null", True: "true", False: "false"}.get(value) if _plain(value) else None
        raise _damaged(place, f"{_shown(path)} must be {wanted}, got {shown or repr(value)[:50]}")


def _plain(value: Any) -> bool:
    """Whether JSON writes it in another way than Python."""
    return value is None or isinstance(value, bool)


def _shown(path: tuple[str, ...]) -> str:
    return "'" + " > ".join(name[:50] for name in path) + "'" if path else "the document"


def _damaged(place: str, what: str) -> HeadtoolError:
    return HeadtoolError(f"{place} is damaged: {what}; restore it, or make the run again")
