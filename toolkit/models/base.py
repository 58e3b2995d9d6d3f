"""The protocol that makes a Hugging Face model and a fairseq model the same thing to headtool."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.attention.gating import Handler, SiteHandle, intercept
from headtool.attention.probing import Probe
from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.heads import Kind, Sites
from headtool.models.batching import length_buckets

__all__ = [
    "Batch",
    "Examples",
    "Forward",
    "ModelAdapter",
    "Queries",
    "Row",
    "Task",
    "at_least_float32",
    "token_columns",
]

Task = Literal["classification", "regression", "causal-lm", "masked-lm", "seq2seq"]

Row = Mapping[str, Any]
"""One tokenised example: the model's inputs as lists of token ids, and its target."""


@dataclass(frozen=True)
class Examples:
    """A data set tokenised for one model.

    Attributes
    ----------
    data
        The text it came from.
    rows
        One tokenised example each, in the order of the data set.
    lengths
        Tokens per example (the longer side, for sequence-to-sequence), shape [N].
    batch_tokens
        Token budget of a batch, padding included.
    truncated
        How many examples were cut to the model's longest input.
    """

    data: TextData
    rows: tuple[Row, ...]
    lengths: NDArray[np.int64]
    batch_tokens: int
    truncated: int = 0

    def __post_init__(self) -> None:
        if not self.rows:
            raise HeadtoolError(f"{self.data.spec} holds no example")

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: NDArray[np.int64]) -> Examples:
        """Some of the examples, in the order of `index`."""
        chosen = index.tolist()
        rows = tuple(self.rows[i] for i in chosen)
        # Running text was cut into examples; elsewhere a line of the data is one.
        data = self.data if self.data.kind == "text" or not rows else self.data.take(chosen)
        return replace(self, data=data, rows=rows, lengths=self.lengths[index])

    def head(self, n: int) -> Examples:
        """The first `n` examples."""
        return self.take(np.arange(min(n, len(self))))

    def batches(self) -> list[NDArray[np.int64]]:
        """Indices of the examples, batch by batch: similar lengths together, each exactly once."""
        return length_buckets(self.lengths.tolist(), batch_tokens=self.batch_tokens)


@dataclass(frozen=True)
class Queries:
    """What the query positions of one kind of attention are; each a boolean [B, T] tensor.

    Attributes
    ----------
    real
        Not padding.
    eos
        End-of-sequence (for BERT-type models: separator) tokens.
    special
        Any special token of the tokenizer, `eos` included.
    """

    real: Tensor
    eos: Tensor
    special: Tensor


@dataclass(frozen=True)
class Batch:
    """Some examples as tensors on the model's device.

    Attributes
    ----------
    index
        Which examples, shape [B].
    inputs
        Keyword arguments of the model's forward pass.
    targets
        What the loss is computed against.
    queries
        Per attention kind, its query positions.
    """

    index: NDArray[np.int64]
    inputs: Mapping[str, Tensor]
    targets: Tensor
    queries: Mapping[Kind, Queries]

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class Forward:
    """What one forward pass says about each example of a batch.

    Attributes
    ----------
    losses
        Loss of each example in nats, summed over its scored tokens; [B], differentiable.
    columns
        Per-example statistics from which every metric is computed, each [B] and detached: `loss`
        and `tokens`, with `prediction` and `gold` (classification, regression) or `correct`
        (tokens whose most probable prediction is right).
    """

    losses: Tensor
    columns: Mapping[str, Tensor]


def at_least_float32(logits: Tensor) -> Tensor:
    """Widen half-precision logits: a loss over many tokens or classes needs the digits."""
    return logits if logits.dtype == torch.float64 else logits.float()


def token_columns(
    logits: Tensor, targets: Tensor, scored: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of token predictions, per example.

    Parameters
    ----------
    logits
        Shape [B, T, V].
    targets
        Token ids, shape [B, T]; anything where `scored` is False.
    scored
        Which positions count, boolean [B, T].
    label_smoothing
        Smoothing of the losses that are differentiated; the `loss` column has none.

    Returns
    -------
    losses, columns
        As `Forward` wants them.
    """
    safe = targets.masked_fill(~scored, 0)
    wide = at_least_float32(logits).transpose(1, 2)

    def per_example(smoothing: float) -> Tensor:
        nll = nn.functional.cross_entropy(wide, safe, reduction="none", label_smoothing=smoothing)
        return (nll * scored).sum(dim=1)

    losses = per_example(label_smoothing)
    plain = losses if label_smoothing == 0 else per_example(0.0)
    correct = (logits.detach().argmax(dim=-1) == safe) & scored
    return losses, {
        "loss": plain.detach(),
        "tokens": scored.sum(dim=1),
        "correct": correct.sum(dim=1),
    }


class ModelAdapter(ABC):
    """A model whose heads can be watched, gated and scored.

    Attributes
    ----------
    library
        Where the model comes from, for provenance.
    spec
        The SPEC that it was loaded from.
    task
        What it predicts, which decides data format, loss and metrics.
    module
        The `torch` module, in evaluation mode.
    handles
        Its attention sites and where they live.
    labels
        Class names by class index (classification only, else empty).
    """

    library: ClassVar[str]

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

    @cached_property
    def sites(self) -> Sites:
        """The attention sites in canonical order."""
        return Sites(tuple(handle.site for handle in self.handles))

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return next(self.module.parameters()).device

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, shapes, types and bytes of all weights at first use."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.module.state_dict().items()):
            digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
            digest.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
        return digest.hexdigest()

    def intercept(self, handler: Handler, batch: Batch) -> AbstractContextManager[None]:
        """Let `handler` see and change the heads' outputs in every forward pass inside."""
        return intercept(self.handles, handler, batch=len(batch))

    def fresh(self, seed: int) -> ModelAdapter:
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
        raise HeadtoolError(
            f"{self.spec} is a model of {self.library}, which cannot be built anew from a "
            "configuration, so nothing can be trained from scratch"
        )

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
        """Pad some examples into a batch on the model's device."""

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

    @abstractmethod
    def probe(
        self, module: nn.Module, *, batch: int = 2, source: int = 5, target: int = 3
    ) -> Probe:
        """Prepare a forward pass on made-up input of some size, through this model or a like one.

        Parameters
        ----------
        module
            The adapter's own module, or one that takes the same input.
        batch
            Rows.
        source, target
            Tokens of each row, and of its target for an encoder-decoder model.
        """
