"""What reproduces a number: the versions, fingerprints, options and seed behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtool.models.base import ModelAdapter
from headtool.models.examples import Examples
from headtool.results.versions import versions

__all__ = ["provenance"]


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
        "model": {
            "spec": model.spec,
            "library": model.library,
            "class": type(model.module).__name__,
            "task": model.task,
            "labels": len(model.labels) or None,
            "heads": model.sites.summary,
            "dtype": str(next(model.module.parameters()).dtype).removeprefix("torch."),
            "device": str(model.device),
            "sha256": model.fingerprint,
        },
        "data": {
            "spec": examples.data.spec,
            "examples": len(examples),
            "truncated": examples.truncated,
            "batch_tokens": examples.batch_tokens,
            "sha256": examples.data.fingerprint,
        },
        "versions": versions(),
    }
