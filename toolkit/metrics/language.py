"""Metrics of language models: perplexity, bits per byte, answers, choices, and divergence."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from headtool.metrics.base import TASKS, TOKEN_TASKS, Array, Columns, Metric, column, ratio

__all__ = [
    "BitsPerByte",
    "Choice",
    "ChoiceNorm",
    "ChoicePerByte",
    "Divergence",
    "LogitDifference",
    "Perplexity",
]


class _Ratio(Metric):
    """A ratio of two sums over examples."""

    is_mean = True

    def from_sums(self, sums: Array) -> Array:
        """Return the first sum over the second."""
        return ratio(sums[..., 0], sums[..., 1])


class Perplexity(_Ratio):
    """Exponential of the mean loss per scored token; infinite where that overflows."""

    name = "perplexity"
    is_mean = False  # of the exponential
    unit = "perplexity"
    higher_is_better = False
    tasks = TOKEN_TASKS

    def per_example(self, columns: Columns) -> Array:
        """Return [loss, tokens]."""
        return np.stack([column(columns, "loss"), column(columns, "tokens")], axis=1)

    def from_sums(self, sums: Array) -> Array:
        """Return exp(loss / tokens)."""
        with np.errstate(over="ignore"):
            return np.exp(super().from_sums(sums))


class BitsPerByte(_Ratio):
    """Loss in bits per byte of the scored text (UTF-8), which compares across tokenizers.

    Of running text, the first token of a block is scored only if the tokenizer puts a special token
    before it, and then its bytes count too.

    References
    ----------
    Gao et al. (2020), The Pile: An 800GB Dataset of Diverse Text for Language Modeling, sec. 3.1.
    """

    name = "bits-per-byte"
    unit = "bits per byte"
    higher_is_better = False
    tasks = ("causal-lm",)

    def per_example(self, columns: Columns) -> Array:
        """Return [loss in bits, bytes]."""
        bits = column(columns, "loss") / math.log(2)
        return np.stack([bits, column(columns, "bytes")], axis=1)


class LogitDifference(_Ratio):
    """Mean over examples of log p(answer) - log p(wrong answer), in nats.

    For answers of one token it is the difference of their logits; for several it is the difference
    of the sums of their tokens' log-probabilities, which favours shorter answers.

    References
    ----------
    Wang et al. (2023), Interpretability in the Wild: a Circuit for Indirect Object Identification
    in GPT-2 small, sec. 2.1.
    """

    name = "logit-difference"
    unit = "nats"
    higher_is_better = True
    tasks = ("causal-lm",)
    needs = "wrong"

    def per_example(self, columns: Columns) -> Array:
        """Return [difference, 1]."""
        difference = column(columns, "wrong_loss") - column(columns, "loss")
        return np.stack([difference, np.ones(len(difference))], axis=1)


class Choice(_Ratio):
    """Share of examples whose right choice has the highest log-probability, summed over its tokens.

    As ``acc`` of lm-evaluation-harness; of equal choices the first counts.

    References
    ----------
    Biderman et al. (2024), Lessons from the Trenches on Reproducible Evaluation of Language Models.
    """

    name = "acc"
    unit = "share of examples"
    higher_is_better = True
    tasks = ("causal-lm",)
    needs = "choices"

    def per_example(self, columns: Columns) -> Array:
        """Return [right, 1]."""
        right = column(columns, self.name)
        return np.stack([right, np.ones(len(right))], axis=1)


class ChoiceNorm(Choice):
    """As `Choice`, of log-probabilities divided by the choice's length in characters.

    As ``acc_norm`` of lm-evaluation-harness, which counts characters; `ChoicePerByte` counts bytes.
    """

    name = "acc_norm"


class ChoicePerByte(Choice):
    """As `Choice`, of log-probabilities divided by the choice's length in bytes (UTF-8).

    As ``acc_bytes`` of lm-evaluation-harness; the same as ``acc_norm`` for ASCII.
    """

    name = "acc_bytes"


class Divergence(_Ratio):
    """Mean of KL(whole model || masked model) per scored token (classification: per example).

    It asks for no labels: 0 means that the masked model predicts as the whole one does.
    """

    name = "kl"
    unit = "nats"
    higher_is_better = False
    tasks: ClassVar[tuple[str, ...]] = tuple(task for task in TASKS if task != "regression")
    compares = True

    def per_example(self, columns: Columns) -> Array:
        """Return [kl, tokens]."""
        return np.stack([column(columns, "kl"), column(columns, "tokens")], axis=1)
