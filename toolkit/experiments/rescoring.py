"""In which order a method removes heads: from one scoring, or scoring again after every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headtool.attention.closing import closing
from headtool.heads import HeadMask
from headtool.masks.order import Family
from headtool.models.base import ModelAdapter
from headtool.results.scores import HeadScores

__all__ = ["iterative_closed"]

Rescore = Callable[[int], HeadScores]
"""Scores the heads of a family while some heads are closed; takes how many those are."""


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
        with closing(model.handles, HeadMask.without(model.sites, gone), spec=model.spec):
            scores = rescore(now).frame
        closed[step + 1] = closed[step]
        closed[step + 1, family.order(scores, closed[step])[: then - now]] = True
    return closed
