"""On how many data sets does a head matter? Partial conjunction tests.

The hypothesis H^{u/n} of a head is that it matters on fewer than u of n data sets. Rejecting it
says "on at least u". With the head's p-values sorted, p_(1) <= ... <= p_(n), it is tested by
combining the n - u + 1 largest, p_(u) to p_(n):

- ``bonferroni``: ``p^{u/n} = (n - u + 1) p_(u)``. Valid however the data sets depend on each other,
  also when they share examples.
- ``fisher``: ``-2 sum_{i >= u} log p_(i)`` against chi-squared with 2 (n - u + 1) degrees of
  freedom. Stronger where a head matters a little everywhere, and valid only if the data sets are
  independent samples.

"On at least u" implies "on at least u - 1", so p-values are made to rise with u by their running
maximum. The estimated number of data sets is then the largest u whose p-value is at most alpha; it
exceeds the true number with probability at most alpha (Dror et al. 2017).

References
----------
Benjamini & Heller (2008), Screening for partial conjunction hypotheses.
Dror, Baumer, Bogomolov & Reichart (2017), Replicability analysis for natural language processing.
Benjamini & Yekutieli (2005), False discovery rate-adjusted multiple confidence intervals, and
Benjamini, Heller & Yekutieli (2009), Selective inference in complex research, for bh and by.
Bretz, Maurer, Brannath & Posch (2009), A graphical approach to sequentially rejective multiple test
procedures, for holm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from headtool.analysis.labels import label_columns, read_heads
from headtool.analysis.levels import check_level
from headtool.errors import HeadtoolError, unknown
from headtool.heads import Head
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COMBINATIONS",
    "HEAD_CORRECTIONS",
    "Replication",
    "partial_conjunction_p",
    "replicate",
]

Combination = Literal["bonferroni", "fisher"]
COMBINATIONS: tuple[Combination, ...] = ("bonferroni", "fisher")
HeadCorrection = Literal["holm", "bh", "by", "none"]
HEAD_CORRECTIONS: tuple[HeadCorrection, ...] = ("holm", "bh", "by", "none")

# Exact tests can underflow to 0; no p-value is.
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Replication:
    """On how many data sets each head matters.

    Attributes
    ----------
    frame
        The table ``replication``, a row per head: ``data_sets`` is the estimated number of data
        sets on which the head matters; ``p_any`` and ``p_all`` are the corrected p-values of "on at
        least one" and "on all".
    p
        p^{u/n} for u = 1 ... n, rising with u, not corrected over heads; shape [M, n].
    p_adjusted
        The same, corrected over heads.
    combination, correction, alpha
        What was used.
    """

    frame: pd.DataFrame
    p: Array
    p_adjusted: Array
    combination: Combination
    correction: HeadCorrection
    alpha: float


def partial_conjunction_p(p: ArrayLike, *, combination: Combination = "bonferroni") -> Array:
    """Return p^{u/n} for u = 1 ... n along the last axis, as the formulas give them, at most 1.

    Not yet made to rise with u; :func:`replicate` does that.

    Parameters
    ----------
    p
        p-values of the same hypothesis on n data sets, shape [..., n].
    combination
        ``bonferroni`` (any dependence) or ``fisher`` (independent data sets).

    Examples
    --------
    >>> from headtool.analysis.partial_conjunction import partial_conjunction_p
    >>> partial_conjunction_p([0.03, 0.001, 0.2]).round(3)
    array([0.003, 0.06 , 0.2  ])
    """
    if combination not in COMBINATIONS:
        raise unknown("combination", combination, COMBINATIONS)
    ordered = np.maximum(np.sort(np.asarray(p, dtype=np.float64), axis=-1), _TINY)
    combined = np.arange(ordered.shape[-1], 0, -1)  # n - u + 1 p-values for u = 1 ... n
    if combination == "bonferroni":
        return np.minimum(1.0, combined * ordered)
    logs = np.cumsum(np.log(ordered)[..., ::-1], axis=-1)[..., ::-1]
    return np.maximum(chi2.sf(-2 * logs, 2 * combined), _TINY)


def replicate(
    p: ArrayLike,
    heads: Sequence[Head | str],
    *,
    alpha: float = 0.05,
    combination: Combination = "bonferroni",
    correction: HeadCorrection = "holm",
) -> Replication:
    """Estimate on how many data sets each head matters, corrected over heads.

    Two-sided p-values ask for an effect of either sign, which may differ between data sets; give
    one-sided ones to count the data sets on which a head is needed.

    Parameters
    ----------
    p
        Uncorrected p-values of M heads on n data sets, shape [M, n].
    heads
        The M heads.
    alpha
        Level of the correction.
    combination
        How the p-values of a head are combined; see :func:`partial_conjunction_p`.
    correction
        - ``holm``: the probability that the number is too high for any head is at most alpha,
          whatever the dependence. A sequentially rejective procedure over the chains u = 1 ... n:
          every head has a share of alpha, and passes it on once all its hypotheses are rejected.
          Holm's procedure where n is 1.
        - ``bh``, ``by``: heads are selected by Benjamini-Hochberg (or -Yekutieli) on "at least
          one", and counted at level alpha * selected / M. Of the selected heads, at most a share
          alpha has too high a number, on average: for ``bh`` if heads are independent or
          positively dependent, for ``by`` always.
        - ``none``: each head by itself.

    Raises
    ------
    HeadtoolError
        If p-values are outside [0, 1] or NaN, heads do not match, or an option is unknown.
    """
    import pandas as pd

    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise HeadtoolError(f"p-values must be [heads, data sets], got shape {values.shape}")
    labels = label_columns(names := read_heads(heads), len(values))
    invalid = np.argwhere(~((values >= 0) & (values <= 1)))
    if len(invalid):
        head, data_set = invalid[0]
        raise HeadtoolError(
            f"the p-value of {names[head]} on data set {data_set + 1} is "
            f"{values[head, data_set]:g}; it must be in [0, 1], and every head tested everywhere"
        )
    check_level(alpha)
    if correction not in HEAD_CORRECTIONS:
        raise unknown("correction", correction, HEAD_CORRECTIONS)
    rising = np.maximum.accumulate(partial_conjunction_p(values, combination=combination), axis=1)
    adjusted = _adjusted(rising, correction)
    frame = pd.DataFrame(
        {
            **labels,
            "data_sets": (adjusted <= alpha).sum(axis=1),
            "p_any": adjusted[:, 0],
            "p_all": adjusted[:, -1],
        }
    )
    return Replication(
        frame[list(TABLES["replication"].names)], rising, adjusted, combination, correction, alpha
    )


def _adjusted(p: Array, correction: HeadCorrection) -> Array:
    """Smallest levels at which each hypothesis is rejected; p [M, n] rises along n."""
    if correction == "none":
        return p
    count = len(p)
    if correction == "holm":
        # After j heads are done, those left have alpha / (M - j) each. The j heads with the
        # smallest p^{n/n} are done at the level passed[j].
        left = count - np.arange(count)
        done = np.sort(p[:, -1])
        passed = np.concatenate([[0.0], np.maximum.accumulate(left * done)[:-1]])
        levels = np.maximum(passed[:, None, None], left[:, None, None] * p)
    else:
        # With i heads selected, the level of each is alpha i / M.
        share = count / np.arange(1, count + 1)
        if correction == "by":
            share = share * (1 / np.arange(1, count + 1)).sum()
        selected = np.sort(p[:, 0])[:, None, None]
        levels = share[:, None, None] * np.maximum(selected, p)
    return np.asarray(np.minimum(1.0, levels.min(axis=0)), dtype=np.float64)
