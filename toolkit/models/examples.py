"""What goes into a model and comes out of it: tokenised examples, batches, losses."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.models.batching import length_buckets, tight_buckets
from headtool.models.token_loss import at_least_float32, token_losses

__all__ = [
    "Batch",
    "Examples",
    "Forward",
    "Queries",
    "Row",
    "Task",
    "class_columns",
    "rival_columns",
    "token_columns",
    "token_sums",
]

Task = Literal[
    "classification",
    "regression",
    "causal-lm",
    "masked-lm",
    "seq2seq",
    "token-classification",
    "question-answering",
]

Row = Mapping[str, Any]
"""One tokenised example: the model's inputs as lists of token ids, and its target.

Where the data has a corrupted text, `corrupted` holds the inputs that differ for it. Prompts may
have several answers, of which only the right one is the target: see `headtool.models.answers`.
"""


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
    owners
        Where a row is one answer of several, which example of `data` it belongs to, shape [N].
    """

    data: TextData
    rows: tuple[Row, ...]
    lengths: NDArray[np.int64]
    batch_tokens: int
    truncated: int = 0
    owners: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not self.rows:
            raise HeadtoolError(f"{self.data.spec} holds no example")

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        tokens = f"{self.lengths.min():,} to {self.lengths.max():,} tokens"
        return f"<Examples of {self.data.spec}: {len(self):,}, each of {tokens}>"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the data, the tokens of every example and the size of batches."""
        digest = hashlib.sha256(f"{self.data.fingerprint} {self.batch_tokens}\n".encode())
        for row in self.rows:
            digest.update(repr(sorted(row.items())).encode())
        return digest.hexdigest()

    @cached_property
    def classes(self) -> dict[str, int]:
        """How many examples have each label, as the data write it; empty where none are classes."""
        number = self.rows[0].get("target")
        if not isinstance(number, int):  # a regression's
            return {}
        return dict(sorted(Counter(label.strip() for label in self.data.labels).items()))

    @cached_property
    def corrupted(self) -> Examples:
        """The same examples with their corrupted texts.

        Raises
        ------
        HeadtoolError
            If the data has none, or one has another number of tokens than the text it belongs to.
        """
        if any("corrupted" not in row for row in self.rows):
            raise HeadtoolError(
                f"{self.data.spec} has no column 'corrupted', which counterfactual takes from it; "
                "add one with the text that differs in what decides, or choose zero or mean"
            )
        rows = []
        for number, row in enumerate(self.rows):
            changed = row["corrupted"]
            for name, tokens in changed.items():
                if len(tokens) != len(row[name]):
                    raise HeadtoolError(
                        f"{self.data.spec}, example {self.place(number)}: the text has "
                        f"{len(row[name])} tokens and the corrupted one {len(tokens)}; they are "
                        "aligned by position, so make them equally long"
                    )
            rows.append({**row, **changed})
        return replace(self, rows=tuple(rows))

    def place(self, row: int) -> int:
        """Return where in the data set, counted from 1, the example of a row stands."""
        example = row if self.owners is None else int(self.owners[row])
        if self.data.kind == "text" or self.data.rows is None:  # blocks are no rows
            return 1 + example
        return 1 + self.data.rows[example]

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

    def batches(self, *, tight: bool = False) -> list[NDArray[np.int64]]:
        """Indices of the examples, batch by batch: similar lengths together, each exactly once.

        Parameters
        ----------
        tight
            Whether there are more and smaller batches with less padding.
        """
        shapes = [row.get("shape", ()) for row in self.rows]  # arrays are not padded
        batches = []
        for shape in sorted(set(shapes)):
            alike = np.flatnonzero([one == shape for one in shapes])
            cut = (tight_buckets if tight else length_buckets)(
                self.lengths[alike], batch_tokens=self.batch_tokens
            )
            batches += [alike[batch] for batch in cut]
        return batches


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
    facts
        Numbers of each row that `Forward.columns` repeat, [B] each, such as `bytes`.
    rivals
        Answers of one token, [B, K]: `Forward.columns` has what each costs instead of the target
        (`rival0_loss` to `rivalK_loss`); -1 where a row has fewer. None without any.
    prompts
        Token ids that a language model is to continue, one list for each row; empty without any.
    """

    index: NDArray[np.int64]
    inputs: Mapping[str, Tensor]
    targets: Tensor
    queries: Mapping[Kind, Queries]
    facts: Mapping[str, Tensor] = field(default_factory=dict)
    rivals: Tensor | None = None
    prompts: tuple[Sequence[int], ...] = ()

    def __len__(self) -> int:
        return len(self.index)

    def repeated(self, times: int) -> Batch:
        """Repeat the rows, one whole batch after the other."""
        if times == 1:
            return self

        def wide(tensor: Tensor) -> Tensor:
            return tensor.repeat(times, *[1] * (tensor.ndim - 1))

        queries = {
            kind: Queries(wide(q.real), wide(q.eos), wide(q.special))
            for kind, q in self.queries.items()
        }
        inputs = {name: wide(tensor) for name, tensor in self.inputs.items()}
        facts = {name: wide(tensor) for name, tensor in self.facts.items()}
        rivals = None if self.rivals is None else wide(self.rivals)
        index = np.tile(self.index, times)
        prompts = self.prompts * times
        return Batch(index, inputs, wide(self.targets), queries, facts, rivals, prompts)


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
    logits
        What the model predicts, [B, classes] or [B, T, V]; None for numbers. The divergence between
        models is computed from them; gradients of the losses overwrite them (`token_losses`).
    scored
        Which positions of the logits count, boolean [B, T]; None for all.
    """

    losses: Tensor
    columns: Mapping[str, Tensor]
    logits: Tensor | None = None
    scored: Tensor | None = None

    def part(self, rows: slice) -> Forward:
        """What is said about some rows of the batch."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        logits = None if self.logits is None else self.logits[rows]
        scored = None if self.scored is None else self.scored[rows]
        return Forward(self.losses[rows], columns, logits, scored)


