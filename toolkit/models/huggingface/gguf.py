"""GGUF files, the format of llama.cpp: checked before anything reads them, loaded dequantised."""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers
from torch import nn
from transformers.models.auto import modeling_auto

from headtool.errors import HeadtoolError

__all__ = [
    "check_gguf",
    "dense",
    "gguf_options",
    "is_gguf",
    "loading_options",
    "named_class",
    "open_gguf",
]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a number
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 10: "Q", 11: "q"}
_ALIGNMENT = 32
_MOST_AXES = 8


def is_gguf(source: str) -> bool:
    """Whether a SPEC names a GGUF file: by its ending, or by the first bytes of the file."""
    if source.lower().endswith(".gguf"):
        return True
    if not os.path.isfile(source):
        return False
    with open(source, "rb") as file:
        return file.read(4) == _MAGIC


def gguf_options(source: str, *, spec: str) -> tuple[str, dict[str, Any]]:
    """Check a file, and return what ``from_pretrained`` is to be given for it.

    Parameters
    ----------
    source
        The file.
    spec
        How the user named it.

    Raises
    ------
    HeadtoolError
        If there is no such file, it is damaged, cut short or part of a model, or a package is
        missing.
    """
    path = Path(source)
    if not path.is_file():
        raise HeadtoolError(f"unknown model '{spec}': there is no such GGUF file; check the path")
    for package in ("gguf", "accelerate"):
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            raise HeadtoolError(
                f"a GGUF file needs the package {error.name}: install the extra with "
                'pip install "headtool[gguf]"'
            ) from error
    check_gguf(path, spec=spec)
    return str(path.parent), {"gguf_file": path.name}


@contextlib.contextmanager
def open_gguf(name: str, options: dict[str, Any]) -> Iterator[str]:
    """Give a GGUF file a folder of its own, so that no tokenizer beside it is mistaken for its own.

    Parameters
    ----------
    name, options
        What ``from_pretrained`` is to be given; anything but a GGUF file stays where it is.
    """
    if "gguf_file" not in options:
        yield name
        return
    with tempfile.TemporaryDirectory() as folder:
        file = options["gguf_file"]
        os.symlink(os.path.abspath(os.path.join(name, file)), os.path.join(folder, file))
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            yield folder  # the library draws a bar of its own


def named_class(config: Any, spec: str) -> None:
    """Write the model class into the configuration of a GGUF file, which does not hold it.

    Parameters
    ----------
    config
        The configuration; its ``architectures`` are filled in.
    spec
        What to call the model in messages.
    """
    if config.architectures:
        return
    for mapping in (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    ):
        if isinstance(name := mapping.get(config.model_type), str):
            config.architectures = [name]
            return
    raise HeadtoolError(
        f"{spec} holds a {config.model_type} model, and of GGUF files headtool reads language "
        "models alone; give the transformers model that it was made from"
    )


def loading_options() -> dict[str, Any]:
    """What else ``from_pretrained`` is given, so that no weight stays quantised."""
    kind = getattr(transformers, "GgufConfig", None)  # before 5.2x nothing stays so
    return {} if kind is None else {"quantization_config": kind(dequantize=True)}


def dense(module: nn.Module) -> None:
    """Let a model that was read from GGUF pass for what it is: a model with ordinary weights.

    Parameters
    ----------
    module
        The model, changed in place: it can be saved, trained and moved as any other.
    """
    config: Any = module.config
    for holder, name in (
        (config, "quantization_config"),
        (module, "hf_quantizer"),
        (module, "is_quantized"),
        (module, "quantization_method"),
    ):
        if name in vars(holder):
            delattr(holder, name)


# -- what is checked -------------------------------------------------------------------------------


def check_gguf(path: Path, *, spec: str) -> dict[str, Any]:
    """Refuse a file that is no GGUF, is damaged or cut short, or holds a part of a model.

    Every length in the file is held against what the file has left before it is used, so that no
    file costs more memory or time than its size.

    Parameters
    ----------
    path
        The file.
    spec
        How the user named it.

    Returns
    -------
    dict
        The single numbers and texts of its header.

    Raises
    ------
    HeadtoolError
        Saying what is wrong with it.
    """
    if path.stat().st_size < 24:
        raise HeadtoolError(f"{spec} is no GGUF file: it has {path.stat().st_size} bytes")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        reader = _Reader(view, spec)
        header = reader.header()
        parts = header.get("split.count", 0)
        if isinstance(parts, int) and parts > 1:
            raise HeadtoolError(
                f"{spec} is one of the {parts} parts of a model; merge them with llama-gguf-split"
            )
        if "general.architecture" not in header:
            raise reader.damaged("it does not name its architecture")
        if header["general.architecture"] in ("clip", "mmproj") or not reader.tensors:
            raise HeadtoolError(f"{spec} holds no language model; give the file that does")
        reader.check_tensors(header.get("general.alignment", _ALIGNMENT))
        return header


