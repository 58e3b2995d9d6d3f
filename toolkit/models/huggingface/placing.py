"""Where the parts of a transformers model go: devices, memory, disk, and bits."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from headtool.attention.weights import is_offloaded
from headtool.errors import HeadtoolError, nearest, unknown
from headtool.reading import read_json

__all__ = ["Placing", "placing_of"]

_WORDS = ("auto", "balanced", "balanced_low_0", "cpu", "disk", "sequential")


@dataclass(frozen=True)
class Placing:
    """What ``from_pretrained`` is to be given so that parts of a model go to their places.

    Attributes
    ----------
    options
        Its arguments; none of them for a model that goes to one device.
    folder
        Where weights are written that wait on disk; None where none can.
    """

    options: Mapping[str, Any]
    folder: str | None = None

    def settle(self, module: nn.Module, *, spec: str) -> None:
        """Check that the map spoke of this model; remove the folder when the model is gone.

        Weights that are read as their layer runs can take no gradient.

        Parameters
        ----------
        module
            What was loaded.
        spec
            What to call it in messages.

        Raises
        ------
        HeadtoolError
            If the map names a module that the model does not have.
        """
        if self.folder is not None:
            weakref.finalize(module, shutil.rmtree, self.folder, ignore_errors=True)
        if is_offloaded(module):
            module.requires_grad_(False)
        wanted = self.options.get("device_map")
        if isinstance(wanted, dict):
            known = {name for name, _ in [*module.named_modules(), *module.named_parameters()]}
            for name in wanted:
                if name not in known:
                    inner = [name for name, _ in module.named_modules() if name.count(".") < 3]
                    raise HeadtoolError(
                        f"`device_map` names {name!r:.60}, which {spec} does not have"
                        f"{nearest(name, inner)}"
                    )


def placing_of(
    device_map: str | None, load_in: str | None, *, device: torch.device, dtype: torch.dtype
) -> Placing:
    """Check where a model shall go, and say it in the words of ``from_pretrained``.

    Parameters
    ----------
    device_map, load_in
        As for `headtool.load_model`.
    device
        Where a quantised model goes that no map places.
    dtype
        Precision in which quantised weights are multiplied.

    Raises
    ------
    HeadtoolError
        If the map is damaged or names a device that is not there, if a package is missing, or if
        there is no GPU to quantise on.
    """
    if device_map is None and load_in is None:
        return Placing({})
    options: dict[str, Any] = {"device_map": {"": device}}
    if load_in is not None:
        options["quantization_config"] = _quantised(load_in, dtype)
    folder = None
    if device_map is not None:
        _need("accelerate", "`device_map`", '"headtool[large]"')
        options["device_map"] = _map(device_map)
        folder = options["offload_folder"] = tempfile.mkdtemp(prefix="headtool-offload-")
    return Placing(options, folder)


def _quantised(load_in: str, dtype: torch.dtype) -> Any:
    if not torch.cuda.is_available():
        raise HeadtoolError(
            f"`load_in={load_in}` needs a CUDA GPU, which this machine does not have; use "
            "`dtype=bfloat16`, or a GGUF file as the model"
        )
    _need("bitsandbytes", f"`load_in={load_in}`", "bitsandbytes")
    config: Any = transformers.BitsAndBytesConfig  # untyped
    if load_in == "8bit":
        return config(load_in_8bit=True)
    return config(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def _need(package: str, what: str, install: str) -> None:
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise HeadtoolError(
            f"{what} needs the package {error.name}: pip install {install}"
        ) from error


def _map(given: str) -> str | dict[str, str | int]:
    """A word, or the device of each module."""
    if given in ("cpu", "disk"):
        return {"": given}
    if given in _WORDS:
        return given
    if given.lstrip().startswith("{"):
        try:
            found = json.loads(given)
        except ValueError as error:
            raise HeadtoolError(
                f"`device_map` is no JSON ({error}); write it as "
                '{"model.embed_tokens": 0, "model.layers": "cpu"}'
            ) from error
    elif os.path.isfile(given):
        found = read_json(Path(given))
    else:
        raise unknown("device map", given, (*_WORDS, "FILE.json"))
    if not isinstance(found, dict) or not found:
        raise HeadtoolError(
            "`device_map` must be an object with a device for each module, such as "
            '{"model.embed_tokens": 0, "model.layers": "cpu"}'
        )
    return {name: _place(name, value) for name, value in found.items()}


def _place(name: str, value: object) -> str | int:
    """A device that this machine has, as accelerate takes it."""
    count = torch.cuda.device_count()
    number = str(value).removeprefix("cuda:")
    if type(value) in (int, str) and number.isdecimal():
        if int(number) < count:
            return int(number)
        raise HeadtoolError(
            f"`device_map` puts {name or 'the model'} on GPU {number}, and this machine has {count}"
        )
    if value in ("cpu", "disk") or (value == "mps" and torch.backends.mps.is_available()):
        return str(value)
    raise HeadtoolError(
        f"`device_map` puts {name or 'the model'} on {value!r:.40}; write the number of a GPU, cpu "
        "or disk"
    )
