"""Repeated measurements of the same scores, and how reliable they make them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headtool.analysis.importance import Importance
from headtool.analysis.rank_correlation import spearman
from headtool.analysis.reliability import split_half_reliability
from headtool.errors import HeadtoolError
from headtool.exchange.fitting import Fitted
from headtool.results.runs import Run
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

_SPLITS = 200

__all__ = ["reliabilities", "repeat_frame", "repeats_of", "saved_repeats"]


def reliabilities(name: str, fitted: Fitted, seed: int) -> tuple[float, float]:
    """Split-half reliabilities of the scores and of their ranks; NaN without repeats.

    Parameters
    ----------
    name, fitted, seed
        What the scores are called, the scores with their repeats, and the seed of the splits.
    """
    if fitted.repeats is None:
        return math.nan, math.nan
    data = Importance.from_contributions(name, fitted.heads, fitted.repeats)
    rng = np.random.default_rng([seed, 17])
    linear = split_half_reliability(data, splits=_SPLITS, rng=rng)
    return linear, split_half_reliability(data, splits=_SPLITS, rng=rng, coefficient=spearman)


def repeat_frame(name: str, fitted: Fitted) -> pd.DataFrame:
    """Make the table ``score_repeats``.

    Parameters
    ----------
    name, fitted
        What the scores are called, and the scores with their repeats.
    """
    import pandas as pd

    assert fitted.repeats is not None
    count = len(fitted.repeats)
    heads = fitted.heads
    return TABLES["score_repeats"].checked(
        pd.DataFrame(
            {
                "method": name,
                "kind": np.repeat([head.kind for head in heads], count),
                "layer": np.repeat([head.layer for head in heads], count),
                "head": np.repeat([head.index for head in heads], count),
                "repeat": np.tile(np.arange(count), len(heads)),
                "score": fitted.repeats.T.ravel(),
            }
        ),
        "the repeats",
    )


def saved_repeats(scores: object, frame: pd.DataFrame) -> NDArray[np.float64] | None:
    """Return the repeats that a run holds, [R, heads]; None without any.

    Parameters
    ----------
    scores, frame
        Perhaps a run, and kind, layer and head of every score in the order wanted.
    """
    if not isinstance(scores, Run) or "score_repeats" not in scores.names:
        return None
    return repeats_of(scores, frame)


def repeats_of(run: Run, frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return the repeats behind scores, shape [R, heads].

    Parameters
    ----------
    run
        A run with the table ``score_repeats``.
    frame
        Kind, layer and head of every score.

    Raises
    ------
    HeadtoolError
        If some heads have no repeats, or not all the same number.
    """
    table = run.table("score_repeats").pivot(
        index="repeat", columns=["kind", "layer", "head"], values="score"
    )
    keys = list(zip(frame["kind"], frame["layer"], frame["head"], strict=True))
    if not set(keys) <= set(table.columns) or table.isna().to_numpy().any():
        raise HeadtoolError(f"{run.folder} is damaged: heads lack repeats; import the scores again")
    return table[keys].to_numpy(np.float64)
