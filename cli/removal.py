"""In which order a method removes heads: from one scoring, or scoring again after every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.curves import budgets_of, closed_in_order, layers_of, spare_last
from headtool.heads import HeadMask, Sites
from headtool.models.base import ModelAdapter
from headtool.models.closing import closing
from headtool.results import HeadScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Family", "families", "iterative_closed", "one_shot_closed"]

Rescore = Callable[[int], HeadScores]
"""Scores the heads of a family while some heads are closed; takes how many those are."""


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


def families(sites: Sites, steps: str, *, keep_one: bool, per_kind: bool) -> list[Family]:
    """All heads together, and where asked those of each kind by themselves.

    Raises
    ------
    HeadtoolError
        If the steps do not fit one of them.
    """
    groups = [("all", sites)]
    if per_kind:
        groups += [(kind, sites.restrict([kind])) for kind in sites.kinds]
    return [
        Family(
            kind,
            group,
            budgets_of(steps, group.n_heads, most=group.n_heads - len(group) if keep_one else None),
            keep_one,
        )
        for kind, group in groups
    ]


def one_shot_closed(family: Family, scores: pd.DataFrame) -> NDArray[np.bool_]:
    """Close heads in the order of one scoring; [B, n]."""
    return closed_in_order(family.order(scores), family.budgets, family.sites.n_heads)


def iterative_closed(family: Family, model: ModelAdapter, rescore: Rescore) -> NDArray[np.bool_]:
    """Close heads step by step, each step by the scores of the model without those closed so far.

    Parameters
    ----------
    family
        The heads and the points of their curve, which are the steps.
    model
        The model; left as it was.
    rescore
        Scores it. Not called for a last step that removes whatever may be removed.

    Returns
    -------
    ndarray
        Which heads are closed, [B, n].

    References
    ----------
    Michel, Levy & Neubig 2019, sec. 4, prune by one scoring; scoring again is what Molchanov et al.
    2017, "Pruning Convolutional Neural Networks for Resource Efficient Inference", do.
    """
    heads = family.sites.heads
    closed = np.zeros((len(family.budgets), len(heads)), dtype=np.bool_)
    for step, (now, then) in enumerate(itertools.pairwise(family.budgets)):
        gone = [head for head, shut in zip(heads, closed[step], strict=True) if shut]
        with closing(model, HeadMask.without(model.sites, gone)):
            scores = rescore(now).frame
        closed[step + 1] = closed[step]
        closed[step + 1, family.order(scores, closed[step])[: then - now]] = True
    return closed
