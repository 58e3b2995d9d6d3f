"""The record beside a pruned model's weights: what was removed, and of which files it speaks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headtool.errors import HeadtoolError
from headtool.reading import read_json
from headtool.results.folders import PRUNED_RECORD, describe_file
from headtool.surgery.plan import Plan

__all__ = ["SCHEMA", "read_plans", "read_record"]

SCHEMA = "headtool/pruned/1"


def read_record(folder: Path) -> dict[str, Any] | None:
    """Read and check the record of a folder; None where there is none.

    Parameters
    ----------
    folder
        What ``headtool prune`` wrote.

    Raises
    ------
    HeadtoolError
        If the record is damaged or of another version, or if the weights beside it are not those
        that it describes.
    """
    path = folder / PRUNED_RECORD
    if not path.is_file():
        return None
    record: dict[str, Any] = read_json(path)
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        shown = repr(schema)[:60]
        raise HeadtoolError(f"{path} has the schema {shown}; this version reads {SCHEMA!r}")
    files = record.get("files")
    if not isinstance(files, dict) or record.get("form") not in ("pruned", "baked"):
        raise HeadtoolError(f"{path} is damaged: it describes no weights")
    for name, expected in files.items():
        file = folder / Path(name).name
        if not os.path.isfile(file) or describe_file(file) != expected:
            shown = repr(file.name[:100])[1:-1]  # on one line, whatever it holds
            raise HeadtoolError(
                f"{path} does not fit {shown}: the weights are missing or not those that it "
                "describes; restore them, or prune the model again"
            )
    return record


def read_plans(recorded: Any, spec: str) -> list[Plan]:
    """Read the plans of a recorded history, in the order in which they were carried out.

    Parameters
    ----------
    recorded
        `History.to_json`, as JSON gave it back.
    spec
        What to call the model in messages.

    Raises
    ------
    HeadtoolError
        If the record is damaged.
    """
    try:
        return [Plan.from_json(step) for step in recorded["steps"]]
    except (KeyError, TypeError) as error:
        raise HeadtoolError(
            f"the record of removed heads in {spec} is damaged: {error!r}; prune the model again"
        ) from error
