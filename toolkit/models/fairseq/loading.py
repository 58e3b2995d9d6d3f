"""Load fairseq models: checkpoints that ``fairseq-train`` wrote, and pruned ones."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from headtool.data.textfile import quoted_path
from headtool.errors import HeadtoolError
from headtool.models.fairseq.checkpoint import load_checkpoint
from headtool.models.fairseq.parts import (
    Segmentation,
    architecture,
    build,
    load_dictionaries,
    load_segmentation,
    recorded_languages,
    recorded_options,
)
from headtool.quiet import silence
from headtool.surgery.history import History, record_history
from headtool.surgery.plan import carry_out
from headtool.surgery.record import read_plans

__all__ = ["Loaded", "load_parts", "load_pruned_parts", "require_fairseq"]


@dataclass(frozen=True)
class Loaded:
    """What a fairseq model consists of.

    Attributes
    ----------
    module
        The model, on the CPU, in float32.
    dictionaries
        fairseq's source and target dictionary.
    languages
        Source and target language.
    bpe
        How raw text is cut into symbols.
    """

    module: nn.Module
    dictionaries: tuple[Any, Any]
    languages: tuple[str, str]
    bpe: Segmentation


def load_parts(
    path: Path, *, spec: str, data: str | None, bpe: str | None, trust_checkpoint: bool
) -> Loaded:
    """Load what a checkpoint and the files beside it hold; see `FairseqModel.load`.

    Parameters
    ----------
    path
        The checkpoint.
    spec
        What to call the model in messages.
    data, bpe, trust_checkpoint
        As for `FairseqModel.load`, where `data` is called `fairseq_data`.
    """
    require_fairseq(spec)
    checkpoint = load_checkpoint(path, trust=trust_checkpoint)
    options, weights = recorded_options(checkpoint), checkpoint.get("model")
    if not options or not isinstance(weights, dict):
        raise HeadtoolError(
            f"{quoted_path(path)} holds no fairseq model (weights under 'model', options under "
            "'args' or 'cfg'); name a checkpoint that fairseq-train wrote"
        )
    with silence():
        shape = architecture(options, path)
        languages = recorded_languages(options, path)
        dictionaries = load_dictionaries(languages, path, options, data)
        segmentation = load_segmentation(bpe, path.parent)
        module = build(shape, weights, dictionaries, path)
    return Loaded(module, dictionaries, languages, segmentation)


def load_pruned_parts(folder: Path, record: Mapping[str, Any]) -> Loaded:
    """Load what `save` wrote of a pruned model, with its record.

    Parameters
    ----------
    folder
        Where it lies.
    record
        What ``headtool prune`` recorded of it.
    """
    from safetensors.torch import load_file

    require_fairseq(str(folder))
    with silence():
        from fairseq.models.transformer import TransformerModel

        languages = cast(tuple[str, str], tuple(record["languages"]))
        dictionaries = load_dictionaries(languages, folder / "model.safetensors", {}, str(folder))
        name, colon, file = str(record["bpe"]).partition(":")
        segmentation = load_segmentation(f"{name}{colon}{folder / file if file else ''}", folder)
        task = Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
        with torch.random.fork_rng(devices=[]):  # random weights, soon overwritten
            module = TransformerModel.build_model(Namespace(**record["architecture"]), task)
    history = History(**record["history"])
    for plan in read_plans(record["history"], str(folder)):
        carry_out(plan, module)
    try:
        module.load_state_dict(load_file(folder / "model.safetensors"))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise HeadtoolError(
            f"the record of removed heads in {folder} does not fit its weights: {reason[:200]}"
        ) from error
    vars(module)["architecture"] = dict(record["architecture"])
    record_history(module, history)
    return Loaded(module, dictionaries, languages, segmentation)


def require_fairseq(spec: str) -> None:
    """Refuse, with the way to install it, where fairseq is missing."""
    try:
        with silence():
            import fairseq.models.transformer  # noqa: F401
    except ModuleNotFoundError as error:
        raise HeadtoolError(
            f"{spec} needs the package {str(error.name).partition('.')[0]}: "
            'install the extra with pip install "headtool[fairseq]"'
        ) from error
