"""What a fairseq translation model is made of: architecture, dictionaries, segmentation.

A checkpoint records the whole command line of its training, and fairseq would follow it: import a
``user_dir``, read embedding files, evaluate the text of some options as Python. Only the options
that shape a plain transformer are taken over here, each of them checked.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headtool.data.messages import quoted
from headtool.data.textfile import quoted_path, read_lines, user_path
from headtool.errors import HeadtoolError, unknown

__all__ = [
    "Segmentation",
    "architecture",
    "build",
    "load_dictionaries",
    "load_segmentation",
    "recorded_languages",
    "recorded_options",
]

_SIDES = ("encoder", "decoder")
_POSITIVE = (
    *(
        f"{side}_{size}"
        for side in _SIDES
        for size in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")
    ),
    "decoder_input_dim",
    "decoder_output_dim",
    "max_source_positions",
    "max_target_positions",
)
_SWITCHES = (
    *(f"{side}_{switch}" for side in _SIDES for switch in ("normalize_before", "learned_pos")),
    "cross_self_attention",
    "layernorm_embedding",
    "no_cross_attention",
    "no_decoder_final_norm",
    "no_scale_embedding",
    "no_token_positional_embeddings",
    "scale_attn",
    "scale_fc",
    "scale_heads",
    "scale_resids",
    "share_all_embeddings",
    "share_decoder_input_output_embed",
)
_SHARES = ("dropout", "attention_dropout", "activation_dropout", "relu_dropout")
_UNSUPPORTED = (
    "adaptive_input",
    "adaptive_softmax_cutoff",
    "base_layers",
    "decoder_xformers_att_config",
    "encoder_xformers_att_config",
    "merge_src_tgt_embed",
)

_SEGMENTATION_FILE = {
    "none": None,
    "bytes": None,
    "characters": None,
    "byte_bpe": "sentencepiece_model_path",
    "fastbpe": "bpe_codes",
    "sentencepiece": "sentencepiece_model",
    "subword_nmt": "bpe_codes",
}
"""fairseq's name of a segmentation, and of the option that takes its file."""


# -- options ------------------------------------------------------------------------------------


