"""How the worth of heads develops over training: prunability of checkpoints, stability of ranks.

A checkpoint's *relative* value is what is left of its own metric, not of the last one's, so that
early checkpoints, which are bad models, compare with late ones (Michel et al. 2019, sec. 6).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from headtool.analysis.rank_correlation import kendall, spearman
from headtool.errors import HeadtoolError
from headtool.metrics.base import Array, Metric
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["prunability", "rank_stability", "relative"]


def relative(values: Array, whole: float, metric: Metric) -> Array:
    """Return what is left of a whole model's value; 1 means all of it.

    Where more is better, the ratio of the values. For a loss or divergence in nats, the ratio of
    the likelihoods per token or example, ``exp(whole - value)``; for other metrics where less is
    better, ``whole / value``.

    Parameters
    ----------
    values
        Values of the metric, in its unit.
    whole
        The whole model's value.
    metric
        The metric, which knows its direction.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.dynamics import relative
    >>> from headtool.metrics import get_metric
    >>> relative(np.array([0.9, 0.45]), 0.9, get_metric("accuracy", task="classification"))
    array([1. , 0.5])
    >>> relative(np.array([1.0, 1.7]), 1.0, get_metric("loss", task="causal-lm")).round(2)
    array([1. , 0.5])
    """
    if metric.higher_is_better:
        return values / whole if whole else np.full_like(values, np.nan)
    if metric.name in ("loss", "kl"):
        return np.exp(whole - values)
    return whole / np.where(values == 0, np.nan, values)


def prunability(curves: pd.DataFrame) -> pd.DataFrame:
    """Summarise each checkpoint's pruning curve, ``prunability``.

    Parameters
    ----------
    curves
        Columns checkpoint, share, value, relative; share 0 is the whole model.

    Returns
    -------
    DataFrame
        The whole model's value; the largest share of heads up to which every share leaves at least
        90% (50%) of that value; the mean relative value over the shares (trapezoids).
    """
    rows = []
    for checkpoint, group in curves.groupby("checkpoint", sort=False):
        ordered = group.sort_values("share")
        share = ordered["share"].to_numpy(np.float64)
        left = ordered["relative"].to_numpy(np.float64)
        if share[0] != 0:
            raise HeadtoolError(f"the curve of {checkpoint} does not begin with the whole model")
        area = np.trapezoid(left, share) / (share[-1] - share[0]) if len(share) > 1 else np.nan
        rows.append(
            (
                checkpoint,
                float(ordered["value"].iloc[0]),
                _largest(share, left, 0.9),
                _largest(share, left, 0.5),
                float(area),
            )
        )
    return TABLES["prunability"].frame(rows)


def _largest(share: Array, left: Array, least: float) -> float:
    """Largest share up to which enough is left throughout."""
    enough = np.logical_and.accumulate(left >= least)
    return float(share[enough].max()) if enough.any() else float("nan")


def rank_stability(scores: pd.DataFrame) -> pd.DataFrame:
    """Compare the heads' ranks at every pair of checkpoints, ``rank_stability``.

    Parameters
    ----------
    scores
        Columns checkpoint, kind, layer, head, score; the same heads at each.

    Returns
    -------
    DataFrame
        Spearman's and Kendall's correlation of the scores, and the share of the better half of the
        heads at one checkpoint that is in the better half at the other.
    """
    order = list(dict.fromkeys(scores["checkpoint"]))
    table = scores.pivot_table(
        index="checkpoint", columns=["kind", "layer", "head"], values="score", dropna=False
    ).loc[order]
    values = table.to_numpy(np.float64)
    half = values.shape[1] // 2
    rows = []
    for first, second in itertools.combinations(range(len(order)), 2):
        x, y = values[first : first + 1], values[second : second + 1]
        best = [set(np.argsort(-row[0], kind="stable")[:half].tolist()) for row in (x, y)]
        rows.append(
            (
                order[first],
                order[second],
                values.shape[1],
                float(spearman(x, y)[0]),
                float(kendall(x, y)[0]),
                len(best[0] & best[1]) / half if half else np.nan,
            )
        )
    return TABLES["rank_stability"].frame(rows)
