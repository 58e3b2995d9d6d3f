"""What a fairseq language model is made of: architecture, dictionary, classification head.

Two families: ``transformer_lm``, which predicts the next symbol, and ``roberta``, which predicts
masked symbols or, with a classification head, classes. As for translation models, only options that
shape a plain transformer are taken over from a checkpoint.
"""

from __future__ import annotations

import dataclasses
import os
import typing
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from headtool.data.messages import quoted
from headtool.data.textfile import quoted_path
from headtool.errors import HeadtoolError
from headtool.models.examples import Task
from headtool.models.fairseq.parts import (
    checked_options,
    dictionary_folders,
    read_dictionary,
    recorded_architecture,
    refuse_unsupported,
)

__all__ = [
    "Design",
    "Family",
    "build_text",
    "build_trained",
    "load_dictionary",
    "load_labels",
    "text_design",
    "text_family",
]

Family = Literal["roberta", "transformer_lm"]

_HEAD = "classification_heads."
_LARGEST = 1_000_000  # outputs of a head
_USUAL_HEAD = "sentence_classification_head"


@dataclass(frozen=True)
class Design:
    """How a language model is built.

    Attributes
    ----------
    family
        ``roberta`` or ``transformer_lm``.
    task
        What it predicts.
    architecture
        The options that shape it, checked; all others are fairseq's defaults.
    head
        Name of its classification head; empty for none.
    classes
        Outputs of the head; 1 for a regression.
    inner
        Width of the head.
    """

    family: Family
    task: Task
    architecture: Mapping[str, Any]
    head: str = ""
    classes: int = 0
    inner: int = 0

    def record(self) -> dict[str, Any]:
        """The design as JSON can hold it."""
        return dataclasses.asdict(self) | {"architecture": dict(self.architecture)}

    @classmethod
    def read(cls, record: Any, path: Path) -> Design:
        """Read what `record` returned, checking it as the options of a checkpoint are.

        Parameters
        ----------
        record
            The record.
        path
            The model's file, for messages.

        Raises
        ------
        HeadtoolError
            If it is none.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(record, dict) or set(record) != known:
            raise HeadtoolError(
                f"the record beside {quoted_path(path)} describes no language model"
            )
        family, task, head = record["family"], record["task"], record["head"]
        sizes = record["classes"], record["inner"]
        shape = record["architecture"]
        if (
            family not in typing.get_args(Family)
            or task not in ("causal-lm", "masked-lm", "classification", "regression")
            or not (isinstance(head, str) and isinstance(shape, dict))
            or any(type(size) is not int or not 0 <= size <= _LARGEST for size in sizes)
        ):
            raise HeadtoolError(
                f"the record beside {quoted_path(path)} describes no language model"
            )
        return cls(family, task, vars(checked_options(shape, path)), head, *sizes)


def text_family(options: Mapping[str, Any]) -> Family | None:
    """Return the family of language models that a checkpoint is of; None for another model.

    Parameters
    ----------
    options
        What the checkpoint records.
    """
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.models.roberta import RobertaModel
    from fairseq.models.transformer_lm import TransformerLanguageModel

    model = ARCH_MODEL_REGISTRY.get(recorded_architecture(options))
    if model is RobertaModel:
        return "roberta"
    return "transformer_lm" if model is TransformerLanguageModel else None


def text_design(
    options: Mapping[str, Any], weights: Mapping[str, Any], family: Family, path: Path
) -> Design:
    """Keep, of the recorded options, those that shape a language model; check and complete them.

    Parameters
    ----------
    options
        What the checkpoint records.
    weights
        Its weights by name, which tell whether there is a classification head.
    family
        Its family.
    path
        The checkpoint, for messages.

    Raises
    ------
    HeadtoolError
        If an option has a value that cannot be, or a part is not supported.
    """
    from fairseq.models import ARCH_CONFIG_REGISTRY

    size = options.get("output_dictionary_size", -1)
    if isinstance(size, int) and size >= 0:
        raise HeadtoolError(
            f"{quoted_path(path)} records output_dictionary_size = {size}: it writes fewer symbols "
            "than it reads, which headtool does not support"
        )
    shape = checked_options(options, path)
    ARCH_CONFIG_REGISTRY[recorded_architecture(options)](shape)
    refuse_unsupported({**options, **vars(shape)}, path)
    if family == "transformer_lm":
        _complete(shape)
    else:
        shape.max_positions = getattr(shape, "max_positions", shape.max_source_positions)
    completed = vars(checked_options(vars(shape), path))
    if family == "transformer_lm":
        return Design(family, "causal-lm", completed)
    name = _head_name(options, weights, path)
    if not name:
        return Design(family, "masked-lm", completed)
    inner, classes = _head_size(weights, name, path)
    task: Task = "regression" if options.get("regression_target") is True else "classification"
    if task == "regression" and classes != 1:
        raise HeadtoolError(
            f"{quoted_path(path)} records a regression, but its head {quoted(name)} has {classes} "
            "outputs; the file is damaged or made up"
        )
    return Design(family, task, completed, name, classes, inner)


def build_text(design: Design, dictionary: Any) -> nn.Module:
    """Build a language model with random weights.

    Parameters
    ----------
    design
        How it is built.
    dictionary
        fairseq's dictionary.
    """
    from fairseq.models.roberta import RobertaModel
    from fairseq.models.transformer_lm import TransformerLanguageModel

    # Building completes the options in place.
    options = Namespace(**design.architecture)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    if design.family == "transformer_lm":
        _complete(options)
        module: nn.Module = TransformerLanguageModel.build_model(options, task)
    else:
        roberta: Any = RobertaModel.build_model(options, task)
        if design.head:
            roberta.register_classification_head(design.head, design.classes, design.inner)
        module = roberta
    return module


def build_trained(
    design: Design, weights: Mapping[str, Any], dictionary: Any, path: Path
) -> nn.Module:
    """Build a language model and fill in its weights.

    Parameters
    ----------
    design
        How it is built.
    weights
        The checkpoint's weights by name.
    dictionary
        fairseq's dictionary.
    path
        The checkpoint, for messages.

    Raises
    ------
    HeadtoolError
        If weights, dictionary and architecture do not fit together.
    """
    embeddings = next(
        (value for name, value in weights.items() if name.endswith("embed_tokens.weight")), None
    )
    if not isinstance(embeddings, torch.Tensor) or embeddings.ndim != 2:
        raise HeadtoolError(f"{quoted_path(path)} holds no token embeddings")
    if len(embeddings) != len(dictionary):
        raise HeadtoolError(
            f"{quoted_path(path)} has {len(embeddings)} embeddings but its dictionary has "
            f"{len(dictionary)} symbols; name the folder of its own dict.txt with `fairseq_data`"
        )
    try:
        with torch.random.fork_rng(devices=[]):  # random weights, soon overwritten
            module = build_text(design, dictionary)
        module.load_state_dict(dict(weights))
    except (
        AssertionError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        reason = quoted(" ".join(str(error).split()), 200)
        raise HeadtoolError(
            f"the weights in {quoted_path(path)} do not fit the architecture recorded beside "
            f"them: {reason}"
        ) from error
    return module


def load_dictionary(
    family: Family, path: Path, options: Mapping[str, Any], data: str | None
) -> Any:
    """Load the dictionary of a language model.

    Parameters
    ----------
    family
        Its family: RoBERTa has a symbol for masks beside those of the file.
    path
        The checkpoint; its folder is looked in first.
    options
        What it records; ``data`` names the folder (or several) that it was trained on.
    data
        A folder to look in instead of all these.
    """
    folders = dictionary_folders(options, path, data)
    for folder in folders:
        for file in (folder / "dict.txt", folder / "input0" / "dict.txt"):
            if os.path.isfile(file):
                dictionary = read_dictionary(file)
                if family == "roberta":
                    dictionary.add_symbol("<mask>")
                return dictionary
    looked = ", ".join(map(quoted_path, folders))
    raise HeadtoolError(f"no dict.txt in {looked}; name its folder with `fairseq_data`")


def load_labels(
    design: Design, path: Path, options: Mapping[str, Any], data: str | None
) -> tuple[str, ...]:
    """Load the names of the classes: those of ``label/dict.txt``, else their numbers.

    Parameters
    ----------
    design
        The model's.
    path, options, data
        As for `load_dictionary`.
    """
    if design.task != "classification":
        return ()
    for folder in dictionary_folders(options, path, data):
        file = folder / "label" / "dict.txt"
        if os.path.isfile(file):
            known = read_dictionary(file)
            names = tuple(str(known[i]) for i in range(known.nspecial, len(known)))
            if len(names) >= design.classes:
                return names[: design.classes]
            raise HeadtoolError(
                f"{quoted_path(file)} names {len(names)} classes, and the model has "
                f"{design.classes}; use the dictionary that it was trained with"
            )
    return tuple(map(str, range(design.classes)))


def _complete(shape: Namespace) -> None:
    """Fill in fairseq's defaults: the architecture ``transformer_lm`` sets none."""
    from fairseq.models.transformer_lm import TransformerLanguageModelConfig

    for side in ("input", "output"):  # old checkpoints record the width of the model alone
        name = f"decoder_{side}_dim"
        if hasattr(shape, "decoder_embed_dim") and not hasattr(shape, name):
            setattr(shape, name, shape.decoder_embed_dim)
    for field in dataclasses.fields(TransformerLanguageModelConfig):
        default = field.default
        is_value = default is None or isinstance(default, bool | int | float | str)
        if is_value and not (isinstance(default, str) and default.startswith("${")):
            setattr(shape, field.name, getattr(shape, field.name, default))


