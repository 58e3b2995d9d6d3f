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
    architecture,
    build,
    load_dictionaries,
    recorded_languages,
    recorded_options,
)
from headtool.models.fairseq.segmentation import Segmentation, load_segmentation
from headtool.models.fairseq.text_parts import (
    Design,
    Family,
    build_text,
    build_trained,
    load_dictionary,
    load_labels,
    text_design,
    text_family,
)
from headtool.quiet import silence
from headtool.surgery.history import History, record_history
from headtool.surgery.plan import carry_out
from headtool.surgery.record import read_plans

__all__ = ["Loaded", "LoadedText", "load_parts", "load_pruned_parts", "require_fairseq"]


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


@dataclass(frozen=True)
class LoadedText:
    """What a fairseq language model consists of.

    Attributes
    ----------
    module
        The model, on the CPU, in float32.
    design
        How it was built.
    dictionary
        fairseq's dictionary.
    bpe
        How raw text is cut into symbols.
    labels
        Names of the classes of a classifier.
    """

    module: nn.Module
    design: Design
    dictionary: Any
    bpe: Segmentation
    labels: tuple[str, ...]


def load_parts(
    path: Path, *, spec: str, data: str | None, bpe: str | None, trust_checkpoint: bool
) -> Loaded | LoadedText:
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
        family = text_family(options)
        if family is not None:
            return _load_text(family, path, options, weights, data=data, bpe=bpe)
        shape = architecture(options, path)
        languages = recorded_languages(options, path)
        dictionaries = load_dictionaries(languages, path, options, data)
        segmentation = load_segmentation(bpe, path.parent)
        module = build(shape, weights, dictionaries, path)
    return Loaded(module, dictionaries, languages, segmentation)


def _load_text(
    family: Family,
    path: Path,
    options: Mapping[str, Any],
    weights: Mapping[str, Any],
    *,
    data: str | None,
    bpe: str | None,
) -> LoadedText:
    """Load the rest of a language model."""
    design = text_design(options, weights, family, path)
    dictionary = load_dictionary(family, path, options, data)
    segmentation = load_segmentation(bpe, path.parent)
    module = build_trained(design, weights, dictionary, path)
    labels = load_labels(design, path, options, data)
    return LoadedText(module, design, dictionary, segmentation, labels)


def load_pruned_parts(folder: Path, record: Mapping[str, Any]) -> Loaded | LoadedText:
    """Load what `save` wrote of a pruned model, with its record.

    Parameters
    ----------
    folder
        Where it lies.
    record
        What ``headtool prune`` recorded of it.
    """
    require_fairseq(str(folder))
    if "design" in record:
        return _load_pruned_text(folder, record)
    with silence():
        from fairseq.models.transformer import TransformerModel

        languages = cast(tuple[str, str], tuple(record["languages"]))
        dictionaries = load_dictionaries(languages, folder / "model.safetensors", {}, str(folder))
        segmentation = _recorded_segmentation(folder, record)
        task = Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
        with torch.random.fork_rng(devices=[]):  # random weights, soon overwritten
            module = TransformerModel.build_model(Namespace(**record["architecture"]), task)
    _remove_recorded(module, folder, record)
    vars(module)["architecture"] = dict(record["architecture"])
    return Loaded(module, dictionaries, languages, segmentation)


def _load_pruned_text(folder: Path, record: Mapping[str, Any]) -> LoadedText:
    """Load a pruned language model."""
    path = folder / "model.safetensors"
    with silence():
        design = Design.read(record["design"], path)
        dictionary = load_dictionary(design.family, path, {}, str(folder))
        segmentation = _recorded_segmentation(folder, record)
        labels = load_labels(design, path, {}, str(folder))
        with torch.random.fork_rng(devices=[]):  # random weights, soon overwritten
            module = build_text(design, dictionary)
    _remove_recorded(module, folder, record)
    return LoadedText(module, design, dictionary, segmentation, labels)


def _recorded_segmentation(folder: Path, record: Mapping[str, Any]) -> Segmentation:
    name, colon, file = str(record["bpe"]).partition(":")
    return load_segmentation(f"{name}{colon}{folder / file if file else ''}", folder)


def _remove_recorded(module: nn.Module, folder: Path, record: Mapping[str, Any]) -> None:
    """Remove the heads that a record names, and fill in the weights that were left."""
    from safetensors.torch import load_file

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
    record_history(module, history)


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
