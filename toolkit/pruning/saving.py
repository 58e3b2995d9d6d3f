"""Folders of pruned models: weights, configuration, tokenizer, and a record of what was removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headtool.models.base import ModelAdapter
from headtool.pruning.onnx import export_onnx
from headtool.pruning.smaller import Pruned
from headtool.results.folders import PRUNED_RECORD, describe_file, new_folder
from headtool.results.versions import versions
from headtool.surgery.history import History
from headtool.surgery.record import SCHEMA

__all__ = ["save_baked", "save_pruned"]


def save_pruned(
    pruned: Pruned,
    folder: Path,
    *,
    source: Mapping[str, Any],
    force: bool,
    onnx: bool = False,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write a pruned model; all of it appears at `folder`, or nothing does.

    Parameters
    ----------
    pruned
        The model.
    folder
        Where to.
    source
        What the heads were chosen by, for the record; must be JSON.
    force
        Replace what headtool wrote there before.
    onnx
        Export it as ``model.onnx`` as well.
    finish
        Adds to the folder while it is being made.
    """
    model = pruned.model
    with new_folder(folder, force=force) as made:
        extra = model.save(made)
        if onnx:
            export_onnx(model, made / "model.onnx")
        _write_record(made, model, "pruned", pruned.history, source, {**extra, **_costs(pruned)})
        if finish is not None:
            finish(made)


def save_baked(
    model: ModelAdapter,
    removed: list[str],
    folder: Path,
    *,
    source: Mapping[str, Any],
    force: bool,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write a baked model as its own library reads it.

    Parameters
    ----------
    model
        The model, as `bake` returned it.
    removed
        The heads that put out nothing.
    folder, source, force, finish
        As for `save_pruned`.
    """
    with new_folder(folder, force=force) as made:
        model.save_baked(made, final=folder)
        record = {"removed": removed}
        _write_record(made, model, "baked", None, source, record)
        if finish is not None:
            finish(made)


def _write_record(
    folder: Path,
    model: ModelAdapter,
    form: str,
    history: History | None,
    source: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> None:
    weights = sorted(path for path in folder.iterdir() if path.suffix in (".safetensors", ".pt"))
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "form": form,
        "library": model.library,
        "class": type(model.module).__name__,
        "model": model.spec,
        "source": dict(source),
        "versions": versions(),
        "files": {path.name: describe_file(path) for path in weights},
        **extra,
    }
    if history is not None:
        record |= {"removed": history.removed, "history": history.to_json()}
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    (folder / PRUNED_RECORD).write_text(text, encoding="utf-8")


def _costs(pruned: Pruned) -> dict[str, Any]:
    before, after = vars(pruned.before), vars(pruned.after)
    costs = {name: {"before": before[name], "after": after[name]} for name in before}
    return {"costs": costs, "sequence_length": pruned.length, "difference": pruned.difference}
