"""Work as bytes, for other processes: models and examples stay behind and are named instead.

What runs a unit is any function that holds a model, examples and whatever was prepared of them.
Packed, it is small: whoever unpacks it puts a model and examples of their own in those places.
"""

from __future__ import annotations

import contextlib
import io
import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray import cloudpickle
from torch import Tensor, nn

from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples

__all__ = ["Bytes", "Parcel", "pack_model", "pack_work", "unpack_model", "unpack_work"]

Bytes = NDArray[np.uint8]
"""Bytes that need no copy on their way through Ray's object store."""

_LINE = 64  # bytes of a line of the processor's cache; PyTorch's memory begins at one


@dataclass(frozen=True)
class Parcel:
    """Work, and what has to be there to unpack it.

    Attributes
    ----------
    content
        The work.
    models, examples
        What was left out, in the order of its names.
    """

    content: Bytes
    models: tuple[ModelAdapter, ...]
    examples: tuple[Examples, ...]

    @property
    def device(self) -> str:
        """The kind of device that the model is on."""
        return self.models[0].device.type if self.models else "cpu"


def pack_work(work: Callable[..., Any]) -> Parcel:
    """Pack what runs a unit.

    Parameters
    ----------
    work
        The function, with all that it holds.
    """
    places: dict[int, tuple[Any, ...]] = {}
    while True:
        file = io.BytesIO()
        packer = _WorkPickler(file, places)
        packer.dump(work)
        known = len(places)
        for number, model in enumerate(packer.models):
            places |= _places(number, model)
        # A part of a model that came before the model itself was not known as one.
        if len(places) == known or not packer.strange:
            content = np.frombuffer(file.getvalue(), dtype=np.uint8)
            return Parcel(content, tuple(packer.models), tuple(packer.examples))


def unpack_work(
    content: Bytes,
    models: Sequence[ModelAdapter],
    examples: Sequence[Examples],
    *,
    device: str,
) -> Callable[..., Any]:
    """Unpack what runs a unit, with a model and examples of one's own in their places.

    Parameters
    ----------
    content
        What `pack_work` made.
    models, examples
        What stands in for the parcel's, in the same order.
    device
        The parcel's device; tensors from there go to where the first of `models` is.
    """
    with _moving(device, models[0].device if models else torch.device(device)):
        unpickler = _WorkUnpickler(io.BytesIO(content.tobytes()), models, examples)
        found: Callable[..., Any] = unpickler.load()
        return found


def pack_model(model: ModelAdapter) -> list[Bytes]:
    """Pack a model with its weights: first what holds them, then each tensor.

    Parameters
    ----------
    model
        The model.
    """
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _ModelPickler(file, buffers.append).dump(model)
    held = np.frombuffer(file.getvalue(), dtype=np.uint8)
    return [held, *(np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers)]


def unpack_model(parts: Sequence[Bytes], device: torch.device) -> ModelAdapter:
    """Unpack a model onto a device.

    Parameters
    ----------
    parts
        What `pack_model` made.
    device
        Where its weights go.
    """
    held, *buffers = parts
    with _moving("", device):  # where each was, first: buffers may be elsewhere on purpose
        model: ModelAdapter = pickle.loads(held.tobytes(), buffers=buffers)
    model.module.to(device)
    return model


def _places(number: int, model: ModelAdapter) -> dict[int, tuple[Any, ...]]:
    """Names of a model's modules and parameters, by which another copy's are found."""
    modules = {id(part): ("module", number, name) for name, part in model.module.named_modules()}
    parameters = model.module.named_parameters()
    return modules | {id(part): ("parameter", number, name) for name, part in parameters}


class _TensorPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles tensors as arrays, which is small and fast, and does not tie them to a device."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj.layout == torch.strided:
            form = obj.dtype, tuple(obj.shape), obj.requires_grad, obj.device.type
            return _rebuilt, (self.array(obj), *form, obj.data_ptr() % _LINE)
        return super().reducer_override(obj)

    def array(self, tensor: Tensor) -> Any:
        """A tensor's bytes."""
        flat = tensor.detach().cpu().contiguous().view(-1)
        return flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, dtype=np.uint8)


class _ModelPickler(_TensorPickler):
    def __init__(self, file: Any, keep: Callable[[pickle.PickleBuffer], Any]) -> None:
        super().__init__(file, protocol=5, buffer_callback=lambda buffer: bool(keep(buffer)))

    def array(self, tensor: Tensor) -> Any:
        return pickle.PickleBuffer(super().array(tensor))


class _WorkPickler(_TensorPickler):
    def __init__(self, file: Any, places: Mapping[int, tuple[Any, ...]]) -> None:
        super().__init__(file, protocol=5)
        self.places = places
        self.models: list[ModelAdapter] = []
        self.examples: list[Examples] = []
        self.strange = False  # whether there was a module of no known model

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, ModelAdapter):
            return "model", _number(obj, self.models)
        if isinstance(obj, Examples):
            return "examples", _number(obj, self.examples)
        if isinstance(obj, nn.Module | nn.Parameter):
            self.strange |= id(obj) not in self.places
            return self.places.get(id(obj))
        return None


def _number(item: Any, items: list[Any]) -> int:
    """Which of the items it is; it is added if it is none of them."""
    for number, known in enumerate(items):
        if known is item:
            return number
    items.append(item)
    return len(items) - 1


class _WorkUnpickler(pickle.Unpickler):
    def __init__(
        self, file: Any, models: Sequence[ModelAdapter], examples: Sequence[Examples]
    ) -> None:
        super().__init__(file)
        self.models, self.examples = models, examples

    def persistent_load(self, pid: Any) -> Any:
        kind, number, *name = pid
        if kind == "examples":
            return self.examples[number]
        model = self.models[number]
        if kind == "model":
            return model
        find = model.module.get_submodule if kind == "module" else model.module.get_parameter
        return find(*name)


_moves: list[tuple[str, torch.device]] = []
"""Whither tensors that are being unpacked go: from what kind of device, and to which."""


@contextlib.contextmanager
def _moving(kind: str, device: torch.device) -> Iterator[None]:
    _moves.append((kind, device))
    try:
        yield
    finally:
        _moves.pop()


def _rebuilt(
    array: Any,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    requires_grad: bool,
    kind: str,
    offset: int,
) -> Tensor:
    """Make a tensor of its bytes again, with memory of its own.

    It lies as it did in a line of the processor's cache. Where weights of a mapped file begin
    inside of one, products with few rows round otherwise.
    """
    skipped = offset // dtype.itemsize
    flat = torch.empty(skipped + math.prod(shape), dtype=dtype)[skipped:]
    if flat.numel():
        flat.view(torch.uint8).numpy()[:] = np.frombuffer(array, dtype=np.uint8)
    moved, device = _moves[-1]
    place = device if kind == moved else torch.device(kind)
    return flat.reshape(shape).to(place).requires_grad_(requires_grad)
