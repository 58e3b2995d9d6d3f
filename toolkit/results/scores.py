"""Scores of heads: a frozen result with a tidy table and its provenance."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.heads import Head, Sites, head_name
from headtool.results.outcomes import SHOWN_HEADS, Outcomes
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

__all__ = [
    "HeadScores",
    "head_frame",
    "joined_scores",
    "json_rows",
    "mean_ranks",
    "ranks",
    "score_frame",
    "scores_document",
]


def ranks(
    score: NDArray[np.float64], *, tie_break: NDArray[np.float64] | None = None, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rank scores, 1 for the highest, and mark those that another head has too.

    Parameters
    ----------
    score
        Shape [n]; NaN ranks last.
    tie_break
        Ranks equal scores, higher is more important, shape [n].
    seed
        Draws an order of the heads that ranks what is equal even then, so that a pruning order
        always exists and favours no layer.

    Returns
    -------
    rank : numpy.ndarray
        Shape [n], from 1.
    tied : numpy.ndarray
        Which scores are equal to another, shape [n], whatever broke the tie.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.results.scores import ranks
    >>> ranks(np.array([0.5, 2.0, 0.5]), tie_break=np.array([1.0, 0.0, 3.0]))
    (array([3, 1, 2]), array([ True, False,  True]))
    """
    known = np.where(np.isnan(score), -np.inf, score)
    chance = np.random.default_rng([seed, 11]).random(len(score))
    finer = np.zeros(len(score)) if tie_break is None else np.nan_to_num(tie_break, nan=-np.inf)
    rank = np.empty(len(score), dtype=np.int64)
    rank[np.lexsort((chance, -finer, -known))] = np.arange(1, len(score) + 1)
    _, place, times = np.unique(known, return_inverse=True, return_counts=True)
    return rank, np.asarray(times[place] > 1) & ~np.isnan(score)


