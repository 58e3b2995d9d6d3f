"""Models: what a ``--model`` SPEC names, loaded behind one adapter protocol."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headtool.errors import HeadtoolError, unknown
from headtool.models.source import ModelSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from headtool.models.base import ModelAdapter

__all__ = [
    "DEFAULT_LIBRARY",
    "LIBRARIES",
    "check_model",
    "load_model",
    "load_source",
    "model_library",
]

LIBRARIES = {
    "transformers": "headtool.models.huggingface.model:HuggingFaceModel",
    "fairseq": "headtool.models.fairseq.model:FairseqModel",
}
"""Model libraries by name, which is also the scheme of their SPECs (``fairseq:CHECKPOINT.pt``)."""

DEFAULT_LIBRARY = "transformers"
"""Whose models are named without a scheme."""

_DEVICES = ("auto", "cpu", "cuda", "mps")
_BUILTIN = ("nli", "mt", "planted")
_OF_LIBRARIES = ("fairseq_data", "bpe", "trust_checkpoint", "device_map", "load_in")


def load_model(
    spec: str = "builtin:nli",
    *,
    device: str = "auto",
    dtype: str = "float32",
    fairseq_data: str | None = None,
    bpe: str | None = None,
    trust_checkpoint: bool = False,
    device_map: str | Mapping[str, str | int] | None = None,
    load_in: str | None = None,
) -> ModelAdapter:
    """Load a model.

    Parameters
    ----------
    spec
        ``builtin:nli``, ``builtin:mt`` or ``builtin:planted``; a folder or hub id (``org/name``,
        ``org/name@revision``) for transformers; a GGUF file (``FILE.gguf``), which is
        dequantised; ``fairseq:CHECKPOINT.pt``; a folder that ``headtool prune`` wrote.
    device
        ``auto``, ``cpu``, ``cuda`` (also ``cuda:1``) or ``mps``.
    dtype
        ``float32``, ``bfloat16``, ``float16``, or ``auto``: as it was saved (float32 for GGUF files
        and fairseq).
    fairseq_data
        Folder with a fairseq model's dictionaries, where they are not beside the checkpoint.
    bpe
        A fairseq model's subword encoding, such as ``sentencepiece:FILE``.
    trust_checkpoint
        Unpickle a fairseq checkpoint that needs more than inert data. This can run any code that
        the file holds.
    device_map
        Where the parts of a transformers model go that one device does not hold: ``auto``, or the
        device of each module by name, such as ``{"model.embed_tokens": 0, "model.layers": "disk"}``
        (also as JSON, or a file of it), with ``cpu`` and ``disk`` for what waits there until it is
        needed. In place of `device`; takes the package accelerate.
    load_in
        ``8bit`` or ``4bit``: quantise a transformers model with bitsandbytes. Needs a GPU.

    Returns
    -------
    ModelAdapter
        The model in evaluation mode, with its attention sites.

    Raises
    ------
    HeadtoolError
        For a model that is unknown, damaged or not supported.

    Examples
    --------
    >>> from headtool import load_model
    >>> model = load_model("builtin:nli", device="cpu")
    >>> model.task, model.sites.n_heads
    ('classification', 32)
    """
    return load_source(
        ModelSource(
            spec,
            device=device,
            dtype=dtype,
            fairseq_data=fairseq_data,
            bpe=bpe,
            trust_checkpoint=trust_checkpoint,
            device_map=device_map,
            load_in=load_in,
        )
    )


def load_source(source: ModelSource) -> ModelAdapter:
    """Load a model from all that says how; the model has it as ``model.source``.

    Parameters
    ----------
    source
        The SPEC, and the options of `load_model`.

    Raises
    ------
    HeadtoolError
        As `load_model` does.
    """
    import torch

    from headtool.models.fingerprints import weights_state
    from headtool.models.memory import return_large_blocks

    return_large_blocks()
    place = _device(source.device)
    library, where, record = _found(source.spec)
    given = {name: value for name in _OF_LIBRARIES if (value := getattr(source, name))}
    for name in given:
        if name not in library.load_options:
            raise _foreign(name, source.spec, library)
    if source.dtype == "auto":
        number = library.saved_dtype(where, spec=source.spec)
    else:
        number = getattr(torch, source.dtype)
    placed = source.device_map or source.load_in
    if record is not None and not placed:
        model = library.load_pruned(_folder(source.spec), record, device=place, dtype=number)
    else:
        load = cast("Callable[..., ModelAdapter]", library.load)  # with options of its own
        model = load(where, spec=source.spec, device=place, dtype=number, **given)
    model.source, model.loaded = source, weights_state(model.module)
    return model


def check_model(spec: str) -> None:
    """Refuse a model that does not exist, without loading its weights.

    Parameters
    ----------
    spec
        As for `load_model`.

    Raises
    ------
    HeadtoolError
        For a SPEC that names nothing, as `load_model` does.
    """
    library, source, record = _found(spec)
    if record is None:
        library.check(source, spec=spec)


def model_library(name: str) -> type[ModelAdapter]:
    """Return the class of a library's models; see `LIBRARIES`."""
    module, _, attribute = LIBRARIES[name].partition(":")
    return cast("type[ModelAdapter]", getattr(importlib.import_module(module), attribute))


