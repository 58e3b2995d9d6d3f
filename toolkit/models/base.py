"""What a model library answers: one class by which its models can be scored and pruned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.gating import Handler, SiteHandle, intercept
from headtool.attention.probing import Probe
from headtool.attention.weights import home
from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.heads import Sites
from headtool.models.examples import Batch, Examples, Forward, Task
from headtool.models.fingerprints import WeightsState, weights_sha256, weights_state
from headtool.models.generation import Generator
from headtool.models.pieces import Pieces
from headtool.models.source import ModelSource
from headtool.searching import Search

__all__ = ["ModelAdapter"]


class ModelAdapter(ABC):
    """A model whose heads can be watched, gated and scored.

    A library of models is one class that derives from this one. With `encode`, `collate`, `forward`
    and `probe` its models can be scored and compared, with `load` they have a SPEC. Most other
    methods say by default that the library cannot do what was asked for (CONTRIBUTING has a table).

    Attributes
    ----------
    library
        Name of the library, by which SPECs, runs and pruned models refer to it.
    load_options
        The options of `headtool.models.load_model` that `load` takes beside its own.
    spec
        The SPEC that it was loaded from.
    task, reads
        What it predicts, and from what (text, images or sound); they decide data format and loss.
    module
        The `torch` module, in evaluation mode.
    handles
        Its attention sites and where they live.
    labels
        Class names by class index (classification only, else empty).
    source
        How it was loaded, from which another process can load it; None for one that was made.
    loaded
        `weights_state` at that time: weights that were written to since are others.
    files
        The files that its weights came from; empty where they are not known.
    most_tokens
        By sort of work, tokens of a pass where more did not fit into the memory.
    """

    library: ClassVar[str]
    load_options: ClassVar[tuple[str, ...]] = ()
    reads: str = "text"

    def __init__(
        self,
        spec: str,
        task: Task,
        module: nn.Module,
        handles: Sequence[SiteHandle],
        labels: Sequence[str] = (),
    ) -> None:
        self.spec = spec
        self.task = task
        self.module = module
        self.handles = tuple(handles)
        self.labels = tuple(labels)
        self.source: ModelSource | None = None
        self.loaded: WeightsState = ()
        self.files: tuple[Path, ...] = ()
        self.most_tokens: dict[str, int] = {}

    @cached_property
    def sites(self) -> Sites:
        """The attention sites in canonical order."""
        return Sites(tuple(handle.site for handle in self.handles))

    @property
    def device(self) -> torch.device:
        """Where its input goes: the device of its weights, or of the first of several."""
        return home(self.module)

    @property
    def placement(self) -> dict[str, str]:
        """How it was loaded, as manifests record it: its precision, and where its weights are."""
        dtype = next(p.dtype for p in self.module.parameters() if p.is_floating_point())
        found = {"dtype": str(dtype).removeprefix("torch."), "device": str(self.device)}
        for name in ("device_map", "load_in"):
            if (value := getattr(self.source, name, None)) is not None:
                found[name] = value
        return found

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, shapes, types and bytes of all weights at first use."""
        unchanged = weights_state(self.module) == self.loaded
        return weights_sha256(self.module, self.files if unchanged else ())

    def intercept(self, handler: Handler, batch: Batch) -> AbstractContextManager[None]:
        """Let `handler` see and change the heads' outputs in every forward pass inside.

        It sees them on the device of the batch, also where the model lives on several.

        Parameters
        ----------
        handler
            Gets each site with its heads' outputs; see `headtool.attention.gating.Handler`.
        batch
            The batch that will run.
        """
        return intercept(self.handles, handler, batch=len(batch), device=self.device)

    @abstractmethod
    def encode(self, data: TextData, *, batch_tokens: int = 4096, seed: int = 0) -> Examples:
        """Tokenise a data set; one that does not fit the task is a `HeadtoolError`.

        Parameters
        ----------
        data
            The data set.
        batch_tokens
            Token budget of a batch, padding included.
        seed
            Chooses the masked positions of a masked language model; nothing else is random.
        """

    @abstractmethod
    def collate(self, examples: Examples, index: NDArray[np.int64]) -> Batch:
        """Pad some examples into a batch on the model's device.

        Parameters
        ----------
        examples
            The data set.
        index
            Which of them, [B].
        """

    @abstractmethod
    def forward(self, batch: Batch, *, label_smoothing: float = 0.0) -> Forward:
        """Run the model. Gradients flow unless the caller forbids them.

        Parameters
        ----------
        batch
            The batch.
        label_smoothing
            Smoothing of ``Forward.losses`` (not of the columns), for training; regression has none.
        """

    def outcome(self, batch: Batch) -> Forward:
        """Run a batch without gradients; ``Forward.logits`` may be left out to save work."""
        return self.forward(batch)

    def next_tokens(self, batch: Batch) -> Tensor:
        """Return the most probable next token after every position, [B, T]; for language models.

        Parameters
        ----------
        batch
            The batch.
        """
        raise HeadtoolError(
            f"{self.spec} is a {self.task} model of {self.library}, which continues no text"
        )

    @abstractmethod
    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        """Prepare a forward pass on made-up input: `batch` rows of `source` (and `target`) tokens.

        Parameters
        ----------
        module, batch, source, target
            One that takes this one's input; rows, tokens of each, and of a target if there is one.
        """

    @classmethod  # noqa: B027 - most libraries find out when they load
    def check(cls, source: str, *, spec: str) -> None:
        """Refuse a model that does not exist, without loading its weights.

        Parameters
        ----------
        source, spec
            As for `load`.
        """

    @classmethod
    def saved_dtype(cls, source: str, *, spec: str) -> torch.dtype:
        """Return the precision that a model was saved in; float32 where that is not known.

        Parameters
        ----------
        source, spec
            As for `load`.
        """
        return torch.float32

    @classmethod
    def load(cls, source: str, *, spec: str, device: torch.device, dtype: torch.dtype) -> Self:
        """Load a model.

        Parameters
        ----------
        source
            Where it lies: what stands behind the scheme of its SPEC.
        spec
            How the user named it.
        device, dtype
            Where its weights go, and in which precision.

        Raises
        ------
        HeadtoolError
            For a model that is unknown, damaged or not supported.
        """
        raise HeadtoolError(f"models of {cls.library} cannot be loaded from {source}")

    @classmethod
    def load_pruned(
        cls, folder: Path, record: Mapping[str, Any], *, device: torch.device, dtype: torch.dtype
    ) -> Self:
        """Load what `save` wrote, by default as `load` does.

        Parameters
        ----------
        folder
            Where it lies.
        record
            What ``headtool prune`` recorded of it; the weights are checked already.
        device, dtype
            As for `load`.
        """
        return cls.load(str(folder), spec=str(folder), device=device, dtype=dtype)

    @classmethod
    def load_pruned_module(cls, folder: Path, record: Mapping[str, Any] | None) -> nn.Module:
        """Load a pruned model as the library has it: float32, on the CPU, in evaluation mode.

        Parameters
        ----------
        folder, record
            As of `load_pruned`; no record where the library itself saved it again.
        """
        if record is None or record["form"] != "pruned":
            raise HeadtoolError(f"{folder} holds no pruned model; headtool prune writes one")
        cpu = torch.device("cpu")
        return cls.load_pruned(folder, record, device=cpu, dtype=torch.float32).module

    def with_module(self, module: nn.Module) -> Self:
        """Put the same adapter around another module; this one stays as it is.

        Parameters
        ----------
        module
            A module that takes the same input, such as this one's without some heads.
        """
        raise self._refusal("pruned")

    def with_biases(self) -> Self:
        """Return the same model with biases, zero as yet, where its output projections have none.

        Its library must load the result like any other model of the class; this one stays as it is.

        Raises
        ------
        HeadtoolError
            If the architecture has no such biases.
        """
        raise HeadtoolError(
            f"{type(self.module).__name__} has no bias in its attention's output, so that no model "
            "of full size can hold the heads' constants; leave `bake` or `replace` out"
        )

    def save(self, folder: Path) -> Mapping[str, Any]:
        """Write a pruned model into an empty folder, weights as ``.safetensors`` or ``.pt``.

        Parameters
        ----------
        folder
            Where to.

        Returns
        -------
        Mapping
            What `load_pruned` wants to find in the record, as JSON holds it.
        """
        raise self._refusal("saved")

    def save_baked(self, folder: Path, *, final: Path) -> None:
        """Write a model of full size as the library's own software reads it; by default as `save`.

        Parameters
        ----------
        folder
            Where to.
        final
            Where the folder will lie in the end.
        """
        self.save(folder)

    @property
    def max_length(self) -> int | None:
        """Most tokens that the model takes; None: any number."""
        return None

    def references(self, examples: Examples) -> tuple[str, ...]:
        """References as text, one per example; by default the data's targets or answers."""
        columns = examples.data.columns
        return columns["target"] if "target" in columns else columns["answer"]

    def generator(self, search: Search) -> Generator:
        """Make what decodes with this model.

        Parameters
        ----------
        search
            How to search; the model's own settings fill what it leaves open.
        """
        raise self._refusal("decoded")

    def pieces(self) -> Pieces[ModelAdapter]:
        """Return what is known of the model's tokens."""
        raise HeadtoolError(
            f"the tokens of {self.library} models are not known, so the roles of their heads "
            "cannot be counted"
        )

    def fresh(self, seed: int) -> Self:
        """Build a model of the same configuration with weights drawn anew; this one stays as it is.

        Parameters
        ----------
        seed
            Seed of the weights, which are initialised as the model's library does before training.

        Raises
        ------
        HeadtoolError
            If the model does not say how it was built.
        """
        built = "built anew from a configuration, so nothing can be trained from scratch"
        raise HeadtoolError(f"{self.spec} is a model of {self.library}, which cannot be {built}")

    def decoding(self, *, batch: int, length: int, beam: int) -> Callable[[], object]:
        """Prepare the generation of exactly so many tokens from made-up input, to be timed.

        Parameters
        ----------
        batch, length
            Rows, and tokens that each generates and that its source has.
        beam
            Width of the beam.

        Returns
        -------
        Callable
            Does the work, all of it at every call.
        """
        raise HeadtoolError(f"{self.spec} is a {self.task} model and does not decode")

    def export(self, *, batch: int, length: int) -> tuple[nn.Module, dict[str, Tensor]]:
        """Return the model as a function of tensors, for ONNX, and made-up input for it.

        Parameters
        ----------
        batch, length
            Rows, and tokens of each.

        Returns
        -------
        module
            Takes the inputs in their order and returns the logits.
        inputs
            Tensors by name; both their axes, [batch, tokens], may have any size.
        """
        raise HeadtoolError(
            f"`onnx` is not for {self.library} models, and {self.spec} is one; leave `onnx` out"
        )

    def _refusal(self, done: str) -> HeadtoolError:
        return HeadtoolError(
            f"{self.spec} is a model of {self.library}, whose models cannot be {done}"
        )
