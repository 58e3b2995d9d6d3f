"""What heads do: from counts to a table of roles, and which roles pruning leaves.

Shares and intervals. A share is hits over queries. Sentences are the sampling units: the variance
of the share is that of a ratio of sums over sentences, ``G/(G-1) * sum (h_i - share n_i)^2 / n^2``
for G sentences with a query. The interval is Wilson's with as many effective queries as give that
variance, at most n, and Student's quantile with G - 1 degrees of freedom (Korn & Graubard 1998;
they use the exact interval in this way). Where all queries or none are hits, the variance says
nothing, and a sentence counts as one query: ``(sum n_i)^2 / sum n_i^2``. An interval is for one
head; it is not corrected for looking at many.

Tests. p is two-sided for "on average, the head hits as often as the baseline": the sum over
sentences of hits minus the baseline's hits, over the root of the sum of their squares, held against
the normal distribution. It is the sign-flip test over sentences without drawing signs (McNemar's,
where a sentence has one query), and with few sentences it cannot be small: the statistic is at most
the root of their number. p-values are corrected within each role over heads and variants: all
offsets of a positional head, of which the table shows the most frequent, and all relations with
their directions.

Labels. A head has the label ``yes`` if its share reaches the threshold and is above the baseline's
with a corrected p of at most the level; ``unproven`` if only p is too large; else ``no``. Roles
without a query (no token is rare, say) are ``untested``. The threshold is held against the share
itself, as in the papers; `low` says whether it would survive other sentences.

References
----------
Voita, Talbot, Moiseev, Sennrich & Titov 2019, "Analyzing Multi-Head Self-Attention", sec. 5.
Korn & Graubard 1998, "Confidence intervals for proportions with small expected number of positive
counts estimated from survey data", Survey Methodology 24.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import t as student

from headtool.analysis.levels import check_level
from headtool.analysis.multiplicity import adjust, check_correction
from headtool.analysis.overlap import shared_distribution
from headtool.errors import HeadtoolError, unknown
from headtool.metrics.base import Array
from headtool.results.role_counts import RoleCounts
from headtool.results.scores import head_frame
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "LABELS",
    "ROLES",
    "THRESHOLDS",
    "check_thresholds",
    "cluster_wilson",
    "role_table",
    "surviving_roles",
]

THRESHOLDS: Mapping[str, float] = {
    "positional": 0.9,
    "syntactic": 0.1,
    "rare-token": 0.66,
    "separator": 0.5,
    "punctuation": 0.5,
    "first-token": 0.5,
    "previous-token": 0.5,
    "induction": 0.5,
}
"""Share of queries from which a head has a role; for syntactic heads, the gain over the baseline.

