"""Folders of pruned models: weights, configuration, tokenizer, and a record of what was removed."""

from __future__ import annotations

import hashlib
import json
import shutil
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from headtool.errors import HeadtoolError
from headtool.models.base import ModelAdapter
from headtool.models.fairseq import FairseqModel
from headtool.models.huggingface import HuggingFaceModel
from headtool.provenance import versions
from headtool.pruning.models import History, Pruned
from headtool.pruning.onnx import export_onnx
from headtool.runs import PRUNED_RECORD, new_folder

__all__ = ["SCHEMA", "read_record", "save_baked", "save_pruned"]

SCHEMA = "headtool/pruned/1"
_WEIGHTS = "model.safetensors"


def save_pruned(
    pruned: Pruned, folder: Path, *, source: Mapping[str, Any], force: bool, onnx: bool = False
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
    """
    model = pruned.model
    with new_folder(folder, force=force) as made:
        if isinstance(model, HuggingFaceModel):
            cast(Any, model.module).save_pretrained(made)
            model.tokenizer.save_pretrained(made)
            extra: dict[str, Any] = {}
        else:
            assert isinstance(model, FairseqModel)
            extra = _save_fairseq(model, made)
        if onnx:
            export_onnx(model, made / "model.onnx")
        _write_record(made, model, "pruned", pruned.history, source, extra | _costs(pruned))


def save_baked(
    model: ModelAdapter, removed: list[str], folder: Path, *, source: Mapping[str, Any], force: bool
) -> None:
    """Write a baked model: a transformers folder, or a fairseq checkpoint beside its dictionaries.

    Parameters
    ----------
    model
        The model, as `bake` returned it.
    removed
        The heads that put out nothing.
    folder, source, force
        As for `save_pruned`.
    """
    with new_folder(folder, force=force) as made:
        if isinstance(model, HuggingFaceModel):
            cast(Any, model.module).save_pretrained(made)
            model.tokenizer.save_pretrained(made)
        else:
            assert isinstance(model, FairseqModel)
            _save_fairseq_checkpoint(model, made, folder)
        record = {"removed": removed}
        _write_record(made, model, "baked", None, source, record)


def read_record(folder: Path) -> dict[str, Any] | None:
    """Read and check the record of a folder; None where there is none.

    Raises
    ------
    HeadtoolError
        If the record is damaged or of another version, or if the weights beside it are not those
        that it describes.
    """
    path = folder / PRUNED_RECORD
    if not path.is_file():
        return None
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HeadtoolError(f"{path} cannot be read: {error}") from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise HeadtoolError(f"{path} has the schema {schema!r}; this version reads {SCHEMA!r}")
    files = record.get("files")
    if not isinstance(files, dict) or record.get("form") not in ("pruned", "baked"):
        raise HeadtoolError(f"{path} is damaged: it describes no weights")
    for name, expected in files.items():
        file = folder / Path(name).name
        if not file.is_file() or _describe(file) != expected:
            raise HeadtoolError(
                f"{path} does not fit {file.name}: the weights are missing or not those that it "
                "describes; restore them, or prune the model again"
            )
    return record


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
        "files": {path.name: _describe(path) for path in weights},
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


def _describe(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


# -- fairseq ---------------------------------------------------------------------------------------


def _save_fairseq(model: FairseqModel, folder: Path) -> dict[str, Any]:
    from safetensors.torch import save_file

    # Weights that are shared must not share memory in the file.
    state = {key: value.clone() for key, value in model.module.state_dict().items()}
    save_file(state, folder / _WEIGHTS)
    _save_dictionaries(model, folder)
    return {
        "architecture": _architecture(model.module),
        "languages": list(model.languages),
        "bpe": _save_bpe(model, folder),
    }


def _save_fairseq_checkpoint(model: FairseqModel, folder: Path, final: Path) -> None:
    languages = {"source_lang": model.languages[0], "target_lang": model.languages[1]}
    options = {"task": "translation", "data": str(final.resolve()), **languages}
    arguments = Namespace(arch="transformer", **_architecture(model.module), **options)
    state = {
        "args": arguments,
        "cfg": None,
        "model": model.module.state_dict(),
        # What fairseq expects of training that stands at its beginning.
        "optimizer_history": [
            {"optimizer_name": "FairseqNAG", "lr_scheduler_state": {}, "num_updates": 0}
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }
    torch.save(state, folder / "checkpoint.pt")
    _save_dictionaries(model, folder)
    _save_bpe(model, folder)


def _save_dictionaries(model: FairseqModel, folder: Path) -> None:
    dictionaries = model.source_dictionary, model.target_dictionary
    for language, dictionary in zip(model.languages, dictionaries, strict=True):
        dictionary.save(str(folder / f"dict.{language}.txt"))


def _save_bpe(model: FairseqModel, folder: Path) -> str:
    """Copy the segmentation's file; returns how ``--bpe`` would name it."""
    if model.bpe.file is None:
        return model.bpe.name
    name = "sentencepiece.bpe.model" if model.bpe.name == "sentencepiece" else model.bpe.file.name
    shutil.copyfile(model.bpe.file, folder / name)
    return f"{model.bpe.name}:{name}"


def _architecture(module: nn.Module) -> dict[str, Any]:
    """The options that a fairseq transformer was built from, as far as JSON holds them."""
    options = vars(module)["architecture"]
    plain = bool, int, float, str
    return {name: value for name, value in options.items() if type(value) in plain}
