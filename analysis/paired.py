"""Paired outcomes: the whole model and masked models on the same examples, as plain arrays.

Everything in this package that tests heads starts from a :class:`Paired`. It needs no model and
no run: per-example statistics whose sums determine a metric's value, and the function that
computes the value from the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from headtool.errors import HeadtoolError
from headtool.metrics.base import Array, Metric
from headtool.results.outcomes import Outcomes

__all__ = ["Form", "Paired", "ValueFunction"]

ValueFunction = Callable[[Array], Array]
Form = Literal["binary", "mean", "function"]

# Upper ends of metrics that have one; the margin's default is a share of them.
_SCALES = {
    "accuracy": 1.0,
    "f1": 1.0,
    "f1-macro": 1.0,
    "mcc": 1.0,
    "pearson": 1.0,
    "spearman": 1.0,
    "bleu": 100.0,
    "chrf": 100.0,
    "ter": 100.0,
    "rouge1": 1.0,
    "rouge2": 1.0,
    "rougeL": 1.0,
    "acc": 1.0,
    "acc_norm": 1.0,
    "acc_bytes": 1.0,
    "kl": 1.0,  # a nat: far beyond what a model that is of use may differ by
}


_SIGNED = ("logit-difference",)  # means of values that may have either sign


@dataclass(frozen=True, eq=False)
class Paired:
    """Per-example statistics of the whole model and of M masked models on the same N examples.

    Attributes
    ----------
    whole
        Statistics of the whole model, shape [N, k].
    masked
        The same of every mask, shape [M, N, k].
    value
        Turns sums of statistics over examples, shape [..., k], into values of the metric, shape
        [...]; NaN where the metric is undefined. Must be a pure function of the sums.
    higher_is_better
        Direction of the metric.
    name
        The metric's name, for messages.
    scale
        Length of the metric's scale in its own unit, such as 1 for accuracy and 100 for BLEU.
        None: 1 (times the unit) for shares of zeros and ones, else the whole model's value, as
        for losses, which have no upper end. A difference that may have any sign takes its mean
        size.

    best
        Whether the whole model has the best value there is, as its divergence from itself. Then
        any effect at all shows as a loss, and only one beyond the margin means something.

    Raises
    ------
    HeadtoolError
        If there are fewer than two examples, shapes disagree, or a statistic is not finite.

    Examples
    --------
    >>> from headtool.analysis.paired import Paired
    >>> whole, masked = [1, 1, 0, 1], [[1, 0, 0, 1], [1, 1, 1, 1]]
    >>> Paired.from_values(whole, masked, higher_is_better=True).delta
    array([-0.25,  0.25])
    """

    whole: Array
    masked: Array
    value: ValueFunction
    higher_is_better: bool
    name: str = "metric"
    scale: float | None = None
    best: bool = False

    def __post_init__(self) -> None:
        whole = np.asarray(self.whole, dtype=np.float64)
        masked = np.asarray(self.masked, dtype=np.float64)
        if whole.ndim != 2 or masked.ndim != 3 or masked.shape[1:] != whole.shape:
            raise HeadtoolError(
                "outcomes need statistics [examples, k] and [masks, examples, k], "
                f"got {whole.shape} and {masked.shape}"
            )
        if len(whole) < 2:
            raise HeadtoolError(f"fewer than two examples ({len(whole)}): nothing can be tested")
        if not np.isfinite(whole).all():
            example = np.argwhere(~np.isfinite(whole))[0, 0]
            raise HeadtoolError(f"a statistic of the whole model is not finite: example {example}")
        if not np.isfinite(masked).all():
            mask, example, _ = np.argwhere(~np.isfinite(masked))[0]
            raise HeadtoolError(f"a statistic of mask {mask} is not finite: example {example}")
        object.__setattr__(self, "whole", whole)
        object.__setattr__(self, "masked", masked)

    @classmethod
    def from_values(
        cls,
        whole: ArrayLike,
        masked: ArrayLike,
        *,
        higher_is_better: bool,
        name: str = "mean",
        scale: float | None = None,
    ) -> Paired:
        """Build it for the mean of per-example values.

        Parameters
        ----------
        whole
            A value per example of the whole model, shape [N].
        masked
            The same for each mask, shape [M, N].
        higher_is_better
            Direction of the values.
        name
            What the values are, for messages.
        scale
            Length of their scale; see `Paired`.
        """
        first, others = (np.asarray(values, dtype=np.float64) for values in (whole, masked))
        return cls(
            np.stack([first, np.ones_like(first)], axis=-1),
            np.stack([others, np.ones_like(others)], axis=-1),
            value=_mean,
            higher_is_better=higher_is_better,
            name=name,
            scale=scale,
        )

    @classmethod
    def from_outcomes(cls, outcomes: Outcomes, metric: Metric) -> Paired:
        """Build it from the outcomes of an evaluation, measured by a metric.

        Parameters
        ----------
        outcomes
            What an evaluation returned.
        metric
            A metric that is defined for its columns.
        """
        whole = metric.per_example(outcomes.whole)
        masked = np.empty((len(outcomes.masks), *whole.shape))
        for row in range(len(outcomes.masks)):
            masked[row] = metric.per_example(outcomes.row(row))
        return cls(
            whole,
            masked,
            value=metric.from_sums,
            higher_is_better=metric.higher_is_better,
            name=metric.name,
            scale=_mean_size(whole) if metric.name in _SIGNED else _SCALES.get(metric.name),
            best=metric.compares,
        )

    @property
    def n_examples(self) -> int:
        """Number of examples, N."""
        return len(self.whole)

    @property
    def n_masks(self) -> int:
        """Number of masks, M."""
        return len(self.masked)

    @cached_property
    def whole_value(self) -> float:
        """The metric of the whole model."""
        return float(self.value(self.whole.sum(axis=0)))

    @cached_property
    def masked_values(self) -> Array:
        """The metric of every mask, shape [M]."""
        return np.asarray(self.value(self.masked.sum(axis=1)), dtype=np.float64)

    @cached_property
    def delta(self) -> Array:
        """Masked minus whole in the metric's unit, shape [M]; NaN where either is undefined."""
        with np.errstate(invalid="ignore"):
            delta = self.masked_values - self.whole_value
        return np.where(np.isfinite(delta), delta, np.nan)

    @cached_property
    def benefit(self) -> Array:
        """`delta`, signed so that positive means that the masked model is better."""
        return self.delta if self.higher_is_better else -self.delta

    @cached_property
    def unit(self) -> float | None:
        """The factor u if the value is ``u * sum of column 0 / sum of column 1``, else None.

        Found by probing the value function, so that a new metric needs no declaration.
        """
        if self.whole.shape[1] != 2:
            return None
        numerator = np.array([3.0, 2.0, 5.0, 0.0, 11.0])
        denominator = np.array([7.0, 3.0, 5.0, 2.0, 13.0])
        values = np.asarray(self.value(np.stack([numerator, denominator], axis=1)))
        unit = float(values[2])
        same = np.allclose(values, unit * numerator / denominator, rtol=1e-12, atol=0.0)
        return unit if same and unit > 0 else None

    @cached_property
    def form(self) -> Form:
        """Form of the metric on these data, which decides which tests are valid.

        ``mean``: a ratio of sums whose denominators are the same for the whole model and every
        mask (accuracy, loss per token). Its delta is then linear in the per-example differences
        of the numerators. ``binary``: a mean of zeros and ones. ``function``: everything else.
        """
        if self.unit is None or (self.masked[..., 1] != self.whole[:, 1]).any():
            return "function"
        ones = (self.whole[:, 1] == 1).all()
        numerators = (self.whole[:, 0], self.masked[..., 0])
        if ones and all(((values == 0) | (values == 1)).all() for values in numerators):
            return "binary"
        return "mean"

    @cached_property
    def discordant(self) -> tuple[Array, Array]:
        """Examples on which only the whole model, and only the masked model, scores; each [M].

        For the form ``binary`` only.
        """
        if self.form != "binary":
            raise ValueError(f"{self.name} is not a mean of zeros and ones")
        difference = self.masked[..., 0] - self.whole[:, 0]
        return (difference < 0).sum(axis=1) * 1.0, (difference > 0).sum(axis=1) * 1.0

    @cached_property
    def differing(self) -> Array:
        """Number of examples on which any statistic differs from the whole model's, shape [M]."""
        return np.array([(rows != self.whole).any(axis=1).sum() for rows in self.masked], float)

    @cached_property
    def jackknife(self) -> Array:
        """The deltas with one example left out, shape [M, N]."""
        without = self.value(self.whole.sum(axis=0) - self.whole)
        left_out = np.empty((self.n_masks, self.n_examples))
        for row, statistics in zip(left_out, self.masked, strict=True):
            row[:] = self.value(statistics.sum(axis=0) - statistics) - without
        return left_out

    @cached_property
    def stderr(self) -> Array:
        """Delete-one jackknife standard error of the deltas, shape [M]; NaN where undefined.

        For means this is exactly the standard deviation of the differences over sqrt(N).
        """
        with np.errstate(invalid="ignore"):
            variance = (self.n_examples - 1) * np.var(self.jackknife, axis=1)
        return np.where(self.differing > 0, np.sqrt(variance), 0.0)

    @cached_property
    def length(self) -> float:
        """Length of the metric's scale: `scale`, or what stands for it."""
        if self.scale is not None:
            return self.scale
        if self.form == "binary" and self.unit is not None:
            return self.unit
        return abs(self.whole_value)


def _mean(sums: Array) -> Array:
    return np.asarray(sums[..., 0] / sums[..., 1], dtype=np.float64)


def _mean_size(whole: Array) -> float | None:
    """Mean size of a difference over the examples, whose statistics are [difference, 1]."""
    return float(np.abs(whole[:, 0]).mean()) or None
