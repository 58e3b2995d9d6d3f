"""Fluctuation of the head's output (An et al. 2024): what its mean cannot stand in for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headtool.engine.observation import Statistic
from headtool.engine.sharing import ATTENTION
from headtool.errors import HeadtoolError
from headtool.heads import AttentionSite
from headtool.methods.base import Job, Method, Scored, option
from headtool.methods.channels import Moments, channel_moments, score_channels
from headtool.methods.slices import output_weights
from headtool.work import Passes, Size

__all__ = ["Flap"]


@dataclass(frozen=True)
class Flap(Method):
    """How much the head's output fluctuates around its mean, weighed by W_O.

    For each output channel j of a site, ``F_j = Var_t(ctx[t, j]) |W_O[:, j]|^2`` over the real
    query tokens of the data set. With ``normalize=layer`` these are standardised over the channels
    of the site (mean 0, standard deviation 1), which makes layers comparable; the score is the mean
    over the head's channels. A head of constant output has ``F = 0``: it can be removed without
    loss if its mean stays, as with the replacement `mean`. A higher score means more important. The
    loss plays no role.

    The standard error is that of a jackknife over 20 groups of consecutive examples. This is
    the paper's metric (WIFV); the released code squares ``F_j`` of attention once more before it
    standardises (``power=2``).

    References
    ----------
    An, Zhao, Yu, Tang & Wang 2024, "Fluctuation-based Adaptive Structured Pruning for Large
    Language Models", sec. 3.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("flap")().score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(2)
        layer  head  score  stderr
    15      1     7   1.39    0.19
    2       0     2   1.00    0.19
    7       0     7   0.92    0.21

    The scores of a layer add up to zero:

    >>> bool(scores.frame.groupby("layer")["score"].sum().abs().max() < 1e-9)
    True
    """

    name: ClassVar[str] = "flap"
    summary: ClassVar[str] = "fluctuation of the head's output, weighed by the weights that read it"
    reference: ClassVar[str] = "An et al. 2024"

    normalize: str = option(
        "layer",
        "standardise over the channels of a site, or leave fluctuations as they are",
        choices=("layer", "none"),
    )
    power: int = option(
        1, "power of a channel's fluctuation: 1 as in the paper, 2 as in the released code"
    )

    def check(self) -> None:
        """Refuse other powers."""
        if self.power not in (1, 2):
            raise HeadtoolError(f"flap.power must be 1 or 2, got {self.power}")

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards."""
        return (Passes(forward=1, shared=ATTENTION),)

    def reads(self, job: Job) -> Sequence[Statistic]:
        """Read the moments of the heads' channels."""
        return channel_moments(job)

    def compute(self, job: Job) -> Scored:
        """Weigh the channels' variances."""
        columns = {
            handle.site: np.square(output_weights(handle)).sum(axis=2)
            for handle in job.model.handles
        }

        def score(site: AttentionSite, moments: Moments) -> NDArray[np.float64]:
            fluctuation = (moments.variance * columns[site]) ** self.power
            if self.normalize == "layer":
                fluctuation = _standardised(fluctuation)
            by_head: NDArray[np.float64] = fluctuation.mean(axis=1)
            return by_head

        return Scored(*score_channels(job, score))


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean 0 and sample standard deviation 1 over all channels; zeros where all are equal."""
    centred: NDArray[np.float64] = values - values.mean()
    spread = centred.std(ddof=1)
    return centred / spread if spread > 0 else np.zeros_like(centred)
