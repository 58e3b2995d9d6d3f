"""Read a pickled checkpoint without running anything that is in it.

Unpickling can call any function by name. PyTorch's restricted unpickler calls only names on an
allow-list. Ours holds the names that fairseq's configurations and training states are made of, and
all but one of them stand for an inert class that keeps its state and does nothing: omegaconf's own
classes resolve interpolations and are not inert.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from headtool.data.textfile import quoted_path
from headtool.errors import HeadtoolError

__all__ = ["check_file", "load_checkpoint"]

_INERT = (
    # Configurations: omegaconf containers, their leaves, and the types noted in their metadata.
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.base.Metadata",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.nodes.AnyNode",
    "omegaconf.nodes.BooleanNode",
    "omegaconf.nodes.FloatNode",
    "omegaconf.nodes.IntegerNode",
    "omegaconf.nodes.StringNode",
    "builtins.bool",
    "builtins.dict",
    "builtins.float",
    "builtins.int",
    "builtins.list",
    "builtins.str",
    "collections.defaultdict",
    "typing.Any",
    # Training states, which nothing here reads.
    "fairseq.meters.AverageMeter",
    "fairseq.meters.StopwatchMeter",
    "fairseq.meters.TimeMeter",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.dtype",
)

# The unpicklers raise nearly anything when they read bytes that are no pickle.
_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class _Inert:
    """Takes the place of an instance of any class of `_INERT`: keeps its state, does nothing."""

    state: object = None

    def __new__(cls, *args: object) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *args: object) -> None:
        """Take whatever the class would have been called with."""

    def __setstate__(self, state: object) -> None:
        self.state = state


def check_file(path: Path) -> None:
    """Refuse a checkpoint that is missing."""
    if not os.path.isfile(path):  # whatever its name is: a `Path` refuses a very long one
        is_folder = os.path.isdir(path)
        what = "is a folder; name a file in it" if is_folder else "is no file; check the path"
        raise HeadtoolError(f"{quoted_path(path)} {what}, like fairseq:DIR/checkpoint_best.pt")


def load_checkpoint(path: Path, *, trust: bool = False) -> dict[str, Any]:
    """Load a checkpoint that ``fairseq-train`` wrote, onto the CPU.

    Parameters
    ----------
    path
        The file, in PyTorch's present or earlier format.
    trust
        Unpickle classes that are not on the allow-list too, which can run any code that whoever
        made the file put there.

    Returns
    -------
    dict
        What was saved. Its ``cfg`` is made of plain dictionaries, lists and values (and
        `argparse.Namespace`), also where it was saved as an omegaconf container; interpolations
        are left as they stand.

    Raises
    ------
    HeadtoolError
        If the file is missing, damaged, no checkpoint, or needs a class that is not allowed.
    """
    check_file(path)
    allowed: list[Any] = [argparse.Namespace, *((_Inert, name) for name in _INERT)]
    # What the calling program has allowed for itself stays allowed when the context ends.
    ours = [entry for entry in allowed if entry not in torch.serialization.get_safe_globals()]
    try:
        _check_sums(path)
        with torch.serialization.safe_globals(ours), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about pickle protocols
            saved = torch.load(path, map_location="cpu", weights_only=not trust)
        if isinstance(saved, dict) and saved.get("cfg") is not None:
            saved["cfg"] = _plain(saved["cfg"])
    except ImportError as error:
        raise HeadtoolError(f"{quoted_path(path)} cannot be unpickled here: {error}") from error
    except _DAMAGE as error:
        raise HeadtoolError(_reason(path, error)) from error
    if not isinstance(saved, dict):
        raise HeadtoolError(
            f"{quoted_path(path)} holds a {type(saved).__name__}, not a checkpoint of fairseq-train"
        )
    return saved


def _check_sums(path: Path) -> None:
    """Compare the archive's checksums, which PyTorch writes but does not read."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged:
            raise ValueError(f"wrong checksum of {damaged}")


def _reason(path: Path, error: BaseException) -> str:
    """Say in one line why a file cannot be loaded."""
    if isinstance(error, OSError):
        return f"cannot read {quoted_path(path)}: {error.strerror or error}"
    # "Unsupported global: GLOBAL a.b was not ...", "Trying to load unsupported GLOBAL os.system".
    forbidden = re.search(r"\bGLOBAL (\S+)", str(error))
    if forbidden:
        return (
            f"{quoted_path(path)} needs {forbidden[1]}, which is not loaded because unpickling it "
            "could run any code; if you trust the file's origin, add `trust_checkpoint=True`"
        )
    if "weights_only" in str(error) and "archive" in str(error).lower():
        return (
            f"{quoted_path(path)} is an archive that can run code (TorchScript or PyTorch's oldest "
            "format); if you trust the file's origin, add `trust_checkpoint=True`"
        )
    return (
        f"{quoted_path(path)} is damaged, cut short or no checkpoint of fairseq-train "
        f"({type(error).__name__}); copy it again"
    )


def _plain(value: Any) -> Any:
    """Turn omegaconf containers, stood in for or real ones, into plain ones."""
    if isinstance(value, _Inert):
        state = value.state if isinstance(value.state, dict) else {}
        return _plain(state.get("_content", state.get("_val")))
    if type(value).__module__.partition(".")[0] == "omegaconf":  # from a trusted checkpoint
        from omegaconf import OmegaConf

        return _plain(OmegaConf.to_container(value, resolve=False))
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value
