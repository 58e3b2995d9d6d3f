"""Load transformers models, with one line for everything that can be wrong with them."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import huggingface_hub
import huggingface_hub.utils
import torch
import transformers
from safetensors import safe_open
from torch import nn
from transformers.models.auto import modeling_auto
from transformers.utils import logging as hf_logging

from headtool.data.arrays import ARRAYS
from headtool.errors import HeadtoolError
from headtool.models.examples import Task
from headtool.models.huggingface.checking import check_config, check_parts, readable_errors
from headtool.models.huggingface.gguf import (
    dense,
    gguf_options,
    is_gguf,
    loading_options,
    named_class,
    open_gguf,
)
from headtool.models.huggingface.processors import load_processor
from headtool.models.huggingface.pruned import pruned_class
from headtool.quiet import only_errors

__all__ = [
    "find_huggingface",
    "load_config",
    "load_parts",
    "load_pruned_module",
    "load_weights",
    "saved_dtype",
    "task_of",
    "weight_files",
]

_SAVED = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}

_LOG = logging.getLogger("headtool")

_HEADS: tuple[tuple[Task, Any, Any], ...] = (
    (
        "classification",
        modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        transformers.AutoModelForSequenceClassification,
    ),
    (
        "seq2seq",
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        transformers.AutoModelForSeq2SeqLM,
    ),
    (
        "causal-lm",
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        transformers.AutoModelForCausalLM,
    ),
    (
        "masked-lm",
        modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        transformers.AutoModelForMaskedLM,
    ),
    (
        "token-classification",
        modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
        transformers.AutoModelForTokenClassification,
    ),
    (
        "question-answering",
        modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
        transformers.AutoModelForQuestionAnswering,
    ),
    (
        "classification",
        modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
        transformers.AutoModelForImageClassification,
    ),
    (
        "classification",
        modeling_auto.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES,
        transformers.AutoModelForAudioClassification,
    ),
)

_TRANSCRIBING = (
    modeling_auto.MODEL_FOR_CTC_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
)


def load_parts(
    source: str, *, spec: str, dtype: torch.dtype, options: Mapping[str, Any] | None = None
) -> tuple[Task, nn.Module, Any]:
    """Load task, module and tokenizer of a folder or hub id; see `HuggingFaceModel.load`.

    Parameters
    ----------
    source
        The folder, or the hub id.
    spec
        What to call the model in messages.
    dtype
        Precision of the weights.
    options
        More arguments of ``from_pretrained``, such as where the weights go.
    """
    name, found, config = find_huggingface(source, spec=spec)
    task, loader = task_of(spec, config, tuple(config.architectures or ()))
    built = pruned_class(config, spec) or loader
    with open_gguf(name, found) as place:
        every = {**found, **(options or {})}
        module = load_weights(built, place, config, spec=spec, dtype=dtype, options=every)
        reads = cast(Any, module).main_input_name
        if reads in ARRAYS:
            images = reads == "pixel_values"
            return task, module, load_processor(place, found, images=images, spec=spec)
        with readable_errors("load the tokenizer", spec):
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, **found)
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_tokens):
        # The library makes an empty one where the files are missing.
        raise HeadtoolError(f"{spec} has no tokenizer; save one beside the model")
    check_parts(spec, module, tokenizer)
    return task, module, tokenizer


def load_pruned_module(folder: Path) -> nn.Module:
    """Load a pruned model in float32 without its tokenizer; see `ModelAdapter`."""
    spec = str(folder)
    if not (folder / "config.json").is_file():
        raise HeadtoolError(f"{folder} holds no pruned model; headtool prune writes one")
    options = {"trust_remote_code": False}
    config = load_config(spec, spec=spec, local=True, options=options)
    loader = pruned_class(config, spec)
    if loader is None:
        raise HeadtoolError(
            f"no head is missing in {folder}: it is no pruned model; load it with from_pretrained"
        )
    module = load_weights(loader, spec, config, spec=spec, dtype=torch.float32, options=options)
    return module.eval()


def saved_dtype(source: str, *, spec: str) -> torch.dtype:
    """Return the precision that a model was saved in; see `ModelAdapter.saved_dtype`.

    Parameters
    ----------
    source
        Folder, file or name of the model.
    spec
        The model as the user named it, for messages.
    """
    name, _, config = find_huggingface(source, spec=spec)
    if isinstance(config.dtype, torch.dtype):
        return config.dtype
    for file in sorted(Path(name).glob("*.safetensors")):
        with readable_errors("read the weights", spec), safe_open(file, "pt") as opened:
            for key in opened.keys():  # noqa: SIM118 - it is no dict
                found = opened.get_slice(key).get_dtype()
                if found in _SAVED:
                    return _SAVED[found]
    return torch.float32


def weight_files(source: str) -> tuple[Path, ...]:
    """Return the files that a model was loaded from; empty where they are not known.

    Parameters
    ----------
    source
        The folder, GGUF file or hub id.
    """
    place = Path(os.path.expanduser(source))
    if place.is_file():
        return (place,)
    if not place.exists():
        name, _, revision = source.partition("@")
        found = huggingface_hub.try_to_load_from_cache(
            name, "config.json", revision=revision or None
        )
        if not isinstance(found, str):
            return ()
        place = Path(found).parent
    kinds = ("*.safetensors", "*.bin", "config.json")
    return tuple(sorted(file for kind in kinds for file in place.glob(kind)))


def find_huggingface(source: str, *, spec: str) -> tuple[str, dict[str, Any], Any]:
    """Find a folder or hub id.

    Parameters
    ----------
    source
        The folder, or the hub id.
    spec
        What to call the model in messages.

    Returns
    -------
    name, options
        What ``from_pretrained`` is to be given.
    config
        The model's configuration.
    """
    source = os.path.expanduser(source)
    local = os.path.exists(source)
    if is_gguf(source):
        name, options = gguf_options(source, spec=spec)
        with open_gguf(name, options) as place:
            config = load_config(place, spec=spec, local=True, options=options)
        named_class(config, spec)
        return name, options, config
    if source.endswith(".pt"):
        raise HeadtoolError(f"{spec} looks like a fairseq checkpoint; write fairseq:{spec}")
    if os.path.isfile(source):
        raise HeadtoolError(f"{spec} is a file; name the folder of a transformers model")
    if local and not os.path.isfile(os.path.join(source, "config.json")):
        raise HeadtoolError(f"{spec} is no transformers model folder: it has no config.json")
    name, _, revision = (source, "", "") if local else source.partition("@")
    # Code that comes with a model is never run, and the user never asked whether it may be.
    options = {"revision": revision or None, "trust_remote_code": False}
    return name, options, load_config(name, spec=spec, local=local, options=options)


def load_config(name: str, *, spec: str, local: bool, options: Mapping[str, Any]) -> Any:
    """Load a configuration.

    Parameters
    ----------
    name, options
        What ``from_pretrained`` is to be given.
    spec
        How the user named the model.
    local
        Whether it lies in a folder.
    """
    with readable_errors("load the configuration", spec, unknown=not local):
        config = transformers.AutoConfig.from_pretrained(name, **options)
    check_config(spec, config)
    return config


def load_weights(
    loader: Any,
    name: str,
    config: Any,
    *,
    spec: str,
    dtype: torch.dtype,
    options: Mapping[str, Any],
) -> nn.Module:
    """Load a model of a class.

    Parameters
    ----------
    loader
        The class.
    name, options
        Arguments of its ``from_pretrained``.
    config
        The model's configuration.
    spec
        What to call the model in messages.
    dtype
        Precision of the weights.
    """
    more = {**(loading_options() if "gguf_file" in options else {}), **options}
    offloaded = only_errors("accelerate.big_modeling")  # that some weights are is no news
    with readable_errors("load the weights", spec), _no_bar(), offloaded:
        module, report = loader.from_pretrained(
            name,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **more,
        )
    _check_weights(spec, module, report)
    if "gguf_file" in options:
        dense(module)
    return cast(nn.Module, module)


def _check_weights(spec: str, module: nn.Module, report: dict[str, Any]) -> None:
    """Refuse weights that leave a part of the model untrained."""
    kind = type(module).__name__
    missing = sorted(report["missing_keys"])
    if missing:
        raise HeadtoolError(
            f"{spec} lacks {len(missing)} weights of a {kind}, such as {missing[0]}; use a "
            "checkpoint that was trained with this head"
        )
    mismatched = sorted(report["mismatched_keys"])
    if mismatched:
        name, found, wanted = mismatched[0]
        raise HeadtoolError(
            f"{name} of {spec} has the shape {tuple(found)}, but its config.json makes it "
            f"{tuple(wanted)}; use a config.json that belongs to the weights"
        )


def task_of(spec: str, config: Any, names: Sequence[str]) -> tuple[Task, Any]:
    """Tell the task from the name of a model's class, and which class loads such models.

    Parameters
    ----------
    spec
        What to call the model in messages.
    config
        Its configuration.
    names
        Names of its class, and of those that it derives from.

    Raises
    ------
    HeadtoolError
        If it is of no task that headtool knows.
    """
    for task, mapping, loader in _HEADS:
        if _classes(mapping).intersection(names):
            listens = loader is transformers.AutoModelForAudioClassification
            labels = task not in ("seq2seq", "causal-lm", "masked-lm")
            if labels and config.is_encoder_decoder and not listens:  # Whisper's is its encoder
                what = "models with spans" if task == "question-answering" else "classifiers"
                raise HeadtoolError(
                    f"{spec} is a {names[0]}: encoder-decoder {what} are not supported"
                )
            if task != "classification":
                return task, loader
            if config.problem_type == "multi_label_classification":
                raise HeadtoolError(f"{spec} is a multi-label classifier, which is not supported")
            regression = config.problem_type == "regression" or config.num_labels == 1
            if regression and config.num_labels != 1:
                raise HeadtoolError(
                    f"{spec} is a regression model with {config.num_labels} outputs, and headtool "
                    "needs one; correct problem_type or id2label in its config.json"
                )
            return ("regression" if regression else "classification"), loader
    if any(_classes(mapping).intersection(names) for mapping in _TRANSCRIBING):
        raise HeadtoolError(
            f"{spec} is a {names[0]}, which transcribes sound, and no data here pairs sound with "
            "texts; of the models that read sound, headtool takes those that classify it"
        )
    raise HeadtoolError(
        f"{spec} is a {names[0] if names else 'model of unnamed class'}; headtool needs one with a "
        "sequence-, token-, image- or audio-classification, a question-answering, or a causal, "
        "masked or sequence-to-sequence language-model head"
    )


def _classes(mapping: Mapping[str, str | tuple[str, ...]]) -> set[str]:
    """Names of the model classes in one of transformers' mappings."""
    values = ((value,) if isinstance(value, str) else value for value in mapping.values())
    return {name for some in values for name in some}


@contextlib.contextmanager
def _no_bar() -> Iterator[None]:
    """Load weights without the library's bar, except where headtool's logger is to say more.

    What downloads show stays as it is.
    """
    if not hf_logging.is_progress_bar_enabled() or _LOG.isEnabledFor(logging.INFO):
        yield
        return
    loading, hub = cast(Any, hf_logging), cast(Any, huggingface_hub.utils)  # both untyped
    shown = not hub.are_progress_bars_disabled()
    downloads = hub.enable_progress_bars if shown else hub.disable_progress_bars
    loading.disable_progress_bar()
    downloads()
    try:
        yield
    finally:
        loading.enable_progress_bar()
        downloads()
