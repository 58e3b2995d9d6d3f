"""Importance of the same heads on several data sets, and how far it agrees.

Always three coefficients: Pearson follows the few heads that matter a lot, Spearman and Kendall all
of them, and published maps have an r of .81 beside a rho of .38. Three questions are kept apart:

- How far would the coefficient move with other examples? The interval ``_low`` to ``_high``, from
  a bootstrap over examples with the heads fixed. It is an interval for the coefficient that scores
  from as many examples have on average, noise included. Percentiles of bootstrap coefficients would
  miss it: resampled scores are noisier than the observed ones, which lowers every one of them. So
  the resampled noise is added to scores that are shrunken towards their mean to the variance
  that is signal, and only the spread of the coefficients is used:
  ``r +- z * sd(coefficient(mean + sqrt(reliability) * (score - mean) + resampled - score))``.
- How far with other heads? Fisher's interval for Pearson, ``tanh(atanh(r) +- z / sqrt(M - 3))``. It
  supposes that heads are a random sample from a bivariate normal population.
- Could it be chance? Permutations of heads, free and within layers; see `head_permutation`.

References
----------
Fisher (1921), On the "probable error" of a coefficient of correlation deduced from a small sample.
Efron & Tibshirani (1993), An Introduction to the Bootstrap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from headtool.analysis.head_permutation import permutation_p
from headtool.analysis.importance import Importance, align
from headtool.analysis.levels import check_level
from headtool.analysis.rank_correlation import COEFFICIENTS, is_constant
from headtool.analysis.reliability import MIN_RELIABILITY, disattenuate, split_half_reliability
from headtool.errors import HeadtoolError
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["correlate", "fisher_interval", "noise_draws"]

_PER_COEFFICIENT = ("", "_low", "_high", "_p", "_p_within_layers")

# With a larger share of resamples undefined, the rest say little about the spread.
_MAX_UNDEFINED = 0.1


def correlate(
    data_sets: Sequence[Importance],
    *,
    alpha: float = 0.05,
    permutations: int = 10_000,
    resamples: int = 2_000,
    splits: int = 200,
    min_reliability: float = MIN_RELIABILITY,
    rng: np.random.Generator | int = 0,
) -> pd.DataFrame:
    """Correlate the importance of the same heads on every pair of data sets.

    Parameters
    ----------
    data_sets
        Two or more, with the same heads in any order. They must not share examples: noise that
        two of them have in common would pass for agreement.
    alpha
        Intervals have level ``1 - alpha``.
    permutations
        Orders of the heads behind the p-values.
    resamples
        Bootstrap resamples of the examples.
    splits
        Random halves behind a reliability.
    min_reliability
        Below it nothing is disattenuated.
    rng
        Generator, or a seed. The numbers of a data set do not depend on how many there are.

    Returns
    -------
    pandas.DataFrame
        The table ``correlations``, a row per pair: for ``pearson``, ``spearman`` and ``kendall``
        (tau-b) the coefficient, its interval over examples (``_low``, ``_high``), and two-sided
        p-values, not corrected for the number of pairs, with heads permuted freely (``_p``) and
        within layers (``_p_within_layers``); ``pearson_fisher_low`` and ``_high``, Fisher's
        interval over heads; the split-half reliabilities, stepped up by Spearman-Brown; Pearson's
        r disattenuated by them. ``note`` says why a number is NaN; it is empty where none is.

    Raises
    ------
    HeadtoolError
        If there are fewer than two data sets or three heads, heads differ between data sets, or an
        argument is out of its range.

    Examples
    --------
    >>> from headtool.analysis.importance import Importance
    >>> from headtool.analysis.correlation import correlate
    >>> heads = [f"enc-self.{layer}.{head}" for layer in range(2) for head in range(3)]
    >>> x = Importance.from_scores("x", heads, [1, 2, 3, 4, 5, 6])
    >>> y = Importance.from_scores("y", heads, [2, 1, 3, 4, 6, 5])
    >>> correlate([x, y])[["pearson", "kendall", "kendall_p", "kendall_p_within_layers"]].round(3)
       pearson  kendall  kendall_p  kendall_p_within_layers
    0    0.886    0.733      0.056                    0.722
    """
    aligned = align(data_sets)
    _check(aligned, alpha, permutations, resamples, splits, min_reliability)
    for_heads, *for_data = np.random.default_rng(rng).spawn(1 + len(aligned))
    noises, reliabilities = [], []
    for data, generator in zip(aligned, for_data, strict=True):
        reliability = split_half_reliability(data, splits=splits, rng=generator)
        reliabilities.append(reliability)
        noises.append(
            noise_draws(data, reliability=reliability, resamples=resamples, rng=generator)
        )

    rows = []
    for i, j in itertools.combinations(range(len(aligned)), 2):
        x, y = aligned[i], aligned[j]
        row = _coefficients(x.scores, y.scores, noises[i], noises[j], alpha=alpha)
        for suffix, layers in (("_p", None), ("_p_within_layers", x.layers)):
            p = permutation_p(
                x.scores, y.scores, layers=layers, permutations=permutations, rng=for_heads
            )
            row |= {name + suffix: value for name, value in p.items()}
        r, reliable = row["pearson"], (reliabilities[i], reliabilities[j])
        fisher = fisher_interval(r, len(x.heads), alpha=alpha)
        row["pearson_fisher_low"], row["pearson_fisher_high"] = fisher
        row["reliability_x"], row["reliability_y"] = reliable
        row["disattenuated"] = disattenuate(r, *reliable, minimum=min_reliability)
        notes = _notes((x, y), row, reliable, min_reliability)
        labels = {"data_x": x.name, "data_y": y.name, "n_heads": len(x.heads)}
        rows.append({**labels, **row, "note": "; ".join(notes)})
    return TABLES["correlations"].frame(rows)


def fisher_interval(r: float, n_heads: int, *, alpha: float = 0.05) -> tuple[float, float]:
    """Return Fisher's interval of a Pearson correlation over heads.

    ``tanh(atanh(r) +- z / sqrt(n_heads - 3))``; (-1, 1) with three heads, which say nothing.

    Parameters
    ----------
    r
        Pearson's correlation; NaN gives NaN.
    n_heads
        Number of heads that it is over.
    alpha
        The interval has level ``1 - alpha``.

    Examples
    --------
    >>> from headtool.analysis.correlation import fisher_interval
    >>> low, high = fisher_interval(0.5, 50)
    >>> round(low, 3), round(high, 3)
    (0.257, 0.683)
    """
    if math.isnan(r):
        return math.nan, math.nan
    if abs(r) == 1:
        return r, r
    if n_heads <= 3:
        return -1.0, 1.0
    reach = float(norm.isf(alpha / 2)) / math.sqrt(n_heads - 3)
    return math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach)


def noise_draws(
    data: Importance, *, reliability: float, resamples: int, rng: np.random.Generator
) -> Array | None:
    """Draw scores that are as noisy as the observed ones.

    Bootstrap scores have the noise twice, that of the sample and that of the resample. So the
    observed scores are first shrunk by the square root of their reliability, which leaves them as
    much variance as the signal has. A negative or unknown reliability shrinks them to their mean.

    Parameters
    ----------
    data
        Importance of M heads on one data set.
    reliability
        Its reliability; see `headtool.analysis.reliability`.
    resamples
        How many bootstrap resamples of the examples.
    rng
        The source of randomness.

    Returns
    -------
    ndarray or None
        Shape [resamples, M]; None for scores without examples.
    """
    if data.rescore is None:
        return None
    kept = math.sqrt(reliability) if reliability > 0 else 0.0
    resampled = data.bootstrap(resamples=resamples, rng=rng)
    return np.asarray(resampled - (1 - kept) * (data.scores - data.scores.mean()))


def _coefficients(
    x: Array, y: Array, noisy_x: Array | None, noisy_y: Array | None, *, alpha: float
) -> dict[str, float]:
    """The three coefficients and their intervals over examples."""
    z = float(norm.isf(alpha / 2))
    row = {}
    for name, coefficient in COEFFICIENTS.items():
        value = float(coefficient(x[None], y[None])[0])
        spread = math.nan
        if noisy_x is not None and noisy_y is not None and not math.isnan(value):
            drawn = coefficient(noisy_x, noisy_y)
            drawn = drawn[~np.isnan(drawn)]
            if len(drawn) >= (1 - _MAX_UNDEFINED) * len(noisy_x):
                spread = float(drawn.std())
        row[name] = value
        row[f"{name}_low"] = max(-1.0, value - z * spread) if spread >= 0 else math.nan
        row[f"{name}_high"] = min(1.0, value + z * spread) if spread >= 0 else math.nan
    return row


def _notes(
    pair: tuple[Importance, Importance],
    row: dict[str, float],
    reliabilities: tuple[float, float],
    min_reliability: float,
) -> list[str]:
    """Why a number in the row is NaN."""
    notes = []
    for data in pair:
        undefined = [
            str(head) for head, score in zip(data.heads, data.scores, strict=True)
            if not math.isfinite(score)
        ]  # fmt: skip
        if undefined:
            notes.append(f"the importance of {undefined[0]} on {data.name} is undefined")
        elif is_constant(data.scores):
            notes.append(f"all heads are equally important on {data.name}: no correlation")
    if notes:
        return notes
    if np.bincount(pair[0].layers).max() < 2:
        notes.append("no two heads share a layer: no permutation within layers")
    for data, reliability in zip(pair, reliabilities, strict=True):
        if data.rescore is None:
            notes.append(f"no examples of {data.name}: no interval over examples, no reliability")
        elif math.isnan(reliability):
            notes.append(f"the reliability on {data.name} is undefined: not corrected for noise")
        elif reliability < min_reliability:
            notes.append(
                f"the reliability on {data.name} is {reliability:.2f}, below {min_reliability:g}: "
                "not corrected for noise"
            )
    has_examples = all(data.rescore is not None for data in pair)
    for name in COEFFICIENTS:
        if has_examples and np.isnan(row[f"{name}_low"]):
            notes.append(f"{name} is undefined on many resamples: no interval over examples")
    return notes


def _check(
    data_sets: Sequence[Importance],
    alpha: float,
    permutations: int,
    resamples: int,
    splits: int,
    min_reliability: float,
) -> None:
    heads = len(data_sets[0].heads)
    if heads < 3:
        raise HeadtoolError(f"a correlation needs at least three heads, got {heads}")
    check_level(alpha)
    if not 0 < min_reliability <= 1:
        raise HeadtoolError(f"`min_reliability` must be in (0, 1], got {min_reliability:g}")
    for name, count, least in (
        ("permutations", permutations, 1),
        ("resamples", resamples, 2),
        ("splits", splits, 1),
    ):
        if count < least:
            raise HeadtoolError(f"`{name}` must be at least {least}, got {count}")
