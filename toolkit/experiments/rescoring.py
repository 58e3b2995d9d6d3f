"""In which order a method removes heads: from one scoring, or scoring again after every step."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headtool.attention.closing import closing
from headtool.heads import HeadMask
from headtool.masks.order import Family
from headtool.models.base import ModelAdapter
from headtool.reports.results import HeadScores
from headtool.results.scores import score_frame

__all__ = ["STEPS", "iterative_order", "removal_scores"]

STEPS = "10%"
"""Heads that leave in a step where nothing else is asked for."""

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


def removal_scores(
    model: ModelAdapter,
    family: Family,
    first: HeadScores,
    rescore: Rescore,
    *,
    steps: str,
    seed: int = 0,
) -> HeadScores:
    """Score heads by their place in the order in which they leave: 0 leaves first.

    Parameters
    ----------
    model
        The model; left as it was.
    family
        The heads, all of which may leave, and how many are gone after every step.
    first
        Scores of the whole model, which the column ``first_score`` keeps.
    rescore
        Scores the heads while some are closed; takes how many those are. Not called for none.
    steps
        What the steps were asked for as, for provenance.
    seed
        Seed of the ranks of heads with equal scores, of which there are none.
    """
    order = iterative_order(family, model, lambda gone: rescore(gone) if gone else first)
    place = np.empty(len(order), dtype=np.float64)
    place[order] = np.arange(len(order))
    frame = score_frame(
        first.method,
        family.sites,
        place,
        np.full(len(order), np.nan),
        seed=seed,
        first_score=first.frame["score"].to_numpy(np.float64),
    )
    return dataclasses.replace(
        first, frame=frame, provenance={**first.provenance, "iterative": steps}
    )
