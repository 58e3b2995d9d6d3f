"""Heads that compete for removal, and the order in which they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.heads import Sites
from headtool.masks.curves import budgets_of, closed_in_order, layers_of, spare_last

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Family", "cut_ties", "families", "one_shot_closed"]


@dataclass(frozen=True)
class Family:
    """Heads that compete for removal, and how many are gone at each point of their curves.

    Attributes
    ----------
    kind
        ``all``, or the attention kind that they are of.
    sites
        Their sites.
    budgets
        Heads removed at each point.
    keep_one
        Whether the last head of a layer always stays.
    """

    kind: str
    sites: Sites
    budgets: tuple[int, ...]
    keep_one: bool

    def order(
        self, scores: pd.DataFrame, closed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Order in which the open heads leave, lowest score first.

        Parameters
        ----------
        scores
            Scores of these heads, and perhaps of others.
        closed
            Which are gone already, shape [n].
        """
        here = scores["kind"].isin(self.sites.kinds).to_numpy()
        order = np.argsort(-scores.loc[here, "rank"].to_numpy())
        if closed is not None:
            order = order[~closed[order]]
        return spare_last(order, layers_of(self.sites)) if self.keep_one else order


def families(sites: Sites, steps: str, *, keep_one: bool, per_kind: bool) -> tuple[Family, ...]:
    """All heads together, and where asked those of each kind by themselves.

    Parameters
    ----------
    sites
        The sites of the heads.
    steps
        How many heads are gone at each point; see `headtool.masks.curves.budgets_of`.
    keep_one
        Whether the last head of a layer always stays.
    per_kind
        Whether each kind is asked for by itself as well.

    Raises
    ------
    HeadtoolError
        If the steps do not fit one of them.
    """
    groups = [("all", sites)]
    if per_kind:
        groups += [(kind, sites.restrict([kind])) for kind in sites.kinds]
    return tuple(
        Family(
            kind,
            group,
            budgets_of(steps, group.n_heads, most=group.n_heads - len(group) if keep_one else None),
            keep_one,
        )
        for kind, group in groups
    )


def one_shot_closed(family: Family, scores: pd.DataFrame) -> NDArray[np.bool_]:
    """Close heads in the order of one scoring.

    Parameters
    ----------
    family
        The heads, and how many are gone at each point.
    scores
        Scores of these heads, and perhaps of others.

    Returns
    -------
    ndarray
        Which heads are closed, [B, n].
    """
    return closed_in_order(family.order(scores), family.budgets, family.sites.n_heads)


def cut_ties(scores: pd.DataFrame, closed: NDArray[np.bool_]) -> dict[int, int]:
    """Find the points of a curve at which some of several heads with one score go and some stay.

    Parameters
    ----------
    scores
        Scores of the heads, in the order of the columns of `closed`.
    closed
        Which heads are closed at each point, [B, n].

    Returns
    -------
    dict
        Heads closed at the point to how many heads have a score on both sides of the cut.
    """
    score = scores["score"].to_numpy(np.float64)
    found = {}
    for row in closed:
        shared = np.intersect1d(score[row], score[~row])
        if len(shared):
            found[int(row.sum())] = int(np.isin(score, shared).sum())
    return found
