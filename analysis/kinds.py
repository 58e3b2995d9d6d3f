"""Outcomes of some kinds of attention, and what single heads are worth kind by kind."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headtool.analysis.equivalence import VERDICTS
from headtool.analysis.labels import heads_of
from headtool.errors import HeadtoolError
from headtool.heads import Kind
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["of_kinds", "summarise_kinds"]


def of_kinds(outcomes: Outcomes, kinds: Collection[Kind] | None) -> Outcomes:
    """Keep the masks about heads of some kinds.

    Parameters
    ----------
    outcomes
        Outcomes of masks about single heads.
    kinds
        Attention kinds to keep; None for all.

    Raises
    ------
    HeadtoolError
        If no mask is about a head of one of the kinds.
    """
    if kinds is None:
        return outcomes
    of_masks = [head.kind for head in heads_of(outcomes.masks)]
    for kind in kinds:
        if kind not in of_masks:
            there = ", ".join(dict.fromkeys(of_masks))
            raise HeadtoolError(f"no {kind} head was ablated (only {there}); leave {kind} out")
    return outcomes.take([i for i, kind in enumerate(of_masks) if kind in kinds])


def summarise_kinds(frame: pd.DataFrame, *, alpha: float) -> pd.DataFrame:
    """Summarise tests of single heads by kind of attention.

    Parameters
    ----------
    frame
        `headtool.analysis.assessment.HeadTests.frame`.
    alpha
        The level that the tests were held to.

    Returns
    -------
    DataFrame
        The table ``kinds``, a row per kind: how many heads, mean, standard deviation (NaN for one
        head), minimum and maximum of their deltas in the metric's unit, how many have a corrected
        p-value of at most `alpha`, and how many got each verdict.
    """
    rows = [
        {
            "kind": kind,
            "heads": len(part),
            "mean": part["delta"].mean(),
            "sd": part["delta"].std(),
            "lowest": part["delta"].min(),
            "highest": part["delta"].max(),
            "significant": int((part["p_adjusted"] <= alpha).sum()),
            **{verdict: int((part["verdict"] == verdict).sum()) for verdict in VERDICTS},
        }
        for kind, part in frame.groupby("kind", sort=False)
    ]
    return TABLES["kinds"].frame(rows)