The first three are those of Voita et al. Their "at least 10% higher" is taken as ten percentage
points, the stricter reading. The others are ours: more often than not.
"""

ROLES = tuple(THRESHOLDS)
LABELS = ("yes", "unproven", "no", "untested")


def check_thresholds(thresholds: Mapping[str, float]) -> dict[str, float]:
    """Complete the thresholds of some roles by the others' defaults.

    Raises
    ------
    HeadtoolError
        If a role is unknown, or a threshold is not above 0 and at most 1.
    """
    for role, value in thresholds.items():
        if role not in THRESHOLDS:
            raise unknown("role", role, ROLES)
        if not 0 < value <= 1:
            raise HeadtoolError(f"the threshold of {role} must be in (0, 1], got {value:g}")
    return {**THRESHOLDS, **thresholds}


def role_table(
    counts: Sequence[RoleCounts],
    *,
    thresholds: Mapping[str, float] | None = None,
    least: int = 20,
    correction: str = "holm",
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Turn counts into shares with intervals, p-values and labels.

    Parameters
    ----------
    counts
        Counts of some roles; of one role there may be several, for different kinds of heads.
    thresholds
        Thresholds that differ from `THRESHOLDS`.
    least
        Relations with fewer queries in a direction are left out.
    correction
        ``holm``, ``bh``, ``by`` or ``none``, within each role.
    alpha
        Level of the corrected p-values; intervals have the level ``1 - alpha``.

    Returns
    -------
    pandas.DataFrame
        A row per head and role (syntactic: and relation with direction) with ``roles``.
        ``baseline`` is the baseline's share on the same queries, ``guess`` what it guesses: any
        key, or the word at a fixed offset. ``n`` counts queries, ``sentences`` those with one.

    Raises
    ------
    HeadtoolError
        If a threshold, the correction or the level cannot be.
    """
    import pandas as pd

    limits = check_thresholds(thresholds or {})
    chosen = check_correction(correction)
    if chosen == "westfall-young":
        raise HeadtoolError("roles have no resamples for westfall-young; use holm, bh, by or none")
    check_level(alpha)
    frames = []
    for role in ROLES:
        parts = [_evidence(one, least, alpha) for one in counts if one.role == role]
        if not parts or not any(len(part) for part in parts):
            continue
        frame = pd.concat([part for part in parts if len(part)], ignore_index=True)
        frame["p_adjusted"] = adjust(frame["p"].to_numpy(np.float64), chosen)
        frame["threshold"] = limits[role] + (frame["baseline"] if role == "syntactic" else 0.0)
        frame = frame[frame.pop("shown")]
        # Shares are ratios of whole numbers; 9 of 10 must reach 0.9 also after rounding.
        reached = frame["share"] >= frame["threshold"] - 1e-12
        reached &= frame["share"] > frame["baseline"]
        proven = np.where(frame["p_adjusted"] <= alpha, "yes", "unproven")
        label = np.where(reached, proven, "no")
        frame["label"] = np.where(frame["n"] > 0, label, "untested")
        frames.append(frame)
    return TABLES["roles"].joined(frames)


