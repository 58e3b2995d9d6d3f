"""The metrics: losses, accuracies, F1, Matthews correlation, Pearson and Spearman correlation.

Those of language models are in `headtool.metrics.language`, those of translations in
`headtool.metrics.translation`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headtool.metrics.base import TASKS, TOKEN_TASKS, Array, Columns, Metric, column, ratio
from headtool.metrics.language import (
    BitsPerByte,
    Choice,
    ChoiceNorm,
    ChoicePerByte,
    Divergence,
    LogitDifference,
    Perplexity,
)
from headtool.metrics.questions import AnswerF1, ExactMatch
from headtool.metrics.tagging import EntityF1
from headtool.metrics.translation import (
    BLEU,
    CHRF,
    TER,
    Rouge1,
    Rouge2,
    RougeL,
    WrittenF1,
    WrittenMatch,
)

__all__ = ["TASKS", "Metric"]

# A variance this small beside the mean square is rounding error: the values are constant.
_CONSTANT = 1e-12


class Loss(Metric):
    """Mean cross-entropy per scored token (classification: per example)."""

    name = "loss"
    unit = "nats"
    is_mean = True
    higher_is_better = False
    tasks: ClassVar[tuple[str, ...]] = tuple(task for task in TASKS if task != "regression")

    def per_example(self, columns: Columns) -> Array:
        """Return [loss, tokens]."""
        return np.stack([column(columns, "loss"), column(columns, "tokens")], axis=1)

    def from_sums(self, sums: Array) -> Array:
        """Return loss / tokens."""
        return ratio(sums[..., 0], sums[..., 1])


class RegressionLoss(Loss):
    """Mean squared error per example."""

    unit = "squared error"
    tasks = ("regression",)


class Accuracy(Metric):
    """Share of examples whose predicted class is the gold one."""

    name = "accuracy"
    unit = "share of examples"
    is_mean = True
    higher_is_better = True
    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    def per_example(self, columns: Columns) -> Array:
        """Return [correct, 1]."""
        correct = column(columns, "prediction") == column(columns, "gold")
        return np.stack([correct.astype(np.float64), np.ones(len(correct))], axis=1)

    def from_sums(self, sums: Array) -> Array:
        """Return correct / examples."""
        return ratio(sums[..., 0], sums[..., 1])


class TokenAccuracy(Accuracy):
    """Share of scored tokens whose most probable symbol is the right one."""

    unit = "share of tokens"
    tasks = (*TOKEN_TASKS, "token-classification")

    def per_example(self, columns: Columns) -> Array:
        """Return [correct, tokens]."""
        return np.stack([column(columns, "correct"), column(columns, "tokens")], axis=1)


@dataclass(frozen=True)
class CountsMetric(Metric):
    """A metric of the confusion matrix's diagonal and margins.

    The statistics are, per class, whether the example is a hit, predicted as and gold of that
    class: [hit_1..hit_K, predicted_1..predicted_K, gold_1..gold_K].
    """

    n_labels: int

    tasks = ("classification",)
    higher_is_better = True

    def per_example(self, columns: Columns) -> Array:
        """Return one-hot [hit, predicted, gold], shape [examples, 3 * n_labels]."""
        classes = np.arange(self.n_labels)
        predicted = column(columns, "prediction")[:, None] == classes
        gold = column(columns, "gold")[:, None] == classes
        return np.concatenate([predicted & gold, predicted, gold], axis=1).astype(np.float64)

    def _counts(self, sums: Array) -> tuple[Array, Array, Array]:
        hits, predicted, gold = np.split(sums, 3, axis=-1)
        return hits, predicted, gold


class F1(CountsMetric):
    """F1 of class 1 of two: 2 * hits / (predicted + gold).

    NaN where class 1 occurs neither among the predictions nor in the gold labels, because it is
    undefined there (scikit-learn warns and reports 0).
    """

    name = "f1"
    unit = "F1"

    def from_sums(self, sums: Array) -> Array:
        """Return 2 * hits / (predicted + gold) of class 1."""
        hits, predicted, gold = self._counts(sums)
        return ratio(2 * hits[..., 1], predicted[..., 1] + gold[..., 1])


class MacroF1(CountsMetric):
    """Unweighted mean of the classes' F1, over the classes that occur.

    As in scikit-learn, a class counts if it occurs among the predictions or in the gold labels.
    """

    name = "f1-macro"
    unit = "macro F1"

    def from_sums(self, sums: Array) -> Array:
        """Return the mean of 2 * hits / (predicted + gold) over the classes that occur."""
        hits, predicted, gold = self._counts(sums)
        occurs = predicted + gold > 0
        f1 = np.where(occurs, ratio(2 * hits, predicted + gold), 0.0)
        return ratio(f1.sum(axis=-1), occurs.sum(axis=-1).astype(np.float64))


class Matthews(CountsMetric):
    """Matthews correlation coefficient, for any number of classes.

    0 where all predictions or all gold labels are of one class: the usual convention for a
    denominator of zero, and the limit that a constant predictor deserves. NaN without examples.

    References
    ----------
    Gorodkin (2004), Comparing two K-category assignments by a K-category correlation
    coefficient.
    """

    name = "mcc"
    unit = "correlation"

    def from_sums(self, sums: Array) -> Array:
        """Return cov(predicted, gold) / sqrt(cov(predicted, predicted) * cov(gold, gold))."""
        hits, predicted, gold = self._counts(sums)
        n = gold.sum(axis=-1)
        covariance = hits.sum(axis=-1) * n - (predicted * gold).sum(axis=-1)
        spread = (n**2 - (predicted**2).sum(axis=-1)) * (n**2 - (gold**2).sum(axis=-1))
        constant = spread <= 0
        value = np.where(constant, 0.0, covariance / np.sqrt(np.where(constant, 1.0, spread)))
        return np.where(n == 0, np.nan, value)


class _Correlation(Metric):
    """Pearson correlation of two series of values; NaN where either is constant.

    The statistics are moments of the values less the gold mean, over the gold standard deviation.
    These constants are the same for every mask, so that statistics of two masks may be swapped or
    mixed; the correlation does not change, but rounding does less harm.
    """

    unit = "correlation"
    higher_is_better = True
    tasks = ("regression",)

    @abstractmethod
    def _series(self, columns: Columns) -> tuple[Array, Array]:
        """Return the two series, prediction and gold."""

    def per_example(self, columns: Columns) -> Array:
        """Return [1, x, y, x^2, y^2, x*y], shape [examples, 6]."""
        prediction, gold = self._series(columns)
        return _moments(_standardised(prediction, by=gold), _standardised(gold, by=gold))

    def from_sums(self, sums: Array) -> Array:
        """Return the correlation from the six moments."""
        n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
        with np.errstate(invalid="ignore", over="ignore"):  # non-finite values: the result is NaN
            mean_x, mean_y = ratio(x, n), ratio(y, n)
            var_x, var_y = xx - x * mean_x, yy - y * mean_y
            defined = (n >= 2) & (var_x > _CONSTANT * xx) & (var_y > _CONSTANT * yy)
            spread = np.sqrt(np.where(defined, var_x, 1.0)) * np.sqrt(np.where(defined, var_y, 1.0))
            value = np.clip((xy - x * mean_y) / spread, -1.0, 1.0)
        return np.where(defined, value, np.nan)

    def compute(self, columns: Columns) -> float:
        """Return the correlation; each series is standardised by itself, for full precision."""
        x, y = (_standardised(values, by=values) for values in self._series(columns))
        with np.errstate(invalid="ignore"):
            return float(self.from_sums(_moments(x, y).sum(axis=0)))


class Pearson(_Correlation):
    """Pearson correlation of prediction and gold; NaN where either is constant."""

    name = "pearson"

    def _series(self, columns: Columns) -> tuple[Array, Array]:
        return column(columns, "prediction"), column(columns, "gold")


class Spearman(_Correlation):
    """Spearman correlation: the Pearson correlation of midranks; NaN where either is constant.

    The ranks are those within all examples passed to :meth:`per_example`. Sums over a resample keep
    them, rather than ranking the resample anew: :meth:`compute` is exact, the values of resamples
    and of the jackknife are approximations.
    """

    name = "spearman"

    def _series(self, columns: Columns) -> tuple[Array, Array]:
        return _midranks(column(columns, "prediction")), _midranks(column(columns, "gold"))


class MeanSquaredError(Metric):
    """Mean squared difference of prediction and gold."""

    name = "mse"
    unit = "squared error"
    is_mean = True
    higher_is_better = False
    tasks = ("regression",)

    def per_example(self, columns: Columns) -> Array:
        """Return [squared error, 1]."""
        with np.errstate(invalid="ignore", over="ignore"):  # non-finite values: NaN or infinity
            squared = (column(columns, "prediction") - column(columns, "gold")) ** 2
        return np.stack([squared, np.ones(len(squared))], axis=1)

    def from_sums(self, sums: Array) -> Array:
        """Return the mean squared error."""
        return ratio(sums[..., 0], sums[..., 1])


def _standardised(values: Array, *, by: Array) -> Array:
    """Return `values` less the mean of `by`, over its standard deviation (if that is not zero)."""
    if len(by) == 0:
        return values
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray((values - by.mean()) / (by.std() or 1.0), dtype=np.float64)


def _moments(x: Array, y: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)


def _midranks(values: Array) -> Array:
    """Return ranks from 1, ties sharing their mean; all NaN if a value is NaN."""
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


METRICS: tuple[type[Metric], ...] = (
    Accuracy,
    TokenAccuracy,
    F1,
    EntityF1,
    AnswerF1,
    ExactMatch,
    MacroF1,
    Matthews,
    Pearson,
    Spearman,
    MeanSquaredError,
    Loss,
    RegressionLoss,
    Perplexity,
    BitsPerByte,
    LogitDifference,
    Divergence,
    Choice,
    ChoiceNorm,
    ChoicePerByte,
    BLEU,
    CHRF,
    TER,
    Rouge1,
    Rouge2,
    RougeL,
    WrittenMatch,
    WrittenF1,
)
DEFAULTS = {
    "classification": "accuracy",
    "regression": "pearson",
    "token-classification": "f1",
    "question-answering": "f1",
}
