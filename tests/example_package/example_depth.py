"""A scoring method in a package of its own: what another project writes to add one to headtool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headtool.methods.base import Job, Method, Scored, option


@dataclass(frozen=True)
class Depth(Method):
    """The layer of the head: deeper is more important."""

    name: ClassVar[str] = "depth"
    summary: ClassVar[str] = "layer of the head"
    reference: ClassVar[str] = "an example"

    slope: float = option(1.0, "score of a layer")

    def compute(self, job: Job) -> Scored:
        """Score without looking at the model."""
        layers = np.array([head.layer for head in job.sites.heads], dtype=np.float64)
        return Scored(self.slope * layers, np.full(len(layers), np.nan))
