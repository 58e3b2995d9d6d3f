"""``headtool show``: what a saved run holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtool.cli.console import prepare_messages
from headtool.cli.fields import with_options
from headtool.cli.groups import print_as
from headtool.cli.options import Format, OutputFormat
from headtool.reports.terminal.tables import table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headtool.experiments.showing import Shown

__all__ = ["show"]

EXAMPLES = "Examples:\n\nheadtool show runs/compared\n\nheadtool show runs/compared --format json"

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder that a command wrote with --out.")
]


def show(run: RunFolder, output: Format = OutputFormat.table) -> None:
    """Show what a saved run holds: what made it, on which model and data, when, and its tables.

    Every file is checked against the size and SHA-256 that the run recorded.
    """
    prepare_messages()
    from headtool.experiments.showing import show as look_into

    found = look_into(run)
    print_as(
        output, document=found.document, frame=lambda: found.frame, tables=lambda: _tables(found)
    )


def _tables(found: Shown) -> Iterator[RenderableType]:
    yield table(("", ""), _facts(found), left=(0, 1), show_header=False)
    rows = [(name, f"{rows:,}", row) for name, rows, row in found.tables]
    yield table(("table", "rows", "a row is"), rows, left=(0, 2))


def _facts(found: Shown) -> Iterator[tuple[str, str]]:
    origin = found.origin
    yield "run", str(found.folder)
    yield "command", origin["command"] or "unknown"
    yield "made", origin["created"]
    for model in origin["models"]:
        yield "model", ", ".join(str(model[key]) for key in model)
    for data in origin["data"]:
        yield "data", f"{data['spec']}, {data.get('examples', 'unknown')} examples"
    if origin["methods"]:
        yield "methods", ", ".join(origin["methods"])
    for name in ("metric", "seed"):
        if origin[name] is not None:
            yield name, str(origin[name])
    yield "versions", ", ".join(f"{name} {of}" for name, of in origin["versions"].items())
    for name in found.run.manifest.get("weights") or ():
        yield "weights", f"{name}.safetensors"
    for name in found.reports:
        yield "report", str(found.folder / name)
    if not found.reports:
        yield "report", f"none yet; make one with headtool report {found.folder}"
    for note in found.notes:
        yield "note", with_options(note)
