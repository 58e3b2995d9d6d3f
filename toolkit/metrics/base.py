"""What a metric is: per-example sufficient statistics, and a value computed from their sums.

A model returns raw columns, one number per example: for classification ``prediction``, ``gold``,
``loss`` and ``tokens`` (ones); for regression the same with the squared error as loss; for language
and translation models ``loss`` (summed nats), ``tokens`` (scored tokens) and ``correct`` (scored
tokens whose most probable symbol is right), for causal ones also ``bytes`` (of the scored text).
Token classifiers have ``loss``, ``tokens`` and ``correct`` over tagged tokens, and count entities
(`headtool.models.entities`); for questions about a text, ``loss`` and ``tokens`` are those of first
and last tokens, and answers are compared (`headtool.models.questions`). Prompts with several
answers have what `headtool.models.answers` makes of them, too. For translations as text, the
columns are the statistics of BLEU, chrF or TER (`headtool.metrics.translation`).

A metric turns them into an array [examples, k] whose sums over any multiset of examples determine
its value. Everything that resamples examples works on those arrays and never needs the model again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from headtool.errors import HeadtoolError

__all__ = ["TASKS", "TOKEN_TASKS", "Array", "Columns", "Metric", "column", "ratio"]

Array = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[np.generic]]

TOKEN_TASKS = ("causal-lm", "masked-lm", "seq2seq")
TASKS = (
    *("classification", "regression"),
    *TOKEN_TASKS,
    *("token-classification", "question-answering"),
)


def column(columns: Columns, name: str) -> Array:
    """Return a raw column as float64.

    Parameters
    ----------
    columns
        Raw columns by name, each of shape [N].
    name
        The column wanted.

    Raises
    ------
    HeadtoolError
        If they lack it.
    """
    if name not in columns:
        raise HeadtoolError(
            f"the outcomes lack '{name}' (they have {', '.join(columns)}), which the metric is "
            "computed from; make them again"
        )
    return np.asarray(columns[name], dtype=np.float64)


def ratio(numerator: Array, denominator: Array) -> Array:
    """Divide elementwise; NaN, without a warning, where the denominator is zero.

    Parameters
    ----------
    numerator, denominator
        Arrays that broadcast together.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.metrics.base import ratio
    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0])).tolist()
    [0.5, nan]
    """
    empty = denominator == 0
    return np.where(empty, np.nan, numerator / np.where(empty, 1.0, denominator))


@dataclass(frozen=True)
class Metric(ABC):
    """Turn raw columns into sufficient statistics, and their sums into a value.

    Attributes
    ----------
    name : str
        Name on the command line.
    unit : str
        Unit of the value, for tables and axes.
    higher_is_better : bool
        Direction of the metric.
    tasks : tuple of str
        Tasks for which it is defined; see :data:`TASKS`.
    needs : str
        The column that the data must have for it; empty for metrics of any data of the task.
    compares : bool
        Whether it compares a masked model's predictions with the whole one's.
    is_mean : bool
        Whether it is a mean over examples or tokens, and decodes nothing. Then each example may
        meet a mask of its own.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    higher_is_better: ClassVar[bool]
    tasks: ClassVar[tuple[str, ...]]
    needs: ClassVar[str] = ""
    compares: ClassVar[bool] = False
    is_mean: ClassVar[bool] = False

    @abstractmethod
    def per_example(self, columns: Columns) -> Array:
        """Return the sufficient statistics, shape [examples, k]."""

    @abstractmethod
    def from_sums(self, sums: Array) -> Array:
        """Return the values for sums of shape [..., k], shape [...]; NaN where undefined."""

    def compute(self, columns: Columns) -> float:
        """Return the metric's value on all examples; NaN where it is undefined."""
        return float(self.from_sums(self.per_example(columns).sum(axis=0)))

    def jackknife_stderr(self, columns: Columns, other: Columns | None = None) -> float:
        """Return the delete-one jackknife standard error over examples.

        ``sqrt((n - 1) / n * sum_i (v_i - mean(v))^2)``, v_i the value without example i. For a mean
        of per-example values this is exactly their standard deviation over ``sqrt(n)``.

        Parameters
        ----------
        columns
            Raw columns of n examples.
        other
            Raw columns of the same examples under another mask; if given, the standard error is
            that of the paired difference, the value of `columns` minus that of `other`.

        Returns
        -------
        float
            The standard error; NaN with fewer than two examples, or where a value is undefined.

        References
        ----------
        Efron (1982), The Jackknife, the Bootstrap and Other Resampling Plans.
        """
        with np.errstate(invalid="ignore", over="ignore"):  # losses that are not finite: NaN
            left_out = self._leave_one_out(columns)
            if other is not None:
                left_out = left_out - self._leave_one_out(other)
            n = len(left_out)
            if n < 2 or not np.isfinite(left_out).all():
                return float("nan")
            return float(np.sqrt((n - 1) * np.var(left_out)))

    def _leave_one_out(self, columns: Columns) -> Array:
        statistics = self.per_example(columns)
        return self.from_sums(statistics.sum(axis=0) - statistics)
