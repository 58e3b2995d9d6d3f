"""Models of transformers that classify images."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, NoReturn, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.discovery import Probe, discover
from headtool.attention.probing import refusal
from headtool.attention.watching import AttentionWatch
from headtool.attention.weights import home
from headtool.data import TextData
from headtool.data.images import open_image
from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Queries, Task
from headtool.models.huggingface.checking import readable_errors
from headtool.models.huggingface.network import HuggingFaceNetwork

__all__ = ["ImageNetwork"]

_KEPT_BYTES = 2**31
"""Memory for images as the model reads them; what does not fit is decoded again."""


class ImageNetwork(HuggingFaceNetwork):
    """A transformers model with its image processor.

    Parameters
    ----------
    spec, task
        See `ModelAdapter`; classification or regression.
    module
        The model; it is put into evaluation mode.
    tokenizer
        Its image processor, in the place where other models have a tokenizer.
    """

    def __init__(self, spec: str, task: Task, module: nn.Module, tokenizer: Any) -> None:
        module.eval()
        self.config = cast(Any, module).config
        self.tokenizer = tokenizer
        self.tags = None
        with readable_errors("run the image processor", spec):
            blank = np.zeros((32, 32, 3), dtype=np.uint8)
            self.shape = self._processed(blank).shape
        self.positions: int = _positions(module, self._noise(module, 2), spec)
        labels = [str(self.config.id2label[i]) for i in range(self.config.num_labels)]
        handles = discover(module, self.probe(module))
        named = labels if task == "classification" else ()
        ModelAdapter.__init__(self, spec, task, module, handles, named)

    @property
    def max_length(self) -> int:
        """How many positions every image takes, patches and class tokens."""
        return self.positions

    # -- images -----------------------------------------------------------------------------

    def _processed(self, image: Any) -> NDArray[np.float32]:
        """An image as the model reads it, [channels, height, width]."""
        found = self.tokenizer(image, return_tensors="np")["pixel_values"][0]
        return np.asarray(found, dtype=np.float32)

    @cached_property
    def _pixels(self) -> Callable[[str, str], NDArray[np.float32]]:
        """Decodes and processes a cell of the data, and remembers the last ones."""

        def decode(cell: str, place: str) -> NDArray[np.float32]:
            with readable_errors(f"process {place}", self.spec):
                return self._processed(open_image(cell, place))

        size = 4 * int(np.prod(self.shape))
        return lru_cache(maxsize=max(1, _KEPT_BYTES // size))(decode)

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        """Decode every image once, so that damaged ones show; see `ModelAdapter.encode`."""
        if data.kind != "images":
            raise HeadtoolError(
                f"{data.spec} holds data of the kind {data.kind}, but {self.spec} reads images and "
                "needs a folder with a folder of images for each class, or a .parquet file with "
                "image and label"
            )
        rows = []
        for number, target in enumerate(self._targets(data)):
            pixels = self._pixels(data.columns["image"][number], _place(data, number))
            digest = hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()
            rows.append({"pixels": digest, "target": target})
        lengths = np.full(len(rows), self.positions, dtype=np.int64)
        return Examples(data, tuple(rows), lengths, batch_tokens)

    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        """Stack images; see `ModelAdapter.collate`."""
        data = examples.data
        images = [
            torch.from_numpy(self._pixels(data.columns["image"][i], _place(data, i)))
            for i in index.tolist()
        ]
        targets = torch.tensor([examples.rows[i]["target"] for i in index.tolist()])
        pixels = torch.stack(images).to(self._dtype)
        real = torch.ones(len(images), self.positions, dtype=torch.bool, device=self.device)
        special = real & (torch.arange(self.positions, device=self.device) < self._special)
        queries = Queries(real, torch.zeros_like(real), special)
        by_kind: dict[Kind, Queries] = {"enc-self": queries}
        inputs = {"pixel_values": pixels.to(self.device)}
        return Batch(index, inputs, targets.to(self.device), by_kind)

    @property
    def _dtype(self) -> torch.dtype:
        return next(p.dtype for p in self.module.parameters() if p.is_floating_point())

    @cached_property
    def _special(self) -> int:
        """Positions before those of patches: class tokens and the like."""
        size = getattr(self.config, "patch_size", None)
        if not isinstance(size, int):
            return 0
        patches = int(self.shape[-2] // size) * int(self.shape[-1] // size)
        return max(0, self.positions - patches)

    # -- discovery --------------------------------------------------------------------------

    def _noise(self, module: nn.Module, batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        pixels = torch.randn(batch, *self.shape, generator=generator)
        dtype = next(p.dtype for p in module.parameters() if p.is_floating_point())
        return pixels.to(device=home(module), dtype=dtype)

    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        """Noise of the size that the model reads: an image has as many positions as it has."""
        pixels = self._noise(module, batch)
        return Probe(lambda: module(pixel_values=pixels), batch=batch, source=self.positions)

    # -- what needs words -------------------------------------------------------------------

    def pieces(self) -> NoReturn:
        """Refuse; see `ModelAdapter.pieces`."""
        raise self._wordless("the roles of heads are counted on words")

    def export(self, *, batch: int, length: int) -> NoReturn:
        """Refuse; see `ModelAdapter.export`."""
        raise self._wordless("`onnx` is for models that read words")

    def _wordless(self, reason: str) -> HeadtoolError:
        return HeadtoolError(f"{reason}, and {self.spec} reads images; give one that reads text")


def _place(data: TextData, number: int) -> str:
    row = number if data.rows is None else data.rows[number]
    return f"{data.spec}, example {row + 1}"


def _positions(module: nn.Module, pixels: Tensor, spec: str) -> int:
    """How many positions attend to each other, the same number in all layers."""
    shapes: list[tuple[int, ...]] = []

    def on_softmax(probabilities: Tensor) -> Tensor:
        if probabilities.ndim == 4:
            shapes.append(tuple(probabilities.shape))
        return probabilities

    with readable_errors("run a forward pass", spec), torch.no_grad(), AttentionWatch(on_softmax):
        module(pixel_values=pixels)
    if not shapes:
        raise refusal(f"a forward pass of {type(module).__name__} shows no softmax attention")
    batch = len(pixels)
    windows = [shape for shape in shapes if shape[0] != batch and shape[0] % batch == 0]
    if windows:
        raise refusal(
            f"{type(module).__name__} attends within windows ({windows[0][0] // batch} of "
            f"{windows[0][2]} positions an image), whose number differs from layer to layer"
        )
    if len({shape[2:] for shape in shapes}) > 1 or shapes[0][2] != shapes[0][3]:
        sizes = ", ".join(f"{t} x {s}" for t, s in Counter(shape[2:] for shape in shapes))
        raise refusal(
            f"the layers of {type(module).__name__} attend over differing numbers of positions "
            f"({sizes})"
        )
    return shapes[0][2]