def recorded_options(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the model and its task that a checkpoint records, in one dictionary.

    fairseq up to 0.10 keeps them under ``args``; later it keeps them under ``cfg``, by section.
    """
    if checkpoint.get("args") is not None:
        return _options(checkpoint["args"])
    sections = _options(checkpoint.get("cfg"))
    return _options(sections.get("task")) | _options(sections.get("model"))


def _options(section: Any) -> dict[str, Any]:
    options = vars(section) if isinstance(section, Namespace) else section
    if not isinstance(options, Mapping):
        return {}
    return {str(name): value for name, value in options.items() if value is not None}


def recorded_languages(options: Mapping[str, Any], path: Path) -> tuple[str, str]:
    """Return source and target language; they become part of file names.

    Parameters
    ----------
    options
        What the checkpoint records.
    path
        The checkpoint, for messages.
    """
    languages = options.get("source_lang"), options.get("target_lang")
    for language in languages:
        if not isinstance(language, str) or not re.fullmatch(r"[\w.-]+", language):
            raise HeadtoolError(
                f"{quoted_path(path)} records the languages {languages[0]!r} and {languages[1]!r}; "
                "headtool reads checkpoints of fairseq's translation task, which have both"
            )
    return str(languages[0]), str(languages[1])


def architecture(options: Mapping[str, Any], path: Path) -> Namespace:
    """Keep, of the recorded options, those that shape a transformer; check and complete them.

    Parameters
    ----------
    options
        What the checkpoint records.
    path
        The checkpoint, for messages.

    Raises
    ------
    HeadtoolError
        If the model is of another architecture, or an option has a value that cannot be.
    """
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
    from fairseq.models.transformer import TransformerModel
    from fairseq.utils import get_available_activation_fns

    name = options.get("arch", options.get("_name"))
    if not isinstance(name, str) or ARCH_MODEL_REGISTRY.get(name) is not TransformerModel:
        raise HeadtoolError(
            f"{quoted_path(path)} is a fairseq model of architecture {quoted(str(name))}; headtool "
            "reads fairseq's own transformer translation models (transformer, "
            "transformer_iwslt_de_en, transformer_wmt_en_de, ...)"
        )
    for option in _UNSUPPORTED:
        if options.get(option):
            raise HeadtoolError(
                f"{quoted_path(path)} was trained with fairseq-train --{option.replace('_', '-')}, "
                "which headtool does not support"
            )
    checked = Namespace()
    for option, value in options.items():
        if option in _POSITIVE:
            fits = type(value) is int and value > 0
        elif option in _SWITCHES:
            fits = type(value) is bool
        elif option in _SHARES:
            fits = isinstance(value, int | float) and 0 <= value < 1
        elif option == "activation_fn":
            fits = value in get_available_activation_fns()
        else:
            continue
        if not fits:
            raise HeadtoolError(
                f"{quoted_path(path)} records {option} = {quoted(repr(value))}, "
                "which is no architecture; the file is damaged or made up"
            )
        setattr(checked, option, value)
    ARCH_CONFIG_REGISTRY[name](checked)
    return checked


def build(
    shape: Namespace, weights: Mapping[str, Any], dictionaries: tuple[Any, Any], path: Path
) -> nn.Module:
    """Build the transformer and fill in its weights.

    Parameters
    ----------
    shape
        The architecture.
    weights
        The checkpoint's weights by name.
    dictionaries
        Those of source and target.
    path
        The checkpoint, for messages.

    Raises
    ------
    HeadtoolError
        If weights, dictionaries and architecture do not fit together.
    """
    from fairseq.models.transformer import TransformerModel

    task = Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
    for side, dictionary in zip(_SIDES, dictionaries, strict=True):
        embeddings = weights.get(f"{side}.embed_tokens.weight")
        if not isinstance(embeddings, torch.Tensor) or embeddings.ndim != 2:
            raise HeadtoolError(f"{quoted_path(path)} holds no token embeddings of the {side}")
        if len(embeddings) != len(dictionary):
            raise HeadtoolError(
                f"{quoted_path(path)} has {len(embeddings)} {side} embeddings but its dictionary "
                f"has {len(dictionary)} symbols; name the folder of its own dictionaries with "
                "`fairseq_data`"
            )
    try:
        with torch.random.fork_rng(devices=[]):  # random weights, soon overwritten
            module: nn.Module = TransformerModel.build_model(shape, task)
        module.load_state_dict(dict(weights))
        vars(module)["architecture"] = dict(vars(shape))  # what it takes to build it again
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        reason = quoted(" ".join(str(error).split()), 200)
        raise HeadtoolError(
            f"the weights in {quoted_path(path)} do not fit the architecture recorded beside them: "
            f"{reason}"
        ) from error
    return module


# -- dictionaries -------------------------------------------------------------------------------


def load_dictionaries(
    languages: tuple[str, str], path: Path, options: Mapping[str, Any], data: str | None
) -> tuple[Any, Any]:
    """Load the source and the target dictionary.

    Parameters
    ----------
    languages
        The two languages, which name the files ``dict.LANGUAGE.txt``.
    path
        The checkpoint; its folder is looked in first.
    options
        What it records; ``data`` names the folder (or several) that it was trained on.
    data
        A folder to look in instead of all these.
    """
    folders = _recorded_folders(options, path) if data is None else [user_path(data)]
    for folder in folders:
        files = [folder / f"dict.{language}.txt" for language in languages]
        if all(map(os.path.isfile, files)):
            source, target = map(_dictionary, files)
            return source, target
    looked = ", ".join(map(quoted_path, folders))
    names = " and ".join(f"dict.{language}.txt" for language in dict.fromkeys(languages))
    raise HeadtoolError(f"no {names} in {looked}; name their folder with `fairseq_data`")


def _recorded_folders(options: Mapping[str, Any], path: Path) -> list[Path]:
    recorded = options.get("data", "")
    parts = recorded if isinstance(recorded, Sequence) else ()
    if isinstance(parts, str):
        parts = parts.split(os.pathsep)
    names = [part for part in parts if isinstance(part, str) and part and "\0" not in part]
    # A relative folder is meant from where training ran, which is often where the checkpoint is.
    found = [path.parent, *(base / name for name in names for base in (path.parent, Path()))]
    return list(dict.fromkeys(found))


def _dictionary(file: Path) -> Any:
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    try:
        dictionary.add_from_file(io.StringIO("\n".join(read_lines(file))))
    except (RuntimeError, ValueError) as error:
        reason = quoted(" ".join(str(error).split()), 120)
        raise HeadtoolError(
            f"{quoted_path(file)} is no dictionary that fairseq-preprocess wrote: {reason}"
        ) from error
    return dictionary


# -- segmentation -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segmentation:
    """How text is cut into symbols of the dictionary, and put together again.

    Attributes
    ----------
    name
        fairseq's name of it; ``none`` for text that is cut already.
    encoder
        fairseq's own encoder; None for ``none``.
    file
        The file that it was read from, where there is one.
    """

    name: str = "none"
    encoder: Any = None
    file: Path | None = None

    def encode(self, text: str) -> str:
        """Cut text into symbols, separated by spaces."""
        return text if self.encoder is None else str(self.encoder.encode(text))

    def decode(self, symbols: str) -> str:
        """Put symbols together to text."""
        return symbols if self.encoder is None else str(self.encoder.decode(symbols))


def load_segmentation(bpe: str | None, folder: Path) -> Segmentation:
    """Load a segmentation by its name, or look for one in the checkpoint's folder.

    There, ``sentencepiece.bpe.model`` or a single ``*.model`` is taken for a sentencepiece model;
    without either, text is taken to be segmented already.

    Parameters
    ----------
    bpe
        ``NAME:FILE`` or ``NAME``; None looks in the folder.
    folder
        The checkpoint's folder.
    """
    if bpe is None:
        models = sorted(folder.glob("*.model"))
        usual = folder / "sentencepiece.bpe.model"
        if usual not in models and len(models) != 1:
            return Segmentation()
        name, file = "sentencepiece", usual if usual in models else models[0]
    else:
        name, colon, rest = bpe.partition(":")
        if name not in _SEGMENTATION_FILE:
            raise unknown("BPE", name, _SEGMENTATION_FILE)
        wants_file = _SEGMENTATION_FILE[name] is not None
        if wants_file and not rest:
            raise HeadtoolError(f"`bpe={name}` needs its file: `bpe={name}:FILE`")
        if colon and not wants_file:
            raise HeadtoolError(f"`bpe={name}` takes no file, got {quoted(rest)}")
        file = user_path(rest)
        if wants_file and not os.path.isfile(file):
            raise HeadtoolError(f"no such file: {quoted_path(file)}; check `bpe={name}:FILE`")
    if name == "none":
        return Segmentation()
    return Segmentation(name, _encoder(name, file), file if os.path.isfile(file) else None)


def _encoder(name: str, file: Path) -> Any:
    from fairseq.data.encoders import build_bpe

    option = _SEGMENTATION_FILE[name]
    arguments = {} if option is None else {option: str(file)}
    try:
        # subword_nmt reports a line that it cannot read on stderr and ends the process.
        with contextlib.redirect_stderr(io.StringIO()):
            return build_bpe(Namespace(bpe=name, **arguments))
    except ImportError as error:
        raise HeadtoolError(f"`bpe={name}`: {' '.join(str(error).split())}") from error
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, SystemExit) as error:
        raise HeadtoolError(
            f"{quoted_path(file)} is no {name} file, or damaged; name the right one with "
            f"`bpe={name}:FILE`, or `bpe=none` for text that is segmented already"
        ) from error
