"""Files of a fairseq model: weights, dictionaries, segmentation, checkpoint."""

from __future__ import annotations

import io
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headtool.models.fairseq.network import FairseqNetwork
from headtool.models.fairseq.segmentation import GPT2_FILES, Segmentation

__all__ = [
    "CHECKPOINT",
    "WEIGHTS",
    "save_bpe",
    "save_fairseq",
    "save_fairseq_checkpoint",
    "write_checkpoint",
]

CHECKPOINT = "checkpoint.pt"
WEIGHTS = "model.safetensors"


def save_fairseq(model: FairseqNetwork, folder: Path) -> dict[str, Any]:
    """Write weights, dictionaries and segmentation; return what the record says of them.

    Parameters
    ----------
    model
        The model.
    folder
        An empty folder.
    """
    from safetensors.torch import save_file

    # Weights that are shared must not share memory in the file.
    state = {key: value.clone() for key, value in model.module.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    _save_dictionaries(model, folder)
    return {
        "architecture": _architecture(model.module),
        "languages": list(model.languages),
        "bpe": save_bpe(model.bpe, folder),
    }


def save_fairseq_checkpoint(model: FairseqNetwork, folder: Path, final: Path) -> None:
    """Write a checkpoint that fairseq loads.

    Parameters
    ----------
    model
        The model.
    folder
        An empty folder.
    final
        Where that folder will lie in the end.
    """
    languages = {"source_lang": model.languages[0], "target_lang": model.languages[1]}
    options = {"task": "translation", "data": str(final.resolve()), **languages}
    arguments = Namespace(arch="transformer", **_architecture(model.module), **options)
    write_checkpoint(model.module, arguments, folder)
    _save_dictionaries(model, folder)
    save_bpe(model.bpe, folder)


def write_checkpoint(module: nn.Module, arguments: Namespace, folder: Path) -> None:
    """Write weights and the options of a training that stands at its beginning.

    Parameters
    ----------
    module
        The model.
    arguments
        The options.
    folder
        Where to.
    """
    state = {
        "args": arguments,
        "cfg": None,
        "model": module.state_dict(),
        # What fairseq expects of training that stands at its beginning.
        "optimizer_history": [
            {"optimizer_name": "FairseqNAG", "lr_scheduler_state": {}, "num_updates": 0}
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }
    content = io.BytesIO()  # PyTorch says of a full disk only that some position is unexpected
    torch.save(state, content)
    (folder / CHECKPOINT).write_bytes(content.getbuffer())


def _save_dictionaries(model: FairseqNetwork, folder: Path) -> None:
    for language, dictionary in zip(model.languages, model.dictionaries, strict=True):
        dictionary.save(str(folder / f"dict.{language}.txt"))


def save_bpe(bpe: Segmentation, folder: Path) -> str:
    """Copy the files of a segmentation; returns how ``--bpe`` would name it.

    Parameters
    ----------
    bpe
        The segmentation.
    folder
        Where to.
    """
    if bpe.file is None:
        return bpe.name
    if bpe.name == "gpt2":
        for part in GPT2_FILES:
            shutil.copyfile(bpe.file / part, folder / part)
        return "gpt2:."
    name = "sentencepiece.bpe.model" if bpe.name == "sentencepiece" else bpe.file.name
    shutil.copyfile(bpe.file, folder / name)
    return f"{bpe.name}:{name}"


def _architecture(module: nn.Module) -> dict[str, Any]:
    """The options that a fairseq transformer was built from, as far as JSON holds them."""
    options = vars(module)["architecture"]
    plain = bool, int, float, str
    return {name: value for name, value in options.items() if type(value) in plain}
