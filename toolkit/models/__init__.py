"""Models: what a ``--model`` SPEC names, loaded behind one adapter protocol."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headtool.errors import HeadtoolError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from headtool.models.base import ModelAdapter

__all__ = ["DEFAULT_LIBRARY", "LIBRARIES", "check_model", "load_model", "model_library"]

LIBRARIES = {
    "transformers": "headtool.models.huggingface.model:HuggingFaceModel",
    "fairseq": "headtool.models.fairseq.model:FairseqModel",
}
"""Model libraries by name, which is also the scheme of their SPECs (``fairseq:CHECKPOINT.pt``)."""

DEFAULT_LIBRARY = "transformers"
"""Whose models are named without a scheme."""

_DTYPES = ("float32", "bfloat16")
_DEVICES = ("auto", "cpu", "cuda", "mps")
_BUILTIN = ("nli", "mt", "planted")


def load_model(
    spec: str = "builtin:nli",
    *,
    device: str = "auto",
    dtype: str = "float32",
    fairseq_data: str | None = None,
    bpe: str | None = None,
    trust_checkpoint: bool = False,
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
        ``float32`` or ``bfloat16``.
    fairseq_data
        Folder with a fairseq model's dictionaries, where they are not beside the checkpoint.
    bpe
        A fairseq model's subword encoding, such as ``sentencepiece:FILE``.
    trust_checkpoint
        Unpickle a fairseq checkpoint that needs more than inert data. This can run any code that
        the file holds.

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
    import torch

    if dtype not in _DTYPES:
        raise unknown("dtype", dtype, _DTYPES)
    place, number = _device(device), getattr(torch, dtype)
    library, source, record = _found(spec)
    options = {"fairseq_data": fairseq_data, "bpe": bpe, "trust_checkpoint": trust_checkpoint}
    given = {name: value for name, value in options.items() if value}
    for name in given:
        if name not in library.load_options:
            raise _foreign(name, spec, library)
    if record is not None:
        return library.load_pruned(_folder(spec), record, device=place, dtype=number)
    load = cast("Callable[..., ModelAdapter]", library.load)  # with options of its own
    return load(source, spec=spec, device=place, dtype=number, **given)


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
        from headtool.builtin.planting import model_folder as planted_folder

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