def token_columns(
    logits: Tensor, targets: Tensor, scored: Tensor, *, label_smoothing: float = 0.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of token predictions, per example.

    Parameters
    ----------
    logits
        Shape [B, T, V]; not to be used afterwards, see `token_losses`.
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
    losses, plain, correct = token_losses(logits, safe, scored, label_smoothing=label_smoothing)
    return losses.sum(dim=1), token_sums(plain, correct, scored)


def token_sums(plain: Tensor, correct: Tensor, scored: Tensor) -> dict[str, Tensor]:
    """Columns of what is known of each token; see `Forward`.

    Parameters
    ----------
    plain
        Losses without smoothing, [B, T]; 0 where nothing is scored.
    correct
        Whether the most probable token is right, boolean [B, T]; False where nothing is scored.
    scored
        Which positions count, boolean [B, T].
    """
    return {
        "loss": plain.sum(dim=1).detach(),
        "tokens": scored.sum(dim=1),
        "correct": correct.sum(dim=1),
    }


def class_columns(
    logits: Tensor, gold: Tensor, *, regression: bool, label_smoothing: float = 0.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of classes, or squared error of numbers, per example.

    Parameters
    ----------
    logits
        Shape [B, classes]; [B, 1] for a regression.
    gold
        The right classes or numbers, [B].
    regression
        Whether numbers are predicted.
    label_smoothing
        Smoothing of the losses that are differentiated; the `loss` column has none, nor has a
        regression.

    Returns
    -------
    losses, columns
        As `Forward` wants them.
    """
    logits = at_least_float32(logits)
    if regression:
        prediction = logits.squeeze(-1)
        losses = plain = (prediction - gold.to(prediction.dtype)) ** 2
    else:
        prediction = logits.argmax(dim=-1)
        losses = nn.functional.cross_entropy(
            logits, gold, reduction="none", label_smoothing=label_smoothing
        )
        plain = nn.functional.cross_entropy(logits, gold, reduction="none")
    return losses, {
        "loss": plain.detach(),
        "tokens": torch.ones_like(losses),
        "prediction": prediction.detach(),
        "gold": gold,
    }


def rival_columns(logits: Tensor, scored: Tensor, rivals: Tensor) -> dict[str, Tensor]:
    """Cost of each rival in place of the last scored token, ``rival0_loss`` and on, [B] each.

    Parameters
    ----------
    logits
        Shape [B, T, V].
    scored
        Which positions count, boolean [B, T].
    rivals
        Token ids, [B, K]; -1 where a row has fewer, whose cost means nothing.
    """
    positions = torch.arange(scored.shape[1], device=scored.device)
    last = (scored * positions).amax(dim=1)
    rows = torch.arange(len(rivals), device=rivals.device)
    costs = -at_least_float32(logits.detach()[rows, last]).log_softmax(dim=-1)
    found = costs.gather(1, rivals.clamp(min=0))
    return {f"rival{k}_loss": found[:, k] for k in range(found.shape[1])}