def _evidence(counts: RoleCounts, least: int, alpha: float) -> pd.DataFrame:
    """Evidence of every head and variant; ``shown`` says which of them the table is to have."""
    used = np.ones(len(counts.details), dtype=np.bool_)
    if counts.role == "syntactic":
        used = counts.queries >= least
    heads = counts.sites.n_heads
    shown = np.ones((heads, len(used)), dtype=np.bool_)
    if counts.role == "positional":
        shown = np.arange(len(used)) == counts.hits.argmax(axis=1)[:, None]
    queries = np.broadcast_to(counts.queries, shown.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts.hits / queries
        baseline = np.broadcast_to(counts.expected, shown.shape) / queries
        excess = counts.hits - counts.expected
        statistic = excess / np.sqrt(counts.excess_squared)
    # A head that agrees with the baseline on every sentence shows no difference.
    statistic = np.where((counts.excess_squared == 0) & (queries > 0), 0.0, statistic)
    low, high = cluster_wilson(counts, level=1 - alpha)
    p = np.minimum(1.0, 2 * ndtr(-np.abs(statistic)))
    places = np.flatnonzero(used)
    columns = {
        "share": share,
        "baseline": baseline,
        "low": low,
        "high": high,
        "n": queries.astype(np.int64),
        "sentences": np.broadcast_to(counts.sentences.astype(np.int64), shown.shape),
        "p": p,
        "shown": shown,
    }
    one = head_frame(counts.sites)
    frame = one.loc[np.tile(np.arange(len(one)), len(places))].reset_index(drop=True)
    frame["role"] = counts.role
    for name, texts in (("detail", counts.details), ("guess", counts.guesses)):
        frame[name] = np.repeat([texts[place] for place in places], len(one))
    for name, values in columns.items():
        frame[name] = values[:, places].T.ravel()
    return frame


def cluster_wilson(counts: RoleCounts, *, level: float = 0.95) -> tuple[Array, Array]:
    """Return Wilson's interval of every share, with sentences as sampling units; each end [M, D].

    NaN where there is no query, or one sentence only. See the module for the formula.

    Parameters
    ----------
    counts
        Counts of M heads and D role variants.
    level
        Nominal coverage.
    """
    n, sentences = counts.queries, counts.sentences
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts.hits / n
        squares = (
            counts.hits_squared
            - 2 * share * counts.hits_queries
            + share**2 * counts.queries_squared
        )
        variance = sentences / (sentences - 1) * np.maximum(squares, 0.0) / n**2
        effective = np.minimum(share * (1 - share) / variance, n)
        constant = (counts.hits == 0) | (counts.hits == n)
        effective = np.where(constant, n**2 / counts.queries_squared, effective)
        z = student.ppf((1 + level) / 2, np.where(sentences > 1, sentences - 1, np.nan))
        centre = share + z**2 / (2 * effective)
        half = z * np.sqrt(share * (1 - share) / effective + z**2 / (4 * effective**2))
        low, high = (
            (centre - half) / (1 + z**2 / effective),
            (centre + half) / (1 + z**2 / effective),
        )
    known = np.isfinite(low) & np.isfinite(high)
    low = np.where(known & (counts.hits == 0), 0.0, np.where(known, low, math.nan))
    high = np.where(known & (counts.hits == n), 1.0, np.where(known, high, math.nan))
    return low, high


def surviving_roles(roles: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
    """Count which roles survive when methods remove heads (Voita et al. 2019, figure 8).

    Parameters
    ----------
    roles
        What `role_table` returned.
    kept
        Which heads methods keep at each budget: ``kept``.

    Returns
    -------
    pandas.DataFrame
        The table ``role_survival``, a row per method, budget and role. A head counts for every role
        whose label is ``yes``; ``none`` are the heads without any. ``heads`` have the role,
        ``kept`` of them stay. ``expected`` is their mean number if the heads that stay were drawn
        from all heads with a row in `roles`, ``expected_within_layers`` if as many were drawn in
        each layer as stay there; the p-values are one-sided (at least as many stay) and exact.
        ``p_adjusted`` is Holm's of the latter over all rows. Budgets at which none or all of these
        heads stay have no p-values (NaN).

    Raises
    ------
    HeadtoolError
        If the two tables are about different heads.
    """
    import pandas as pd

    place = ["kind", "layer", "head"]
    heads = roles[place].drop_duplicates().sort_values(place, ignore_index=True)
    known = kept.merge(heads, on=place)
    if known.empty:
        raise HeadtoolError("no head with a role was up for removal; compare the same kinds")
    heads = known[place].drop_duplicates().sort_values(place, ignore_index=True)
    layers = np.asarray(heads.groupby(place[:2], sort=False).ngroup(), dtype=np.int64)
    anywhere = np.zeros(len(layers), dtype=np.int64)
    labelled = roles[roles["label"] == "yes"]
    having: dict[str, NDArray[np.bool_]] = {}
    for role in ROLES:
        found = labelled.loc[labelled["role"] == role, place].drop_duplicates()
        if len(found):
            having[role] = _in(heads, found)
    having["none"] = ~_in(heads, labelled[place])
    rows = []
    for (method, budget, share), part in known.groupby(["method", "budget", "share"], sort=False):
        stays = part.sort_values(place)["kept"].to_numpy(np.bool_)
        for role, has in having.items():
            row = {
                "method": method,
                "budget": budget,
                "share": share,
                "role": role,
                "heads": int(has.sum()),
                "kept": int((has & stays).sum()),
            }
            for groups, expected, p in (
                (anywhere, "expected", "p_hypergeometric"),
                (layers, "expected_within_layers", "p_within_layers"),
            ):
                chance = shared_distribution(has, stays, groups)
                row[expected] = float(chance @ np.arange(len(chance)))
                differs = stays.any() and not stays.all() and has.any()
                row[p] = min(1.0, float(chance[row["kept"] :].sum())) if differs else math.nan
            rows.append(row)
    frame = pd.DataFrame(rows)
    frame["p_adjusted"] = adjust(frame["p_within_layers"].to_numpy(np.float64), "holm")
    return frame[list(TABLES["role_survival"].names)]


def _in(heads: pd.DataFrame, some: pd.DataFrame) -> NDArray[np.bool_]:
    wanted = set(some.itertuples(index=False, name=None))
    return np.array([row in wanted for row in heads.itertuples(index=False, name=None)])