def _found(spec: str) -> tuple[type[ModelAdapter], str, dict[str, Any] | None]:
    """Return whose a model is, where it lies, and the record where it is a pruned one."""
    scheme, _, rest = spec.partition(":")
    if scheme == "builtin":
        library, source = _builtin(spec, rest)
        return model_library(library), source, None
    if scheme in LIBRARIES:
        return model_library(scheme), rest, None
    if scheme == "memory":
        raise HeadtoolError(f"{spec} was a model in memory; give headtool.wrap(model, tokenizer)")
    record = _pruned_record(spec)
    if record is None:
        return model_library(DEFAULT_LIBRARY), spec, None
    # What is baked is of full size, and loaded as any other model.
    return model_library(record["library"]), spec, record if record["form"] == "pruned" else None


def _builtin(spec: str, name: str) -> tuple[str, str]:
    """Library and place of a built-in model."""
    from headtool.builtin.planted import planted_seed

    seed = planted_seed(spec)
    if seed is not None:
        from headtool.builtin.planted_files import model_folder as planted_folder

        return "transformers", str(planted_folder(seed))
    if name not in _BUILTIN:
        raise unknown("model", spec, [f"builtin:{known}" for known in _BUILTIN])
    if name == "nli":
        from headtool.builtin.nli import model_folder

        return "transformers", str(model_folder())
    from headtool.builtin.mt import model_folder as mt_folder

    return "fairseq", str(mt_folder() / "checkpoint.pt")


def _foreign(name: str, spec: str, library: type[ModelAdapter]) -> HeadtoolError:
    """Build the error for an option that is another library's."""
    owner = next(known for known in LIBRARIES if name in model_library(known).load_options)
    return HeadtoolError(
        f"`{name}` is for {owner} models, and {spec} is a {library.library} model; leave it out, "
        f"or write {owner}:PLACE"
    )


def _pruned_record(spec: str) -> dict[str, Any] | None:
    """What headtool recorded of a model that it pruned; its weights are checked."""
    from headtool.results.folders import PRUNED_RECORD

    if not os.path.isfile(_folder(spec) / PRUNED_RECORD):
        return None
    from headtool.surgery.record import read_record

    return read_record(_folder(spec))


def _folder(spec: str) -> Path:
    return Path(os.path.expanduser(spec))


def _device(name: str) -> torch.device:
    """Resolve a device name, checking that the machine has it."""
    import torch

    kind = name.partition(":")[0]
    if kind not in _DEVICES:
        raise unknown("device", name, _DEVICES)
    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next((k for k, present in has.items() if present), "cpu"))
    if not has.get(kind, True):
        raise HeadtoolError(f"this machine has no {kind} device; use `device=cpu`")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise HeadtoolError(f"'{name}' is no device; write cpu, cuda, cuda:1 or mps") from error
    if kind == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise HeadtoolError(
            f"this machine has {torch.cuda.device_count()} CUDA devices, not {name}"
        )
    return device
