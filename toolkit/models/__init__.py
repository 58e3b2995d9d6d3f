"""Models: what a ``--model`` SPEC names, loaded behind one adapter protocol."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError, unknown
from headtool.models.base import ModelAdapter
from headtool.models.fairseq.pieces import FairseqPieces
from headtool.models.generation import Generator
from headtool.models.huggingface.pieces import HuggingFacePieces
from headtool.models.pieces import Pieces
from headtool.searching import Search

if TYPE_CHECKING:
    import torch

    from headtool.models.base import ModelAdapter

__all__ = ["check_model", "generator", "load_model", "pieces_of"]

_DTYPES = ("float32", "bfloat16")
_DEVICES = ("auto", "cpu", "cuda", "mps")
_BUILTIN = ("nli", "mt")


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
        ``builtin:nli`` or ``builtin:mt``; a folder or hub id (``org/name``,
        ``org/name@revision``) for transformers; ``fairseq:CHECKPOINT.pt``; a folder that
        ``headtool prune`` wrote.
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

    Raises
    ------
    HeadtoolError
        For a model that is unknown, damaged or not supported.
    """
    import torch

    if dtype not in _DTYPES:
        raise unknown("dtype", dtype, _DTYPES)
    place, number = _device(device), getattr(torch, dtype)
    scheme, rest = _parts(spec)
    is_fairseq = scheme == "fairseq" or spec == "builtin:mt"
    if not is_fairseq and (fairseq_data or bpe or trust_checkpoint):
        raise HeadtoolError(
            f"`fairseq_data`, `bpe` and `trust_checkpoint` are for fairseq models, and {spec} is "
            "none; write fairseq:CHECKPOINT.pt"
        )
    if scheme == "builtin":
        if rest == "nli":
            from headtool.builtin.nli import model_folder
            from headtool.models.huggingface.loading import load_huggingface

            return load_huggingface(str(model_folder()), device=place, dtype=number, spec=spec)
        from headtool.builtin.mt import model_folder as mt_folder

        rest = str(mt_folder() / "checkpoint.pt")
    if is_fairseq:
        from headtool.models.fairseq.model import load_fairseq

        return load_fairseq(
            f"fairseq:{rest}",
            device=place,
            dtype=number,
            data=fairseq_data,
            bpe=bpe,
            trust_checkpoint=trust_checkpoint,
            spec=spec,
        )
    record = _pruned_record(spec)
    if record is not None and record["library"] == "fairseq" and record["form"] == "pruned":
        from headtool.models.fairseq.pruned import pruned_fairseq

        return pruned_fairseq(_folder(spec), record, device=place, dtype=number)
    from headtool.models.huggingface.loading import load_huggingface

    return load_huggingface(spec, device=place, dtype=number)


def check_model(spec: str) -> None:
    """Refuse a model that does not exist, without loading its weights.

    Raises
    ------
    HeadtoolError
        For a SPEC that names nothing, as `load_model` does.
    """
    scheme, rest = _parts(spec)
    if scheme == "fairseq":
        from headtool.models.fairseq.checkpoint import check_file

        check_file(_folder(rest))
    elif scheme != "builtin" and _pruned_record(spec) is None:
        from headtool.models.huggingface.loading import find_huggingface

        find_huggingface(spec, spec=spec)


def _parts(spec: str) -> tuple[str, str]:
    """Split a SPEC into what is before the colon and what is behind it."""
    scheme, _, rest = spec.partition(":")
    if scheme == "builtin" and rest not in _BUILTIN:
        raise unknown("model", spec, [f"builtin:{name}" for name in _BUILTIN])
    if scheme != "fairseq" and spec.endswith(".pt"):
        raise HeadtoolError(f"{spec} looks like a fairseq checkpoint; write fairseq:{spec}")
    return scheme, rest


def _pruned_record(spec: str) -> dict[str, Any] | None:
    """What headtool recorded of a model that it pruned; its weights are checked."""
    from headtool.results.folders import PRUNED_RECORD

    if not (_folder(spec) / PRUNED_RECORD).is_file():
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


def generator(model: ModelAdapter, search: Search) -> Generator:
    """Return what decodes with a model; its own settings fill what `search` leaves open."""
    from headtool.models.fairseq.model import FairseqModel
    from headtool.models.huggingface.model import HuggingFaceModel

    if isinstance(model, FairseqModel):
        from headtool.models.fairseq.generation import FairseqGenerator

        return FairseqGenerator(model, search)
    if isinstance(model, HuggingFaceModel):
        from headtool.models.huggingface.generation import HuggingFaceGenerator

        return HuggingFaceGenerator(model, search)
    raise TypeError(f"{type(model).__name__} has no generator")


def pieces_of(model: ModelAdapter) -> Pieces:
    """Return what is known of a model's tokens.

    Raises
    ------
    HeadtoolError
        If the model is of a library whose tokenizers are not known here.
    """
    if model.library == "transformers":
        return HuggingFacePieces(model)
    if model.library == "fairseq":
        return FairseqPieces(model)
    raise HeadtoolError(
        f"the tokens of {model.library} models are not known; roles need a model of transformers "
        "or fairseq"
    )
