"""Models of Hugging Face transformers, with all that headtool does with a model."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from headtool.data.arrays import ARRAYS
from headtool.errors import HeadtoolError
from headtool.models.examples import Examples
from headtool.models.huggingface.arrays import ArrayNetwork
from headtool.models.huggingface.biases import biased
from headtool.models.huggingface.continuation import Continuation
from headtool.models.huggingface.export import exported
from headtool.models.huggingface.fresh import fresh_huggingface
from headtool.models.huggingface.generation import HuggingFaceGenerator, fixed_length
from headtool.models.huggingface.loading import (
    find_huggingface,
    load_parts,
    load_pruned_module,
    saved_dtype,
    weight_files,
)
from headtool.models.huggingface.network import HuggingFaceNetwork
from headtool.models.huggingface.pieces import HuggingFacePieces
from headtool.models.huggingface.placing import placing_of
from headtool.models.huggingface.translation import Translation
from headtool.quiet import no_bars
from headtool.searching import Search

__all__ = ["HuggingFaceArrayModel", "HuggingFaceModel"]

_LARGEST_FILE = "5GB"


class HuggingFaceModel(HuggingFaceNetwork):
    """A model of transformers; see `ModelAdapter` and `HuggingFaceNetwork`."""

    load_options = ("device_map", "load_in")

    @classmethod
    def check(cls, source: str, *, spec: str) -> None:
        """Refuse what is neither a folder nor on the hub; see `ModelAdapter.check`."""
        find_huggingface(source, spec=spec)

    @classmethod
    def load(
        cls,
        source: str,
        *,
        spec: str | None = None,
        device: torch.device,
        dtype: torch.dtype,
        device_map: str | None = None,
        load_in: str | None = None,
    ) -> Self:
        """Load a folder or hub id (``org/name`` or ``org/name@revision``) with its tokenizer.

        Parameters
        ----------
        source
            The folder or hub id. A folder may hold a pruned model.
        spec
            How the user named the model; by default as `source`.
        device, dtype
            Where its weights go, and in which precision.
        device_map, load_in
            As for `headtool.load_model`.

        Raises
        ------
        HeadtoolError
            For a model that is unknown, damaged or not supported.
        """
        spec = spec or source
        placing = placing_of(device_map, load_in, device=device, dtype=dtype)
        task, module, tokenizer = load_parts(
            source, spec=spec, dtype=dtype, options=placing.options
        )
        placing.settle(module, spec=spec)
        made = cls
        if cast(Any, module).main_input_name in ARRAYS:
            made = cast("type[Self]", HuggingFaceArrayModel)
        model = made(spec, task, module if placing.options else module.to(device), tokenizer)
        model.files = weight_files(source)
        return model

    @classmethod
    def saved_dtype(cls, source: str, *, spec: str) -> torch.dtype:
        """Ask the configuration, and then the weights; see `ModelAdapter.saved_dtype`."""
        return saved_dtype(source, spec=spec)

    @classmethod
    def load_pruned_module(cls, folder: Path, record: Mapping[str, Any] | None) -> nn.Module:
        """Load a pruned model, also one that a ``Trainer`` saved; see `ModelAdapter`."""
        return load_pruned_module(folder)

    def with_module(self, module: nn.Module) -> Self:
        """Keep task and tokenizer; see `ModelAdapter.with_module`."""
        return type(self)(self.spec, self.task, module, self.tokenizer)

    def with_biases(self) -> Self:
        """Set the configuration's ``attention_bias``; see `ModelAdapter.with_biases`."""
        made = biased(self.module, [site.projection for site in self.sites])
        return super().with_biases() if made is None else self.with_module(made)

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write a folder that ``from_pretrained`` reads; see `ModelAdapter.save`."""
        with warnings.catch_warnings(), no_bars():
            # Weights that wait on disk are gathered file by file.
            warnings.filterwarnings("ignore", message="Attempting to save a model with offloaded")
            cast(Any, self.module).save_pretrained(folder, max_shard_size=_LARGEST_FILE)
        if self.tokenizer is not None:
            with _system_errors():
                self.tokenizer.save_pretrained(folder)
        return {}  # the configuration says what was removed

    def generator(self, search: Search) -> HuggingFaceGenerator:
        """Decode as ``generate`` does; see `ModelAdapter.generator`."""
        self._check_tokenizer("to decode")
        if self.task not in ("seq2seq", "causal-lm"):
            raise self._refusal("decoded")
        return (Translation if self.task == "seq2seq" else Continuation)(self, search)

    def pieces(self) -> HuggingFacePieces:
        """Know the tokenizer's tokens; see `ModelAdapter.pieces`."""
        self._check_tokenizer("to say what its tokens are")
        return HuggingFacePieces(self)

    def references(self, examples: Examples) -> tuple[str, ...]:
        """Write out labels that are token numbers; see `ModelAdapter.references`."""
        if examples.data.kind != "ids":
            return super().references(examples)
        labels = [list(row["labels"]) for row in examples.rows]
        return tuple(self.tokenizer.batch_decode(labels, skip_special_tokens=True))

    def _check_tokenizer(self, use: str) -> None:
        if self.tokenizer is None:
            raise HeadtoolError(
                f"{self.spec} was wrapped without a tokenizer, which it takes {use}; give wrap one"
            )

    def fresh(self, seed: int) -> Self:
        """Build a model of the same class and configuration; see `ModelAdapter.fresh`."""
        return self.with_module(fresh_huggingface(self.module, seed=seed, spec=self.spec))

    def decoding(self, *, batch: int, length: int, beam: int) -> Callable[[], object]:
        """Let ``generate`` run its full length; see `ModelAdapter.decoding`."""
        return fixed_length(self, batch=batch, length=length, beam=beam)

    def export(self, *, batch: int, length: int) -> tuple[nn.Module, dict[str, Tensor]]:
        """Leave caches out, which are no tensors; see `ModelAdapter.export`."""
        return exported(self, batch=batch, length=length)


class HuggingFaceArrayModel(ArrayNetwork, HuggingFaceModel):
    """A model of transformers that reads images or sound; see `ArrayNetwork`."""


@contextlib.contextmanager
def _system_errors() -> Iterator[None]:
    """Raise an `OSError` where tokenizers, which has no class for it, says "(os error 28)"."""
    try:
        yield
    except Exception as error:
        found = re.search(r"\(os error (\d+)\)$", str(error))
        if type(error) is not Exception or found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number)) from error
