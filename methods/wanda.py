"""Wanda by head: the size of activations times the size of the weights that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headtool.engine.observation import Statistic
from headtool.engine.sharing import ATTENTION
from headtool.heads import AttentionSite
from headtool.methods.base import Job, Method, Scored
from headtool.methods.channels import Moments, channel_moments, score_channels
from headtool.methods.slices import output_weights
from headtool.work import Passes, Size

__all__ = ["Wanda"]


@dataclass(frozen=True)
class Wanda(Method):
    """Size of the head's output channels times that of the columns of W_O that read them.

    ``score_h = sum_j sqrt(mean_t ctx[t, j]^2) |W_O[:, j]|_1``, j over the head's output channels
    and t over the real query tokens of the data set. A higher score means more important. The
    loss plays no role. Scores compare heads within a layer, as the authors do; between layers they
    also compare the scales of the layers.

    The root mean square stands for the norm over all tokens, and a sum over the rows of W_O for
    the mean: constant factors, which leave the order as it is. The standard error is that of a
    jackknife over 20 groups of consecutive examples.

    References
    ----------
    Sun, Liu, Bair & Kolter 2024, "A Simple and Effective Pruning Approach for Large Language
    Models", eq. 1; by head as Wanda-sp in An et al. 2024, "Fluctuation-based Adaptive Structured
    Pruning for Large Language Models", and their released code.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> examples = model.encode(headtool.load_data("builtin:nli/matched", limit=8))
    >>> scores = headtool.get_method("wanda")().score(model, examples)
    >>> scores.frame.nsmallest(3, "rank")[["layer", "head", "score", "stderr"]].round(2)
        layer  head   score  stderr
    26      3     2  105.38   21.09
    29      3     5  103.13    2.65
    30      3     6   90.65    8.63
    """

    name: ClassVar[str] = "wanda"
    summary: ClassVar[str] = "size of the head's output times that of the weights that read it"
    reference: ClassVar[str] = "Sun et al. 2024; Wanda-sp in An et al. 2024"

    def cost(self, size: Size) -> tuple[Passes, ...]:
        """Take one pass forwards."""
        return (Passes(forward=1, shared=ATTENTION),)

    def reads(self, job: Job) -> Sequence[Statistic]:
        """Read the moments of the heads' channels."""
        return channel_moments(job)

    def compute(self, job: Job) -> Scored:
        """Weigh the channels' sizes."""
        columns = {
            handle.site: np.abs(output_weights(handle)).sum(axis=2) for handle in job.model.handles
        }

        def score(site: AttentionSite, moments: Moments) -> NDArray[np.float64]:
            by_head: NDArray[np.float64] = (np.sqrt(moments.square) * columns[site]).sum(axis=1)
            return by_head

        return Scored(*score_channels(job, score))
