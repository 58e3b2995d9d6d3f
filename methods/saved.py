"""Scores that are there already, in the place of a method."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored
from headtool.methods.options import option
from headtool.work import Passes, Size

__all__ = ["Saved", "saved_method"]


@dataclass(frozen=True)
class Saved(Method):
    """Scores that a run holds, whatever the examples; a model of other weights is refused.

    It is made by `saved_method`, and has the name of the method that made the scores.
    """

    name: ClassVar[str] = "saved"
    summary: ClassVar[str] = "scores that a run holds"
    reference: ClassVar[str] = ""
    frame: ClassVar[pd.DataFrame]
    sha256: ClassVar[str | None] = None

    run: str = option("", "run directory that holds the scores")

    def settings(self) -> dict[str, Any]:
        """Name the run, and a digest of its scores: another run at its place is another method."""
        columns = ["kind", "layer", "head", "score", "rank"]
        content = self.frame[columns].to_csv(index=False).encode()
        return {"run": self.run, "sha256": hashlib.sha256(content).hexdigest()}

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take no pass over the examples."""
        return ()

    def compute(self, job: Job) -> Scored:
        """Look the heads up."""
        if self.sha256 not in (None, job.model.fingerprint):
            raise HeadtoolError(
                f"the scores of {self.name} are about other weights than {job.model.spec}; score "
                "this model"
            )
        rows = {
            (str(row["kind"]), int(row["layer"]), int(row["head"])): row
            for row in self.frame.to_dict("records")
        }
        kinds = {kind for kind, _, _ in rows}
        heads = [head for head in job.model.sites.heads if head.kind in kinds]
        if self.sha256 is None and len(heads) != len(rows):
            raise HeadtoolError(
                f"the scores of {self.name} are of {len(rows)} heads, and {job.model.spec} has "
                f"{job.model.sites.summary}; they are of another model"
            )
        wanted = [(head.kind, head.layer, head.index) for head in job.sites.heads]
        missing = [place for place in wanted if place not in rows]
        if missing:
            name = ".".join(map(str, missing[0]))
            raise HeadtoolError(
                f"{self.name} has no scores of {len(missing)} heads, such as {name}; restrict "
                "`kinds`"
            )
        found = [rows[place] for place in wanted]
        return Scored(
            np.array([row["score"] for row in found], dtype=np.float64),
            np.array([row.get("stderr", np.nan) for row in found], dtype=np.float64),
            # Equal scores keep the order that they had, unless chance gave it to them.
            tie_break=np.array([-_finer(row) for row in found], dtype=np.float64),
        )


def _finer(row: Mapping[Any, Any]) -> float:
    """The rank, or the mean of the ranks that chance could give."""
    mean = float(row.get("mean_rank", np.nan))
    return float(row["rank"]) if np.isnan(mean) else mean


def saved_method(frame: pd.DataFrame, source: Mapping[str, Any], *, place: str) -> Method:
    """Make a method of scores.

    Parameters
    ----------
    frame
        The table ``scores`` of one method.
    source
        Their provenance.
    place
        The run directory that they are from; empty for none.
    """
    name = str(frame["method"].iloc[0])
    texts = {key: str(source.get(key) or "") for key in ("summary", "reference")}
    model = source.get("model") or {}
    attributes = {
        "__module__": Saved.__module__,
        "__doc__": Saved.__doc__,
        "name": name,
        "summary": texts["summary"] or f"scores of {name}",
        "reference": texts["reference"],
        "frame": frame,
        "sha256": model.get("sha256"),
    }
    made: type[Saved] = type("Saved", (Saved,), attributes)
    return made(run=place)
