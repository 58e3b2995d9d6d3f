"""Gradient importance (Michel, Levy & Neubig 2019, eq. 2) in its four published variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headtool.engine.differentiation import Gradients
from headtool.engine.sharing import GRADIENTS, Derivatives
from headtool.errors import HeadtoolError
from headtool.heads import Sites
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.estimates import influence_stderr, ratio_of_sums
from headtool.metrics.base import Metric
from headtool.work import Passes, Size

__all__ = ["Gradient"]

_TINY = 1e-20


@dataclass(frozen=True)
class Gradient(Method):
    """Expected sensitivity of the loss to a gate on the head.

    With ``s[b, h, t]`` the inner product of head h's output at query token t and the gradient of
    example b's loss with respect to it (so that ``sum_t s = dL_b / dxi_h`` exactly):

    ===========  =================================================================================
    token        ``sum_b sum_t |s[b, h, t]|`` per unpadded query token (the authors' released code)
    example      ``mean_b |sum_t s[b, h, t]|`` (the paper's equation as written)
    batch        mean over batches of ``|dL/dxi_h|``, L the batch-mean loss (Li et al. 2021,
                 TextPruner)
    cumulative   sum over batches of the absolute *running sum* of gradients that are never
                 zeroed. An artefact of a widely copied script; offered to reproduce it
    ===========  =================================================================================

    A higher score means more important. Batches of `batch` and `cumulative` are consecutive
    examples of the data set; the other variants know no batches. The standard error is over
    examples (over batches for `batch`), by the delta method through the normalisation; a running
    sum has none (NaN).

    The released code has two quirks that are left out: the BERT code divides the last layer by
    examples and the others by tokens, which the layer norm cancels; the translation code counts
    padded target tokens.

    References
    ----------
    Michel, Levy & Neubig 2019, "Are Sixteen Heads Really Better than One?", eq. 2 and sec. 4.1.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> gradient = headtool.get_method("gradient")(granularity="example")
    >>> scores = gradient.score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(3)
        layer  head  score  stderr
    15      1     7  0.813   0.002
    16      2     0  0.790   0.010
    2       0     2  0.690   0.023
    """

    name: ClassVar[str] = "gradient"
    summary: ClassVar[str] = "expected sensitivity of the loss to a gate on the head"
    reference: ClassVar[str] = "Michel, Levy & Neubig 2019"

    granularity: str = option(
        "token",
        "where absolute values are taken",
        choices=("token", "example", "batch", "cumulative"),
    )
    normalize: str = option(
        "layer",
        "layer: divide by the L2 norm over the heads of a site; minmax: then scale to [0, 1]",
        choices=("layer", "none", "minmax"),
    )
    batch_size: int = option(32, "examples in a batch, for granularity batch and cumulative")

    def check(self) -> None:
        """Refuse batches without examples."""
        if self.batch_size < 1:
            raise HeadtoolError(f"gradient.batch_size must be at least 1, got {self.batch_size}")

    def idle(self, metric: Metric | None = None) -> Mapping[str, str]:
        """Batches are for the granularities that they define."""
        if self.granularity in ("batch", "cumulative"):
            return {}
        return {"batch_size": f"on granularity {self.granularity}"}

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards and backwards."""
        return (Passes(forward=1, backward=1, shared=GRADIENTS),)

    def reads(self, job: Job) -> Sequence[Derivatives]:
        """Read the gates' gradients."""
        return [Derivatives()]

    def compute(self, job: Job) -> Scored:
        """Average the gradients' size."""
        raw, influence = self._raw(job, job.read(Derivatives).gradients)
        score = raw
        if self.normalize != "none":
            score, influence = _by_layer(score, influence, job.sites)
        if self.normalize == "minmax":
            score, influence = _min_max(score, influence)
        stderr = influence_stderr(influence)
        return Scored(score, stderr, columns={"raw": raw})

    def _raw(
        self, job: Job, gradients: Gradients
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Unnormalised scores [heads] and the influence of each unit on them [units, heads]."""
        if self.granularity == "token":
            return ratio_of_sums(
                job.columns(gradients.token_magnitude), job.columns(gradients.tokens)
            )
        per_example = job.columns(gradients.per_example)
        if self.granularity == "example":
            magnitude = np.abs(per_example)
        else:
            starts = np.arange(0, len(per_example), self.batch_size)
            sizes = np.diff([*starts, len(per_example)])
            per_batch = np.add.reduceat(per_example, starts, axis=0) / sizes[:, None]
            if self.granularity == "cumulative":
                score = np.abs(per_batch.cumsum(axis=0)).sum(axis=0)
                return score, np.full((0, len(score)), np.nan)
            magnitude = np.abs(per_batch)
        score = magnitude.mean(axis=0)
        return score, magnitude - score


def _by_layer(
    score: NDArray[np.float64], influence: NDArray[np.float64], sites: Sites
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Divide each site's scores by their L2 norm."""
    scaled, scaled_influence = np.empty_like(score), np.empty_like(influence)
    for site in sites:
        columns = sites.columns(site)
        norm = np.linalg.norm(score[columns]) + _TINY
        unit = score[columns] / norm
        scaled[columns] = unit
        # d(x / |x|) = (I - u u') dx / |x|
        tangent = influence[:, columns] - np.outer(influence[:, columns] @ unit, unit)
        scaled_influence[:, columns] = tangent / norm
    return scaled, scaled_influence


def _min_max(
    score: NDArray[np.float64], influence: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scale all scores together to [0, 1]."""
    low, high = int(score.argmin()), int(score.argmax())
    width = score[high] - score[low]
    if width == 0:
        return np.zeros_like(score), np.zeros_like(influence)
    scaled = (score - score[low]) / width
    bottom, top = influence[:, [low]], influence[:, [high]]
    return scaled, (influence - bottom - scaled * (top - bottom)) / width