class _Reader:
    """Reads the header of a GGUF file from front to back."""

    def __init__(self, view: mmap.mmap, spec: str) -> None:
        self.view, self.spec, self.at = view, spec, 0
        self.tensors: list[tuple[str, int, int, int]] = []  # name, elements, type, offset

    def damaged(self, reason: str) -> HeadtoolError:
        return HeadtoolError(f"{self.spec} is damaged or cut short ({reason}); download it again")

    def header(self) -> dict[str, Any]:
        if self._take(4) != _MAGIC:
            raise HeadtoolError(f"{self.spec} is no GGUF file: it does not begin with GGUF")
        version = self._number("I")
        if version not in _VERSIONS:
            raise HeadtoolError(
                f"{self.spec} is a GGUF file of version {version}, and versions 2 and 3 of little "
                "byte order are read; convert it anew with llama.cpp"
            )
        tensors, entries = self._number("Q"), self._number("Q")
        if (tensors + entries) * 12 > len(self.view):  # the least that each takes
            raise self.damaged(f"it claims {tensors} tensors and {entries} entries")
        found = {}
        for _ in range(entries):
            name = self._string()
            value = self._value(self._number("I"), depth=0)
            if value is not None:
                found[name] = value
        for _ in range(tensors):
            name, axes = repr(self._string()[:100])[1:-1], self._number("I")
            if not 1 <= axes <= _MOST_AXES:
                raise self.damaged(f"{name} has {axes} axes")
            elements = 1
            for _ in range(axes):
                elements *= self._number("Q")
            self.tensors.append((name, elements, self._number("I"), self._number("Q")))
        return found

    def check_tensors(self, alignment: Any) -> None:
        """Hold the place of every tensor against the end of the file."""
        if not (isinstance(alignment, int) and 1 <= alignment <= 1 << 20):
            raise self.damaged("its alignment is no number of bytes")
        start = -(-self.at // alignment) * alignment
        for name, elements, kind, offset in self.tensors:
            size = _bytes_of(elements, kind)
            if size is None:
                raise HeadtoolError(
                    f"{name} of {self.spec} is quantised as type {kind}, which the gguf package "
                    "does not know; update it, or convert the model to Q8_0"
                )
            if not 0 < size <= len(self.view) - start - offset:
                raise self.damaged(f"{name} lies beyond its end")

    def _value(self, kind: int, *, depth: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind in _SIZES:
            raw = self._take(_SIZES[kind])
            return struct.unpack(f"<{_NUMBERS[kind]}", raw)[0] if kind in _NUMBERS else None
        if kind != _ARRAY or depth:  # nobody writes lists of lists
            raise self.damaged(f"an entry is of type {kind}")
        inner, count = self._number("I"), self._number("Q")
        if inner in _SIZES:
            self._skip(count * _SIZES[inner])
            return None
        if count * 8 > len(self.view) - self.at:
            raise self.damaged(f"a list claims {count} entries")
        for _ in range(count):
            self._value(inner, depth=1) if inner != _STRING else self._skip(self._number("Q"))
        return None

    def _string(self) -> str:
        return self._take(self._number("Q")).decode("utf-8", "replace")

    def _number(self, code: str) -> int:
        return int(struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}")))[0])

    def _take(self, count: int) -> bytes:
        start = self.at
        self._skip(count)
        return self.view[start : self.at]

    def _skip(self, count: int) -> None:
        if count > len(self.view) - self.at:
            raise self.damaged("its header goes beyond its end")
        self.at += count


def _bytes_of(elements: int, kind: int) -> int | None:
    """Bytes that so many elements of a quantisation take; None where the type is not known."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (KeyError, ValueError):
        return None
    return elements // block * size
