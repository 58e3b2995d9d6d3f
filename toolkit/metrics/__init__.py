"""Metrics by name: which a task has, and which is its own."""

from __future__ import annotations

from headtool.errors import HeadtoolError, nearest
from headtool.metrics.base import TASKS, Metric
from headtool.metrics.prediction import DEFAULTS, F1, METRICS, CountsMetric

__all__ = ["default_metric", "get_metric", "metrics_for"]


def metrics_for(task: str) -> tuple[str, ...]:
    """Return the names of the metrics that are defined for a task.

    Examples
    --------
    >>> metrics_for("seq2seq")
    ('accuracy', 'loss', 'perplexity', 'bleu', 'chrf', 'ter')
    """
    _check_task(task)
    return tuple(metric.name for metric in METRICS if task in metric.tasks)


def default_metric(task: str) -> str:
    """Return a task's own metric: accuracy, pearson, or the loss for language models."""
    _check_task(task)
    return DEFAULTS.get(task, "loss")


def get_metric(name: str, *, task: str, n_labels: int | None = None) -> Metric:
    """Return the metric called `name` for a task.

    Parameters
    ----------
    name
        Name of the metric; see :func:`metrics_for`.
    task
        One of :data:`TASKS`.
    n_labels
        Number of classes of the model; needed by f1, f1-macro and mcc.

    Raises
    ------
    HeadtoolError
        If the metric does not exist, is not defined for the task, or is f1 with other than two
        classes.
    ValueError
        If the task does not exist, or `n_labels` is needed and missing.
    """
    available = ", ".join(metrics_for(task))
    known = {metric.name for metric in METRICS}
    if name not in known:
        raise HeadtoolError(
            f"unknown metric '{name}'{nearest(name, known)} (known for {task}: {available})"
        )
    found = [metric for metric in METRICS if metric.name == name and task in metric.tasks]
    if not found:
        raise HeadtoolError(f"metric '{name}' is not defined for {task}; choose one of {available}")
    metric = found[0]
    if not issubclass(metric, CountsMetric):
        return metric()
    if n_labels is None:
        raise ValueError(f"metric '{name}' needs n_labels")
    if metric is F1 and n_labels != 2:
        raise HeadtoolError(
            f"metric 'f1' is for two classes and the model has {n_labels}; use f1-macro"
        )
    return metric(n_labels=n_labels)


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; one of {TASKS}")
