"""Models of transformers that classify images or sound: they read arrays of numbers."""

from __future__ import annotations

import hashlib
import inspect
import json
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
from headtool.data.cells import array_of, rate_of
from headtool.data.images import open_image
from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples, Queries, Task
from headtool.models.huggingface.checking import readable_errors
from headtool.models.huggingface.network import HuggingFaceNetwork

__all__ = ["ArrayNetwork"]

_PROBED = 70  # positions, about, of noise of a length that the model leaves open
_KEPT_BYTES = 2**31
"""Memory for arrays as the model reads them; what does not fit is decoded again."""

Shape = tuple[int, ...]


class ArrayNetwork(HuggingFaceNetwork):
    """A transformers model with its image processor or feature extractor.

    Nothing is padded: padding changes what models of sound compute, some of them even where a mask
    leaves it out. Examples of one shape share a batch.

    Parameters
    ----------
    spec, task
        See `ModelAdapter`; classification or regression.
    module
        The model; it is put into evaluation mode.
    tokenizer
        Its image processor or feature extractor, in the place where other models have a tokenizer;
        None: it takes only data that is the model's input already.
    """

    def __init__(self, spec: str, task: Task, module: nn.Module, tokenizer: Any) -> None:
        module.eval()
        self.config = cast(Any, module).config
        self.tokenizer = tokenizer
        self.tags = None
        self.input = str(cast(Any, module).main_input_name)
        self.reads = "images" if self.input == "pixel_values" else "sound"
        self.masked = "attention_mask" in inspect.signature(module.forward).parameters
        self.shape = self._usual_shape(spec)
        self._counted: dict[Shape, int] = {}
        self.positions = self._count(module, self.shape, spec)
        labels = [str(self.config.id2label[i]) for i in range(self.config.num_labels)]
        handles = discover(module, self.probe(module))
        named = labels if task == "classification" else ()
        ModelAdapter.__init__(self, spec, task, module, handles, named)

    @property
    def max_length(self) -> int:
        """How many positions an array of the usual size takes, patches and class tokens."""
        return self.positions

    # -- what is read -----------------------------------------------------------------------

    def _usual_shape(self, spec: str) -> Shape:
        """Shape of what the processor makes of an image or two seconds; else what is configured."""
        if self.tokenizer is None:
            return _configured_shape(self.config, self.input, spec)
        with readable_errors("run the processor", spec):
            if self.reads == "images":
                return self._processed(np.zeros((32, 32, 3), dtype=np.uint8)).shape
            rate = int(self.tokenizer.sampling_rate)
            return self._processed(np.zeros(2 * rate, np.float32), sampling_rate=rate).shape

    def _processed(self, content: Any, **options: Any) -> NDArray[np.float32]:
        """An image or a sound as the model reads it, such as [channels, height, width]."""
        found = self.tokenizer(content, return_tensors="np", **options)[self.input][0]
        return np.asarray(found, dtype=np.float32)

    @cached_property
    def _array(self) -> Callable[[str, str, str], NDArray[np.float32]]:
        """Decodes and processes a cell of a column of the data, and remembers the last ones."""

        def decode(column: str, cell: str, place: str) -> NDArray[np.float32]:
            with readable_errors(f"process {place}", self.spec):
                if column == "image":
                    return self._processed(open_image(cell, place))
                if column == "audio":
                    own, rate = self.tokenizer.sampling_rate, rate_of(cell)
                    if rate not in (None, own):
                        raise HeadtoolError(
                            f"{place} has {rate} samples a second, and {self.spec} reads {own}; "
                            "resample it"
                        )
                    return self._processed(array_of(cell), sampling_rate=own)
                return array_of(cell)

        size = 4 * int(np.prod(self.shape))
        return lru_cache(maxsize=max(1, _KEPT_BYTES // size))(decode)

    def _read(self, data: TextData, number: int) -> NDArray[np.float32]:
        column = self._column(data)
        return self._array(column, data.columns[column][number], _place(data, number))

    def _column(self, data: TextData) -> str:
        """The column that the model reads; one that it cannot read is refused."""
        own = next(name for name in data.columns if name not in ("label", "attention_mask"))
        if own == self.input:
            return own
        raw = "image" if self.reads == "images" else "audio"
        if own == raw and self.tokenizer is not None:
            return own
        if own == raw:
            part = "image processor" if raw == "image" else "feature extractor"
            raise HeadtoolError(
                f"{data.spec} holds {self.reads}, and {self.spec} has no {part}; give wrap one, or "
                f"data with the columns {self.input} and labels"
            )
        needed = (
            "a folder with a folder of images for each class, a .parquet file with image and "
            f"label, or {self.input} and labels in memory"
            if raw == "image"
            else f"audio and labels, or {self.input} and labels, in memory, from Python"
        )
        found = own if data.kind == "arrays" else f"data of the kind {data.kind}"
        raise HeadtoolError(
            f"{data.spec} holds {found}, but {self.spec} reads {self.reads} and needs {needed}"
        )

    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        """Decode every array once, so that damaged ones show; see `ModelAdapter.encode`."""
        self._column(data)
        rows, lengths = [], []
        for number, target in enumerate(self._targets(data)):
            array = self._read(data, number)
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
            row = {"array": digest, "shape": array.shape, "target": target}
            rows.append(row | self._mask(data, number, array.shape))
            lengths.append(self._count(self.module, array.shape, _place(data, number)))
        return Examples(data, tuple(rows), np.asarray(lengths, dtype=np.int64), batch_tokens)

    def _mask(self, data: TextData, number: int, shape: Shape) -> dict[str, int]:
        """Steps of the example, those that its mask keeps, and the positions that these take."""
        if "attention_mask" not in data.columns:
            return {}
        mask = json.loads(data.columns["attention_mask"][number])
        kept = sum(mask)
        if len(mask) not in shape or mask != [1] * kept + [0] * (len(mask) - kept) or not kept:
            raise HeadtoolError(
                f"{_place(data, number)}: attention_mask must be ones and then zeros, one for each "
                f"step of {self.input}, whose shape is {'x'.join(map(str, shape))}"
            )
        if kept == len(mask):
            return {"mask": len(mask), "kept": kept}
        axis = shape.index(len(mask))
        refused = HeadtoolError(
            f"{_place(data, number)}: attention_mask leaves steps out, and {self.spec} "
            "reads all of them; leave the mask out"
        )
        if not self.masked:
            raise refused
        try:
            real = self._count(self.module, (*shape[:axis], kept, *shape[axis + 1 :]), self.spec)
        except HeadtoolError as error:  # its input is of one size
            raise refused from error
        return {"mask": len(mask), "kept": kept, "real": real}

    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        """Stack arrays of one shape; see `ModelAdapter.collate`."""
        rows = [examples.rows[i] for i in index.tolist()]
        shape = rows[0]["shape"]
        other = next((row["shape"] for row in rows if row["shape"] != shape), shape)
        if other != shape:
            one, another = ("x".join(map(str, each)) for each in sorted((shape, other)))
            raise HeadtoolError(
                f"examples of {examples.data.spec} have several shapes, such as {one} and "
                f"{another}, and what was asked for puts them into one batch, for which they would "
                "have to be padded; make them equally long"
            )
        arrays = [torch.tensor(self._read(examples.data, i)) for i in index.tolist()]
        inputs = {self.input: torch.stack(arrays).to(self._dtype)}
        if any("real" in row for row in rows):  # a mask that leaves nothing out is none
            kept = torch.tensor([[row["kept"]] for row in rows])
            inputs["attention_mask"] = (torch.arange(rows[0]["mask"]) < kept).long()
        targets = torch.tensor([row["target"] for row in rows])
        positions = int(examples.lengths[index[0]])
        ends = torch.tensor([[row.get("real", positions)] for row in rows])
        places = torch.arange(positions).expand(len(rows), -1)
        parts = (places < ends, torch.zeros_like(places, dtype=torch.bool), places < self._special)
        queries = Queries(*(part.to(self.device) for part in parts))
        by_kind: dict[Kind, Queries] = {"enc-self": queries}
        moved = {name: tensor.to(self.device) for name, tensor in inputs.items()}
        return Batch(index, moved, targets.to(self.device), by_kind)

    @property
    def _dtype(self) -> torch.dtype:
        return next(p.dtype for p in self.module.parameters() if p.is_floating_point())

    @cached_property
    def _special(self) -> int:
        """Positions before those of patches: class tokens and the like."""
        size = getattr(self.config, "patch_size", None)
        if not isinstance(size, int):
            return 0
        steps = [getattr(self.config, f"{axis}_stride", size) for axis in ("time", "frequency")]
        patches = [
            (length - size) // step + 1 for length, step in zip(self.shape[-2:], steps, strict=True)
        ]
        return max(0, self.positions - patches[0] * patches[1])

    # -- discovery --------------------------------------------------------------------------

    def _noise(self, module: nn.Module, shape: Shape, batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        array = torch.randn(batch, *shape, generator=generator)
        dtype = next(p.dtype for p in module.parameters() if p.is_floating_point())
        return array.to(device=home(module), dtype=dtype)

    def _count(self, module: nn.Module, shape: Shape, place: str) -> int:
        """How many positions an array of a shape takes, counted once in a pass over noise."""
        if shape not in self._counted:
            noise = {self.input: self._noise(module, shape, 2)}
            self._counted[shape] = _positions(module, noise, place)
        return self._counted[shape]

    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        """Noise of the usual size, whatever length is asked for."""
        noise = {self.input: self._noise(module, self.shape, batch)}
        return Probe(lambda: module(**noise), batch=batch, source=self.positions)

    # -- what needs words -------------------------------------------------------------------

    def pieces(self) -> NoReturn:
        """Refuse; see `ModelAdapter.pieces`."""
        raise self._wordless("the roles of heads are counted on words")

    def export(self, *, batch: int, length: int) -> NoReturn:
        """Refuse; see `ModelAdapter.export`."""
        raise self._wordless("`onnx` is for models that read words")

    def _wordless(self, reason: str) -> HeadtoolError:
        return HeadtoolError(f"{reason}, and {self.spec} reads {self.reads}; give one of text")


def _place(data: TextData, number: int) -> str:
    row = number if data.rows is None else data.rows[number]
    return f"{data.spec}, example {row + 1}"


def _configured_shape(config: Any, reads: str, spec: str) -> Shape:
    """Shape of the input of a model that comes without its processor."""

    def of(name: str) -> int | None:
        found = getattr(config, name, None)
        return found if isinstance(found, int) else None

    size = getattr(config, "image_size", None)
    sides = (size, size) if isinstance(size, int) else tuple(size or ())
    shapes: dict[str, tuple[tuple[int | None, ...], ...]] = {
        "pixel_values": ((of("num_channels") or 3, *sides),) if len(sides) == 2 else (),
        "input_values": (
            (of("max_length"), of("num_mel_bins")),
            (_PROBED * (of("inputs_to_logits_ratio") or 0) or None,),
        ),
        "input_features": (
            (of("num_mel_bins"), 2 * (of("max_source_positions") or 0) or None),
            (_PROBED, of("feature_projection_input_dim")),
        ),
    }
    for shape in shapes.get(reads, ()):
        if None not in shape:
            return cast(Shape, shape)
    raise HeadtoolError(
        f"the configuration of {spec} does not say what shape its {reads} have; give wrap its "
        "image processor or feature extractor"
    )


def _positions(module: nn.Module, inputs: dict[str, Tensor], place: str) -> int:
    """How many positions attend to each other, the same number in all layers."""
    shapes: list[tuple[int, ...]] = []

    def on_softmax(probabilities: Tensor) -> Tensor:
        if probabilities.ndim == 4:
            shapes.append(tuple(probabilities.shape))
        return probabilities

    with readable_errors("run a forward pass", place), torch.no_grad(), AttentionWatch(on_softmax):
        module(**inputs)
    if not shapes:
        raise refusal(f"a forward pass of {type(module).__name__} shows no softmax attention")
    batch = len(next(iter(inputs.values())))
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
