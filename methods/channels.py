"""Running moments of the heads' output channels, for methods that look at activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headtool.engine.observation import Statistic, Summary
from headtool.heads import AttentionSite, Sites
from headtool.methods.base import Job
from headtool.models.examples import Batch

__all__ = ["GROUPS", "Moments", "channel_moments", "score_channels"]

GROUPS = 20
"""Into how many groups examples are divided for a jackknife."""


@dataclass(frozen=True)
class Moments:
    """Moments of a site's channels over query tokens.

    Attributes
    ----------
    mean
        Mean of each channel of each head's output, shape [H, D].
    square
        Mean of its square, shape [H, D].
    """

    mean: NDArray[np.float64]
    square: NDArray[np.float64]

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance of each channel (population), shape [H, D]."""
        variance: NDArray[np.float64] = np.maximum(self.square - self.mean**2, 0.0)
        return variance


def channel_moments(job: Job) -> Sequence[Statistic]:
    """What a method's `reads` asks for, for `score_channels`.

    Parameters
    ----------
    job
        The sites, and the data set.
    """
    return [_GroupSums(job.sites, len(job.examples))]


def score_channels(
    job: Job, score: Callable[[AttentionSite, Moments], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score heads by the moments of their channels over the data set.

    Parameters
    ----------
    job
        The sites, and what `channel_moments` asked for.
    score
        Takes a site and its moments; returns the scores of its heads, [H].

    Returns
    -------
    score, stderr
        Shape [heads] each. Standard errors are those of a delete-a-group jackknife over `GROUPS`
        groups of consecutive examples (over single examples if there are fewer); NaN for one
        example.
    """
    sums = job.read(_GroupSums)
    scores = np.zeros(job.sites.n_heads)
    stderrs = np.full(job.sites.n_heads, np.nan)
    for site in job.sites:
        columns = job.sites.columns(site)
        totals = sums.totals[site]
        scores[columns] = score(site, _moments(totals.sum(axis=0), site))
        if sums.groups > 1:
            left_out = [
                score(site, _moments(np.delete(totals, group, axis=0).sum(axis=0), site))
                for group in range(sums.groups)
            ]
            spread = np.stack(left_out).var(axis=0)
            stderrs[columns] = np.sqrt((sums.groups - 1) * spread)
    return scores, stderrs


def _moments(total: NDArray[np.float64], site: AttentionSite) -> Moments:
    """Moments from sums, squares and (last) the number of tokens: [2 H D + 1]."""
    mean, square = (total[:-1] / total[-1]).reshape(2, site.n_heads, site.head_dim)
    return Moments(mean, square)


@dataclass
class _GroupSums:
    """Statistic for `observe`: per group of examples, the channels' sums, squares, and tokens.

    Attributes
    ----------
    sites
        The sites.
    examples
        Number of examples.
    totals
        By site, [groups, 2 H D + 1].
    """

    sites: Sites
    examples: int
    totals: dict[AttentionSite, NDArray[np.float64]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.totals = {
            site: np.zeros((self.groups, 2 * site.n_heads * site.head_dim + 1))
            for site in self.sites
        }

    @property
    def groups(self) -> int:
        """Number of groups."""
        return min(GROUPS, self.examples)

    def summarise(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> Summary:
        """Sum over the real tokens of one site of one batch, example by example."""
        if site not in self.totals:
            return {}
        real = batch.queries[site.kind].real
        outputs = contexts.double().masked_fill(~real[..., None, None], 0.0).flatten(2)
        return {
            "sums": outputs.sum(dim=1).cpu().numpy(),
            "squares": outputs.square().sum(dim=1).cpu().numpy(),
            "tokens": real.sum(dim=1, keepdim=True).double().cpu().numpy(),
        }

    def add(self, site: AttentionSite, examples: NDArray[np.int64], summary: Summary) -> None:
        """Add the examples to their groups."""
        rows = np.concatenate([summary["sums"], summary["squares"], summary["tokens"]], axis=1)
        np.add.at(self.totals[site], examples * self.groups // self.examples, rows)
