"""Which effects are too small for the number format that the model computed in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headtool.metrics.base import Metric

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["rounding_notes"]

_COUNTED = ("nats", "bits per byte")  # units that follow a number
_WIDTH = 2.0  # standard errors of the rounding that an effect has to exceed


def rounding_notes(
    frame: pd.DataFrame, metrics: Sequence[Metric], rounding: object, examples: int
) -> list[str]:
    """Say how many effects the rounding alone could have made.

    Parameters
    ----------
    frame
        Effects: delta, and metric where there are several. Heads that were not tested have NaN.
    metrics
        What they were measured by.
    rounding
        What `headtool.engine.rounding.measure_rounding` returned, or a manifest holds.
    examples
        How many examples the effects were measured on; the error of a mean falls with their root.

    Returns
    -------
    list
        A line per metric with such effects. Effects of exactly zero are not counted: there,
        nothing was rounded otherwise.

    Examples
    --------
    >>> import pandas as pd
    >>> from headtool import get_metric
    >>> from headtool.analysis.rounding import rounding_notes
    >>> rounding = {"dtype": "bfloat16", "examples": 64, "noise": {"loss": 0.002}}
    >>> effects = pd.DataFrame({"delta": [0.0, 0.0015, -0.0001, 0.1]})
    >>> loss = get_metric("loss", task="classification")
    >>> rounding_notes(effects, [loss], rounding, examples=256)
    ['2 of 4 effects on loss are below the rounding noise of bfloat16 (about 0.002 nats); ...']
    """
    if not isinstance(rounding, Mapping):
        return []
    found = []
    for metric in metrics:
        noise = rounding["noise"].get(metric.name)
        rows = frame[frame["metric"] == metric.name] if "metric" in frame.columns else frame
        if noise is None:
            continue
        share = 1.0 if metric.compares else math.sqrt(rounding["examples"] / examples)
        size = rows["delta"].dropna().abs()
        below = int(((size > 0) & (size < _WIDTH * noise * share)).sum())
        if below:
            found.append(_note(below, len(size), metric, _WIDTH * noise * share, rounding))
    return found


def _note(below: int, of: int, metric: Metric, width: float, rounding: Mapping[str, Any]) -> str:
    unit = f" {metric.unit}" if metric.unit in _COUNTED else ""
    return (
        f"{below} of {of} effects on {metric.name} are below the rounding noise of "
        f"{rounding['dtype']} (about {width:.2g}{unit}); float32 resolves them"
    )