def mean_ranks(
    score: NDArray[np.float64], *, tie_break: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Rank scores; heads that only chance ranks share the mean of their ranks.

    Parameters
    ----------
    score, tie_break
        As for `ranks`.

    Returns
    -------
    numpy.ndarray
        Shape [n], from 1.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.results.scores import mean_ranks
    >>> mean_ranks(np.array([0.5, 2.0, 0.5]))
    array([2.5, 1. , 2.5])
    >>> mean_ranks(np.array([0.5, 2.0, 0.5]), tie_break=np.array([1.0, 0.0, 3.0]))
    array([3., 1., 2.])
    """
    known = np.where(np.isnan(score), -np.inf, score)
    finer = np.zeros(len(score)) if tie_break is None else np.nan_to_num(tie_break, nan=-np.inf)
    pairs = np.stack([-known, -finer])
    _, place, times = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    mean: NDArray[np.float64] = (last - (times - 1) / 2)[place.ravel()]
    return mean


def head_frame(sites: Sites | Sequence[Head], **columns: Any) -> pd.DataFrame:
    """Tabulate heads in canonical order: kind, layer, head, then further columns.

    Parameters
    ----------
    sites
        The sites whose heads have rows, or these heads.
    **columns
        Further columns by name, each of shape [heads].
    """
    import pandas as pd

    heads = sites.heads if isinstance(sites, Sites) else sites
    return pd.DataFrame(
        {
            "kind": [head.kind for head in heads],
            "layer": [head.layer for head in heads],
            "head": [head.index for head in heads],
            **columns,
        }
    )


def score_frame(
    method: str,
    sites: Sites | Sequence[Head],
    score: NDArray[np.float64],
    stderr: NDArray[np.float64],
    *,
    tie_break: NDArray[np.float64] | None = None,
    seed: int = 0,
    **columns: NDArray[Any],
) -> pd.DataFrame:
    """Tabulate scores, the table ``scores`` and further columns; rank 1 is the most important head.

    Equal scores are ranked by `tie_break`, else at random by `seed`; see `ranks`.

    Parameters
    ----------
    method
        Name of the method.
    sites
        The sites whose heads are scored, or these heads.
    score
        Shape [heads]; higher means more important.
    stderr
        Standard errors, shape [heads]; NaN where there are none.
    tie_break, seed
        As for `ranks`.
    **columns
        Further columns by name, each of shape [heads].

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.heads import Sites
    >>> from headtool.results.scores import score_frame
    >>> from headtool.heads import AttentionSite
    >>> sites = Sites((AttentionSite("enc-self", 0, 2, 2, 16, "layer.0.output"),))
    >>> score_frame("mine", sites, np.array([0.1, 0.4]), np.array([np.nan, np.nan]))
      method      kind  layer  head  score  stderr  rank   tied  mean_rank
    0   mine  enc-self      0     0    0.1     NaN     2  False        2.0
    1   mine  enc-self      0     1    0.4     NaN     1  False        1.0
    """
    rank, tied = ranks(score, tie_break=tie_break, seed=seed)
    placed = {"rank": rank, "tied": tied, "mean_rank": mean_ranks(score, tie_break=tie_break)}
    frame = head_frame(sites, score=score, stderr=stderr, **placed, **columns)
    frame.insert(0, "method", method)
    return frame


def joined_scores(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put the scores of several methods into one table.

    What only some of the methods tell of a head is missing in the rows of the others.
    """
    import pandas as pd

    joined = pd.concat(frames, ignore_index=True)
    declared = {column.name: column.dtype for column in TABLES["scores"].columns}
    for name in joined.columns:
        is_partial = joined[name].dtype == object and any(
            name in frame.columns and frame[name].dtype == bool for frame in frames
        )
        if is_partial or declared.get(name) == "boolean":
            joined[name] = joined[name].astype("boolean")
    return joined


@dataclass(frozen=True)
class HeadScores:
    """How important one method finds each head.

    Attributes
    ----------
    method
        The method's name.
    frame
        The table ``scores``, a row per head in canonical order, with what else the method tells of
        a head. A higher score means more important; `stderr` is the standard error over examples
        (NaN where the method has none); rank 1 is the most important head; `tied` marks scores
        that another head has too, whose ranks the loss (ablation) or the seed decided.
    provenance
        What is needed to reproduce it: method, options, fingerprints of model and data, seed,
        versions.
    tables
        Further tables of the method by name.
    weights
        Weights that the method trained, by parameter name; empty for methods that train none.
    outcomes
        Per-example outcomes of the masks that the method ran, for tests; None where it ran none.
    texts
        Tables of the translations behind the outcomes, if there are any.
    """

    method: str
    frame: pd.DataFrame
    provenance: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    outcomes: Outcomes | None = None
    texts: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def to_json(self) -> str:
        """One JSON document in the format ``headtool/scores/1``."""
        return json.dumps(scores_document([self]), indent=1, allow_nan=False)

    def __repr__(self) -> str:
        first = self.frame.nsmallest(1, "rank").to_dict("records")
        top = [f", first {head_name(row)}" for row in first]
        return f"<HeadScores by {self.method}: {len(self.frame)} heads{''.join(top)}>"

    def _repr_html_(self) -> str:
        """Show the most important heads, in a notebook."""
        from headtool.results.display import html_result

        top = self.frame.nsmallest(SHOWN_HEADS, "rank")
        rows = [(head_name(row), row["score"], row["stderr"]) for row in top.to_dict("records")]
        rest = len(self.frame) - len(rows)
        lines = [f"and {rest} more: .frame has all of them"] if rest else []
        title = f"{self.method}: the most important of {len(self.frame)} heads"
        return html_result(title, ("head", "score", "standard error"), rows, lines=lines)


def scores_document(scores: Sequence[HeadScores]) -> dict[str, Any]:
    """Several methods' scores for JSON: schema, provenance by method, rows under ``scores``."""
    return {
        "schema": "headtool/scores/1",
        "provenance": {result.method: dict(result.provenance) for result in scores},
        "scores": [row for result in scores for row in json_rows(result.frame)],
    }


def json_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as JSON can hold them.

    JSON has numbers only, so what is missing or not finite becomes null. All digits are kept.
    """
    return [
        {str(name): _json_value(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _json_value(value: Any) -> Any:
    import pandas as pd

    if isinstance(value, np.generic):
        value = value.item()
    is_nothing = value is pd.NA or (isinstance(value, float) and not math.isfinite(value))
    return None if is_nothing else value
