"""What a fairseq translation model is made of: architecture and dictionaries.

A checkpoint records the whole command line of its training, and fairseq would follow it: import a
``user_dir``, read embedding files, evaluate the text of some options as Python. Only the options
that shape a plain transformer are taken over here, each of them checked.
"""

from __future__ import annotations

import io
import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headtool.data.messages import quoted
from headtool.data.textfile import quoted_path, read_lines, user_path
from headtool.errors import HeadtoolError

__all__ = [
    "architecture",
    "build",
    "checked_options",
    "dictionary_folders",
    "load_dictionaries",
    "read_dictionary",
    "recorded_architecture",
    "recorded_languages",
    "recorded_options",
    "refuse_unsupported",
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
    "max_positions",
    "tokens_per_sample",
)
_SWITCHES = (
    "add_bos_token",
    "no_tie_adaptive_proj",
    "untie_weights_roberta",
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
_SHARES = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "relu_dropout",
    "pooler_dropout",
)
_ACTIVATIONS = ("activation_fn", "pooler_activation_fn")
_UNSUPPORTED = (
    "adaptive_input",
    "adaptive_softmax_cutoff",
    "base_layers",
    "character_embeddings",
    "decoder_xformers_att_config",
    "encoder_xformers_att_config",
    "merge_src_tgt_embed",
    "spectral_norm_classification_head",
)


# -- options ------------------------------------------------------------------------------------


def recorded_options(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the model and its task that a checkpoint records, in one dictionary.

    fairseq up to 0.10 keeps them under ``args``; later it keeps them under ``cfg``, by section.
    Interpolations, which point from one section to another, are left out.
    """
    if checkpoint.get("args") is not None:
        return _options(checkpoint["args"])
    sections = _options(checkpoint.get("cfg"))
    return _options(sections.get("task")) | _options(sections.get("model"))


def _options(section: Any) -> dict[str, Any]:
    options = vars(section) if isinstance(section, Namespace) else section
    if not isinstance(options, Mapping):
        return {}
    return {
        str(name): value
        for name, value in options.items()
        if value is not None and not (isinstance(value, str) and value.startswith("${"))
    }


def recorded_architecture(options: Mapping[str, Any]) -> str:
    """Return the name of the architecture that a checkpoint records, whatever that may be.

    Parameters
    ----------
    options
        What the checkpoint records.
    """
    return str(options.get("arch", options.get("_name")))


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

    name = recorded_architecture(options)
    if ARCH_MODEL_REGISTRY.get(name) is not TransformerModel:
        raise HeadtoolError(
            f"{quoted_path(path)} is a fairseq model of architecture {quoted(name)}; headtool "
            "reads fairseq's own transformer translation models (transformer, "
            "transformer_iwslt_de_en, transformer_wmt_en_de, ...), language models "
            "(transformer_lm, transformer_lm_gpt, ...) and RoBERTa (roberta, roberta_base, ...)"
        )
    refuse_unsupported(options, path)
    checked = checked_options(options, path)
    ARCH_CONFIG_REGISTRY[name](checked)
    return checked


def checked_options(options: Mapping[str, Any], path: Path) -> Namespace:
    """Keep, of the recorded options, those that shape a transformer, each of a possible value.

    Parameters
    ----------
    options
        What the checkpoint records.
    path
        The checkpoint, for messages.

    Raises
    ------
    HeadtoolError
        If a value cannot be.
    """
    from fairseq.utils import get_available_activation_fns

    checked = Namespace()
    for option, value in options.items():
        if option in _POSITIVE:
            fits = type(value) is int and value > 0
        elif option in _SWITCHES:
            fits = type(value) is bool
        elif option in _SHARES:
            fits = isinstance(value, int | float) and 0 <= value < 1
        elif option in _ACTIVATIONS:
            fits = value in get_available_activation_fns()
        else:
            continue
        if not fits:
            raise HeadtoolError(
                f"{quoted_path(path)} records {option} = {quoted(repr(value))}, "
                "which is no architecture; the file is damaged or made up"
            )
        setattr(checked, option, value)
    return checked


def refuse_unsupported(options: Mapping[str, Any], path: Path) -> None:
    """Refuse a model with parts that headtool does not support.

    Parameters
    ----------
    options
        What the checkpoint records.
    path
        The checkpoint, for messages.

    Raises
    ------
    HeadtoolError
        Naming the option of its training.
    """
    for option in _UNSUPPORTED:
        if options.get(option):
            raise HeadtoolError(
                f"{quoted_path(path)} was trained with fairseq-train --{option.replace('_', '-')}, "
                "which headtool does not support"
            )


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
    folders = dictionary_folders(options, path, data)
    for folder in folders:
        files = [folder / f"dict.{language}.txt" for language in languages]
        if all(map(os.path.isfile, files)):
            source, target = map(read_dictionary, files)
            return source, target
    looked = ", ".join(map(quoted_path, folders))
    names = " and ".join(f"dict.{language}.txt" for language in dict.fromkeys(languages))
    raise HeadtoolError(f"no {names} in {looked}; name their folder with `fairseq_data`")


def dictionary_folders(options: Mapping[str, Any], path: Path, data: str | None) -> list[Path]:
    """Return where to look for dictionaries, the checkpoint's folder first.

    Parameters
    ----------
    options, path, data
        As for `load_dictionaries`.
    """
    if data is not None:
        return [user_path(data)]
    recorded = options.get("data", "")
    parts = recorded if isinstance(recorded, Sequence) else ()
    if isinstance(parts, str):
        parts = parts.split(os.pathsep)
    names = [part for part in parts if isinstance(part, str) and part and "\0" not in part]
    # A relative folder is meant from where training ran, which is often where the checkpoint is.
    found = [path.parent, *(base / name for name in names for base in (path.parent, Path()))]
    return list(dict.fromkeys(found))


def read_dictionary(file: Path) -> Any:
    """Read a dictionary that ``fairseq-preprocess`` wrote.

    Parameters
    ----------
    file
        The file.

    Raises
    ------
    HeadtoolError
        If it is none.
    """
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
