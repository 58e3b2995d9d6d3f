"""Metrics by name: which a task has, and which is its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headtool.errors import HeadtoolError, nearest
from headtool.metrics.base import TASKS, Metric
from headtool.metrics.prediction import DEFAULTS, F1, METRICS, CountsMetric
from headtool.metrics.tagging import EntityF1, mark_entities

__all__ = ["default_metric", "get_metric", "metric_of_model", "metric_of_run", "metrics_for"]


class _Model(Protocol):
    """What is asked of a model here."""

    @property
    def task(self) -> str: ...

    @property
    def labels(self) -> Sequence[str]: ...


def metrics_for(task: str) -> tuple[str, ...]:
    """Return the names of the metrics that are defined for a task.

    Examples
    --------
    >>> from headtool.metrics import metrics_for
    >>> metrics_for("seq2seq")
    ('accuracy', 'loss', 'perplexity', 'kl', 'bleu', 'chrf', 'ter', 'rouge1', 'rouge2', 'rougeL')
    """
    _check_task(task)
    return tuple(metric.name for metric in METRICS if task in metric.tasks)


def default_metric(task: str) -> str:
    """Return a task's own metric: accuracy, pearson, f1, or the loss for language models."""
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

    Examples
    --------
    >>> import headtool
    >>> import numpy as np
    >>> accuracy = headtool.get_metric("accuracy", task="classification")
    >>> columns = {"prediction": np.array([0, 2, 1]), "gold": np.array([0, 1, 1])}
    >>> round(accuracy.compute(columns), 3)
    0.667
    """
    available = ", ".join(metrics_for(task))
    known = {metric.name for metric in METRICS}
    if name not in known:
        raise HeadtoolError(
            f"unknown metric {name[:100]!r}{nearest(name, known)} (known for {task}: {available})"
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


def metric_of_model(model: _Model, name: str | None = None) -> Metric:
    """Return the metric called `name` for a model; None for the model's own.

    Parameters
    ----------
    model
        The model; its task and labels are looked at.
    name
        Name of the metric; None for the task's own.

    Raises
    ------
    HeadtoolError
        As `get_metric` does.
    """
    tags = model.task == "token-classification" and not mark_entities(model.labels)
    chosen = name or ("accuracy" if tags else default_metric(model.task))
    if tags and chosen == EntityF1.name:
        raise HeadtoolError(
            f"`metric` {chosen} counts entities, and the model's labels mark none (O, B-PER, "
            "I-PER); choose accuracy"
        )
    return get_metric(chosen, task=model.task, n_labels=len(model.labels) or None)


def metric_of_run(source: Mapping[str, Any], name: str | None = None) -> Metric:
    """Return the metric called `name` for the model of a saved run; None for the run's own.

    Parameters
    ----------
    source
        What the run's manifest says of its outcomes; see `headtool.results.runs.Run.source`.
    name
        Name of the metric; None for the one that the run was made with.

    Raises
    ------
    HeadtoolError
        As `get_metric` does.
    """
    model = source["model"]
    try:
        return get_metric(name or source["metric"], task=model["task"], n_labels=model["labels"])
    except ValueError as error:
        raise HeadtoolError(
            f"the manifest of the run is damaged: its model has the task {model['task'][:60]!r} "
            f"and {model['labels']} labels; restore it, or make the run again"
        ) from error


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; one of {TASKS}")
