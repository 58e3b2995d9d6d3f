"""What reproduces a number: the versions, fingerprints, options and seed behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.results.versions import versions

__all__ = ["data_provenance", "model_provenance", "provenance"]


def provenance(
    model: ModelAdapter,
    examples: Examples,
    method: str,
    options: Mapping[str, Any],
    metric: str,
    seed: int,
) -> dict[str, Any]:
    """Describe one method's run: all that is needed to reproduce it.

    Parameters
    ----------
    model, examples
        The model and its tokenised data set, of which the fingerprints are recorded.
    method
        Name of the method.
    options
        Its options, as JSON can hold them.
    metric
        Name of the metric.
    seed
        Seed of everything random.

    Returns
    -------
    dict
        As JSON can hold it.
    """
    return {
        "method": method,
        "options": dict(options),
        "metric": metric,
        "seed": seed,
        "model": model_provenance(model),
        "data": data_provenance(examples),
        "versions": versions(),
    }


def model_provenance(model: ModelAdapter) -> dict[str, Any]:
    """Describe a model: where it comes from, what it is, and its fingerprint.

    Parameters
    ----------
    model
        The model.

    Returns
    -------
    dict
        As JSON can hold it.
    """
    return {
        "spec": model.spec,
        "library": model.library,
        "class": type(model.module).__name__,
        "task": model.task,
        "labels": len(model.labels) or None,
        "heads": model.sites.summary,
        **model.placement,
        "sha256": model.fingerprint,
    }


def data_provenance(examples: Examples) -> dict[str, Any]:
    """Describe examples: where they come from, how many there are and how they were drawn.

    Parameters
    ----------
    examples
        The tokenised data set.

    Returns
    -------
    dict
        As JSON can hold it. ``drawn`` is None where the data set was used in full, and
        ``classes`` where it has none.
    """
    drawn = examples.data.drawn
    return {
        "spec": examples.data.spec,
        "examples": len(examples),
        "truncated": examples.truncated,
        "batch_tokens": examples.batch_tokens,
        "drawn": None if drawn is None else drawn.described(),
        "classes": examples.classes or None,
        "sha256": examples.data.fingerprint,
    }
