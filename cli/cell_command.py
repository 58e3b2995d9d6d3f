"""The ``headtool compare`` command that makes a cell's run again."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any

from headtool.experiments.request import Request
from headtool.models.source import ModelSource
from headtool.studies.cells import Comparing

__all__ = ["command_of"]

_NAMES = {"kinds": "kind"}
_OWN = ("methods", "search", "replacement", "beside", "draws", "batch_tokens", "faithfulness")


def command_of(one: Comparing) -> str:
    """Write the command that makes a cell's run, in another folder, for a shell.

    Parameters
    ----------
    one
        What the cell compares.
    """
    return shlex.join(["headtool", "compare", *_words(one)])


def _words(one: Comparing) -> Iterator[str]:
    yield from ("--method", ",".join(one.cell.settings["methods"]))
    for method, options in one.cell.settings["methods"].items():
        for name, value in options.items():
            yield from ("--set", f"{method}.{name}={value}")
    yield from _options(one.model, ModelSource(one.model.spec), "spec")
    for data in one.data:
        yield from ("--data", str(data.spec))
    if one.select_data is not None:
        yield from ("--select-data", str(one.select_data.spec))
    columns = one.data[0].columns
    if columns:
        yield from ("--columns", ",".join(f"{role}={name}" for role, name in columns.items()))
    yield from _request(one.request)


def _request(request: Request) -> Iterator[str]:
    yield from _options(request, Request(), *_OWN)
    if request.search.beam is not None:
        yield from ("--beam", str(request.search.beam))
    if request.search.length_penalty is not None:
        yield from ("--lenpen", f"{request.search.length_penalty:g}")
    if request.search.max_length is not None:
        yield from ("--max-new-tokens", str(request.search.max_length))
    fills = ",".join((request.replacement, *request.beside))
    if fills != Request.replacement:
        yield from ("--replacement", fills)
    if not request.faithfulness:
        yield "--no-faithfulness"
    for name in ("draws", "batch_tokens"):
        value = getattr(request, name)
        if value != getattr(Request, name):
            yield from (f"--{name.replace('_', '-')}", "auto" if value is None else str(value))


def _options(given: Any, usual: Any, *left_out: str) -> Iterator[str]:
    """What differs from the usual, as options."""
    for field in dataclasses.fields(given):
        name, value = field.name, getattr(given, field.name)
        if field.name == "spec":
            yield from ("--model", value)
        if name in left_out or value == getattr(usual, name):
            continue
        option = f"--{_NAMES.get(name, name).replace('_', '-')}"
        if value is True:
            yield option
        else:
            yield from (option, ",".join(value) if isinstance(value, tuple) else str(value))
