"""Heads that compete for removal, and the order in which they leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.heads import Sites
from headtool.masks.curves import budgets_of, closed_in_order, layers_of, spare_last

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Family", "cut_ties", "families", "one_shot_closed", "tied_closed"]


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
        return self.spared(order)

    def spared(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out of an order the last head of each layer, if it always stays.

        Parameters
        ----------
        order
            Numbers of heads, the first to leave first.
        """
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


def tied_closed(
    family: Family, scores: Mapping[str, pd.DataFrame], keys: NDArray[np.float64]
) -> dict[str, NDArray[np.bool_]]:
    """Close heads in several orders, which differ where nothing but chance ranks the heads.

    Where all heads have one score, these are the orders of the keys: those of random masks.

    Parameters
    ----------
    family
        The heads, and how many are gone at each point.
    scores
        Per method, scores of these heads, and perhaps of others.
    keys
        Random numbers, a row for each order, shape [K, n]; the head with the lowest leaves first.

    Returns
    -------
    dict
        Which heads are closed, [K, B, n]; without methods whose scores decide every point.
    """
    found = {}
    for name, frame in scores.items():
        here = frame["kind"].isin(family.sites.kinds).to_numpy()
        level = -frame.loc[here, "mean_rank"].to_numpy(np.float64)
        orders = [family.spared(np.lexsort((key, level))) for key in keys]
        closed = [closed_in_order(order, family.budgets, len(level)) for order in orders]
        if any((each != closed[0]).any() for each in closed):
            found[name] = np.array(closed)
    return found


def cut_ties(scores: pd.Series[float], closed: NDArray[np.bool_]) -> dict[int, int]:
    """Find the points of a curve at which some of several heads with one score go and some stay.

    Parameters
    ----------
    scores
        Scores of the heads, or their mean ranks, in the order of the columns of `closed`.
    closed
        Which heads are closed at each point, [B, n].

    Returns
    -------
    dict
        Heads closed at the point to how many heads have a score on both sides of the cut.
    """
    score = scores.to_numpy(np.float64)
    found = {}
    for row in closed:
        shared = np.intersect1d(score[row], score[~row])
        if len(shared):
            found[int(row.sum())] = int(np.isin(score, shared).sum())
    return found
