"""What a closed head puts out instead of its own output.

Zero is the usual ablation. Because later layers repair part of the damage, zeroing understates
some heads (McGrath et al. 2023), so the mean over the data set and another example's output are
offered as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.errors import unknown
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.progress import Progress

__all__ = ["REPLACEMENTS", "Fill", "Mean", "Replacement", "Resample", "Zero", "replacement"]

Fill = Callable[[Batch], Mapping[AttentionSite, Tensor] | None]
"""Per batch, what closed heads put out at each site, broadcastable to [B, T, H, D]."""

REPLACEMENTS = ("zero", "mean", "resample")


class Replacement(ABC):
    """A way to fill in for closed heads."""

    @abstractmethod
    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Gather what is needed from the data set.

        Parameters
        ----------
        model, examples
            The model, and the examples that will be run.
        progress
            Reports progress.

        Returns
        -------
        Callable
            Takes a batch; returns what closed heads put out at each site, None for zero.
        """


class Zero(Replacement):
    """Zero: the same as zeroing the head's columns of W_O."""

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Need nothing."""
        return lambda batch: None


class Mean(Replacement):
    """The head's mean output over all real query tokens of the data set."""

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Average in one pass over the data."""
        sums: dict[AttentionSite, Tensor] = {}
        counts: dict[AttentionSite, int] = {}
        batches = examples.batches()
        with torch.inference_mode():
            for index in progress(batches, total=len(batches), label="mean outputs"):
                batch = model.collate(examples, index)

                def add(site: AttentionSite, contexts: Tensor, batch: Batch = batch) -> None:
                    real = batch.queries[site.kind].real
                    sums[site] = sums.get(site, 0.0) + contexts[real].double().sum(dim=0)
                    counts[site] = counts.get(site, 0) + int(real.sum())

                with model.intercept(add, batch):
                    model.forward(batch)
        means = {site: (total / counts[site]).to(torch.float32) for site, total in sums.items()}
        return lambda batch: means


@dataclass(frozen=True)
class Resample(Replacement):
    """The head's output on another example of the data set, aligned by position.

    The donor of an example is drawn, from `seed`, among the other examples that are at least as
    long; the longest ones take the longest other example, and positions past its end take its last
    position. Donors do not depend on batching or order of batches.
    """

    seed: int = 0

    def fit(self, model: ModelAdapter, examples: Examples, progress: Progress) -> Fill:
        """Draw the donors."""
        donors = draw_donors(examples.lengths, np.random.default_rng(self.seed))

        def fill(batch: Batch) -> Mapping[AttentionSite, Tensor]:
            donor_batch = model.collate(examples, donors[batch.index])
            outputs: dict[AttentionSite, Tensor] = {}

            def keep(site: AttentionSite, contexts: Tensor) -> None:
                real = donor_batch.queries[site.kind].real
                wanted = batch.queries[site.kind].real.shape[1]
                outputs[site] = _align(contexts, real, wanted)

            with model.intercept(keep, donor_batch):
                model.forward(donor_batch)
            return outputs

        return fill


def draw_donors(lengths: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Pick for each example another one that is at least as long, where there is one; shape [N]."""
    count = len(lengths)
    if count == 1:
        return np.zeros(1, dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    position = np.empty(count, dtype=np.int64)
    position[order] = np.arange(count)
    # Sorted by length, everything from the first example of equal length on is long enough.
    first = np.searchsorted(lengths[order], lengths, side="left")
    draws = rng.random(count)
    room = count - first - 1  # long enough, itself excluded
    chosen = first + np.floor(draws * room).astype(np.int64)
    chosen += (chosen >= position) & (room > 0)
    chosen = np.where(room > 0, chosen, count - 2)
    return order[chosen]


def _align(contexts: Tensor, real: Tensor, wanted: int) -> Tensor:
    """Give each donor row `wanted` positions; past its end, its last real position repeats."""
    last = real.sum(dim=1) - 1
    positions = torch.arange(wanted, device=contexts.device)[None, :].minimum(last[:, None])
    rows = torch.arange(len(contexts), device=contexts.device)[:, None]
    return contexts[rows, positions].clone()


def replacement(name: str, *, seed: int = 0) -> Replacement:
    """Return the replacement of a name.

    Parameters
    ----------
    name
        One of `REPLACEMENTS`: ``zero``, ``mean`` or ``resample``.
    seed
        Seed of the donors of ``resample``.
    """
    if name not in REPLACEMENTS:
        raise unknown("replacement", name, REPLACEMENTS)
    return {"zero": Zero(), "mean": Mean(), "resample": Resample(seed)}[name]
