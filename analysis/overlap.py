"""Do methods keep the same heads? Overlap of kept sets, consensus and dispute.

That two methods keep many heads in common says little by itself: half of all heads drawn twice at
random have a Jaccard index of a third. So the overlap is held against two draws: as many heads as
each method keeps from all heads (hypergeometric), and as many in each layer as it keeps there (a
sum of independent hypergeometric numbers). Both distributions are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from headtool.heads import Head
from headtool.metrics.base import Array
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "consensus",
    "jaccard",
    "kept_frame",
    "overlap",
    "shared_distribution",
]


Kept = Mapping[str, Mapping[int, NDArray[np.bool_]]]
"""By method and budget (heads removed): whether each of M heads stays, shape [M]."""


def overlap(kept: Kept, layers: NDArray[np.int64]) -> pd.DataFrame:
    """Compare the heads that every pair of methods keeps, budget by budget.

    Parameters
    ----------
    kept
        What each method keeps at the same budgets. Budgets that keep all heads or none, where
        nothing could differ, have no row.
    layers
        A number per head, equal for heads of one attention site, shape [M].

    Returns
    -------
    pandas.DataFrame
        The table ``overlap``, a row per budget and pair.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.overlap import overlap
    >>> a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    >>> frame = overlap({"a": {2: a}, "b": {2: b}}, np.array([0, 0, 1, 1]))
    >>> frame[["shared", "jaccard", "p_hypergeometric", "p_within_layers"]].round(3)
       shared  jaccard  p_hypergeometric  p_within_layers
    0       1    0.333             0.833              1.0
    """
    anywhere = np.zeros_like(layers)
    rows = []
    for budget in _budgets(kept):
        for x, y in itertools.combinations(kept, 2):
            first, second = kept[x][budget], kept[y][budget]
            if first.all() or second.all() or not (first.any() and second.any()):
                continue
            shared = int((first & second).sum())
            row = {
                "budget": budget,
                "share": budget / len(layers),
                "method_x": x,
                "method_y": y,
                "kept": int(first.sum()),
                "shared": shared,
                "jaccard": jaccard(first, second),
            }
            for groups, p, expected in (
                (anywhere, "p_hypergeometric", "expected"),
                (layers, "p_within_layers", "expected_within_layers"),
            ):
                chance = shared_distribution(first, second, groups)
                count = np.arange(len(chance))
                row[p] = float(min(1.0, chance[shared:].sum()))
                row[expected] = float(chance @ (count / (first.sum() + second.sum() - count)))
            rows.append(row)
    return TABLES["overlap"].frame(rows)


def jaccard(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return the share of heads in both sets among those in either; NaN for two empty sets.

    Parameters
    ----------
    first, second
        Whether each of M heads is in the set, shape [M].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.overlap import jaccard
    >>> jaccard(np.array([True, True, False]), np.array([False, True, True])).__round__(3)
    0.333
    """
    either = int((first | second).sum())
    return int((first & second).sum()) / either if either else float("nan")


def shared_distribution(
    first: NDArray[np.bool_], second: NDArray[np.bool_], groups: NDArray[np.int64]
) -> Array:
    """Return the distribution of the number of shared heads if both sets are drawn within groups.

    As many heads are drawn from each group as the sets have there; groups are independent, so that
    their hypergeometric distributions are convolved.

    Parameters
    ----------
    first, second
        Whether each of M heads is in the set, shape [M].
    groups
        A number per head, equal for heads of one group, shape [M].

    Returns
    -------
    ndarray
        Probabilities of 0, 1, ... shared heads.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.overlap import shared_distribution
    >>> half = np.array([True, True, False, False])
    >>> shared_distribution(half, half, np.zeros(4, int)).round(3)
    array([0.167, 0.667, 0.167])
    """
    result = np.ones(1)
    for group in np.unique(groups):
        inside = groups == group
        total, a, b = (int(v.sum()) for v in (inside, first[inside], second[inside]))
        result = np.convolve(result, hypergeom.pmf(np.arange(min(a, b) + 1), total, a, b))
    return result


def kept_frame(kept: Kept, heads: Sequence[Head]) -> pd.DataFrame:
    """Tabulate which heads each method keeps at each budget, the table ``kept``.

    Parameters
    ----------
    kept
        What each method keeps, by budget.
    heads
        The M heads, in the same order.
    """
    rows = [
        (method, budget, budget / len(heads), head.kind, head.layer, head.index, bool(stays))
        for method, by_budget in kept.items()
        for budget, keeps in by_budget.items()
        for head, stays in zip(heads, keeps, strict=True)
    ]
    return TABLES["kept"].frame(rows)


def consensus(kept: Kept, heads: Sequence[Head]) -> pd.DataFrame:
    """Count the methods that keep each head at each budget.

    Parameters
    ----------
    kept
        What each method keeps at the same budgets.
    heads
        The M heads, in the same order.

    Returns
    -------
    pandas.DataFrame
        The table ``consensus``, a row per budget and head; none for fewer than two methods.
    """
    rows = []
    for budget in _budgets(kept) if len(kept) > 1 else []:
        votes = np.sum([by_budget[budget] for by_budget in kept.values()], axis=0)
        for head, count in zip(heads, votes.tolist(), strict=True):
            status = {0: "consensus-removed", len(kept): "consensus-kept"}.get(count, "disputed")
            place = (head.kind, head.layer, head.index)
            rows.append((budget, budget / len(heads), *place, count, len(kept), status))
    return TABLES["consensus"].frame(rows)


def _budgets(kept: Kept) -> list[int]:
    return list(next(iter(kept.values()), {}))
