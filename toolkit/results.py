"""What comes out: scores of heads, and outcomes of masked models; frozen, tidy and documented."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headtool.heads import Head, HeadMask, Sites

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

__all__ = [
    "SCORE_COLUMNS",
    "HeadScores",
    "Outcomes",
    "head_frame",
    "json_rows",
    "score_frame",
    "scores_document",
]

_SHOWN = 8  # heads in a notebook
SCORE_COLUMNS = ("method", "kind", "layer", "head", "score", "stderr", "rank")


def head_frame(sites: Sites, **columns: Any) -> pd.DataFrame:
    """Tidy frame with a row per head in canonical order: kind, layer, head and `columns`."""
    import pandas as pd

    heads = sites.heads
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
    sites: Sites,
    score: NDArray[np.float64],
    stderr: NDArray[np.float64],
    **columns: NDArray[Any],
) -> pd.DataFrame:
    """Frame of `SCORE_COLUMNS` and further `columns`; rank 1 is the most important head.

    Equal scores are ranked in canonical order, so that a pruning order always exists.
    """
    rank = np.empty(len(score), dtype=np.int64)
    rank[np.argsort(-score, kind="stable")] = np.arange(1, len(score) + 1)
    frame = head_frame(sites, score=score, stderr=stderr, rank=rank, **columns)
    frame.insert(0, "method", method)
    return frame


@dataclass(frozen=True)
class HeadScores:
    """How important one method finds each head.

    Attributes
    ----------
    method
        The method's name.
    frame
        A row per head in canonical order: `SCORE_COLUMNS`, then what else the method tells of a
        head. A higher score means more important; `stderr` is the standard error over examples
        (NaN where the method has none); rank 1 is the most important head.
    provenance
        What reproduces it: method, options, model and data fingerprints, seed, versions.
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

    def pruning_order(self) -> pd.DataFrame:
        """Heads from the first to be pruned to the last: ascending scores over all sites."""
        return self.frame.sort_values("rank", ascending=False)[["kind", "layer", "head", "score"]]

    def to_json(self) -> str:
        """One JSON document in the format ``headtool/scores/1``."""
        return json.dumps(scores_document([self]), indent=1, allow_nan=False)

    def __repr__(self) -> str:
        first = self.frame.nsmallest(1, "rank").to_dict("records")
        top = [f", first {row['kind']}.{row['layer']}.{row['head']}" for row in first]
        return f"<HeadScores by {self.method}: {len(self.frame)} heads{''.join(top)}>"

    def _repr_html_(self) -> str:
        """Show the most important heads, in a notebook."""
        from headtool.display import html_result

        top = self.frame.nsmallest(_SHOWN, "rank")
        rows = [
            (f"{row['kind']}.{row['layer']}.{row['head']}", row["score"], row["stderr"])
            for row in top.to_dict("records")
        ]
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

    JSON has numbers only, so what is not computed or not finite becomes null. All digits are kept.
    """
    return [
        {str(name): _json_value(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _json_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Outcomes:
    """Per-example statistics of the whole model and of masked ones; every test starts here.

    Attributes
    ----------
    masks
        The masks, one row of `masked` each.
    whole
        Statistics of the unmasked model by name, each of shape [N]. Which names there are depends
        on the task; see `headtool.metrics`.
    masked
        The same of every mask, each of shape [masks, N].
    """

    masks: tuple[HeadMask, ...]
    whole: Mapping[str, NDArray[np.float64]]
    masked: Mapping[str, NDArray[np.float64]]

    def __repr__(self) -> str:
        return f"<Outcomes: {self._title}; per example: {', '.join(self.whole)}>"

    def _repr_html_(self) -> str:
        """Say what there is, in a notebook."""
        from headtool.display import html_result

        title = f"outcomes of {self._title}"
        return html_result(title, (), (), lines=[f"per example: {', '.join(self.whole)}"])

    @property
    def _title(self) -> str:
        count = len(next(iter(self.whole.values())))
        return f"{len(self.masks)} masks and the whole model on {count} examples"

    def row(self, index: int) -> dict[str, NDArray[np.float64]]:
        """Statistics of one mask, each of shape [N]."""
        return {name: values[index] for name, values in self.masked.items()}

    def take(self, index: Sequence[int]) -> Outcomes:
        """Outcomes of some of the masks, in the order of `index`."""
        masked = {name: values[list(index)] for name, values in self.masked.items()}
        return Outcomes(tuple(self.masks[i] for i in index), self.whole, masked)

    def on(self, index: NDArray[np.int64]) -> Outcomes:
        """Outcomes on some of the examples, in the order of `index`."""
        return Outcomes(
            self.masks,
            {name: values[index] for name, values in self.whole.items()},
            {name: values[:, index] for name, values in self.masked.items()},
        )

    def to_frame(self) -> pd.DataFrame:
        """Tidy frame with a row per mask and example: ``mask``, ``example``, then the statistics.

        ``mask`` names the closed heads, separated by spaces; it is empty for the whole model.
        """
        import pandas as pd

        names = ["", *(" ".join(map(str, mask.closed)) for mask in self.masks)]
        count = len(next(iter(self.whole.values())))
        columns = {
            name: np.concatenate([values, self.masked[name].ravel()])
            for name, values in self.whole.items()
        }
        # By codes: an array of so many long names would not fit into memory.
        codes, categories = pd.factorize(pd.Series(names))
        return pd.DataFrame(
            {
                "mask": pd.Categorical.from_codes(np.repeat(codes, count), categories),
                "example": np.tile(np.arange(count), len(names)),
                **columns,
            }
        )

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, sites: Sites) -> Outcomes:
        """Read what `to_frame` wrote, for a model with these sites."""
        names = [name for name in frame.columns if name not in ("mask", "example")]
        labels = frame["mask"].drop_duplicates().astype(str).tolist()
        count = len(frame) // len(labels)
        columns = {name: frame[name].to_numpy(np.float64).reshape(-1, count) for name in names}
        masks = tuple(
            HeadMask.without(sites, map(Head.parse, label.split())) for label in labels[1:]
        )
        whole = {name: values[0] for name, values in columns.items()}
        return cls(masks, whole, {name: values[1:] for name, values in columns.items()})
