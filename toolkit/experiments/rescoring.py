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

__all__ = ["iterative_order"]

Rescore = Callable[[int], HeadScores]
"""Scores the heads of a family while some heads are closed; takes how many those are."""


def iterative_order(family: Family, model: ModelAdapter, rescore: Rescore) -> NDArray[np.int64]:
    """Order heads step by step, each step by the scores of the model without those that left.

    Heads that are left after the last step follow by the scores of that step.

    Parameters
    ----------
    family
        The heads and the points of their curve, which are the steps.
    model
        The model; left as it was.
    rescore
        Scores it, once for each step.

    Returns
    -------
    ndarray
        Numbers of heads, the first to leave first; without heads that always stay.

    References
    ----------
    Michel, Levy & Neubig 2019, sec. 4, prune by one scoring; scoring again is what Molchanov et al.
    2017, "Pruning Convolutional Neural Networks for Resource Efficient Inference", do.
    """
    heads = family.sites.heads
    closed = np.zeros(len(heads), dtype=np.bool_)
    order = np.empty(0, dtype=np.int64)
    for now, then in itertools.pairwise(family.budgets):
        gone = [head for head, shut in zip(heads, closed, strict=True) if shut]
        with closing(model.handles, HeadMask.without(model.sites, gone), spec=model.spec):
            scores = rescore(now).frame
        left = family.order(scores, closed)
        order = np.concatenate([order[:now], left])
        closed[left[: then - now]] = True
    return order