def _head_name(options: Mapping[str, Any], weights: Mapping[str, Any], path: Path) -> str:
    """The name of the classification head that the checkpoint was trained with; empty for none."""
    names = {
        str(name).removeprefix(_HEAD).split(".")[0]
        for name in weights
        if str(name).startswith(_HEAD)
    }
    wanted = options.get("classification_head_name", _USUAL_HEAD)
    if not names:
        return ""
    if wanted in names:
        return str(wanted)
    if len(names) == 1:
        return names.pop()
    listing = quoted(", ".join(sorted(names)))
    raise HeadtoolError(
        f"{quoted_path(path)} has several classification heads ({listing}) and does not say "
        "which is in use; keep one of them in the checkpoint"
    )


def _head_size(weights: Mapping[str, Any], name: str, path: Path) -> tuple[int, int]:
    """Width of a classification head, and how many outputs it has."""
    sizes = []
    for part in ("dense", "out_proj"):
        weight = weights.get(f"{_HEAD}{name}.{part}.weight")
        if not isinstance(weight, torch.Tensor) or weight.ndim != 2:
            raise HeadtoolError(
                f"{quoted_path(path)} has a classification head {quoted(name)} without weights; "
                "the file is damaged or made up"
            )
        sizes.append(len(weight))
    return sizes[0], sizes[1]
