"""Third primitive: attention weights and head outputs, streamed into running statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from headtool.attention.watching import AttentionWatch
from headtool.heads import AttentionSite
from headtool.models.base import Batch, Examples, ModelAdapter
from headtool.progress import Progress, silent

__all__ = ["Statistic", "observe"]


class Statistic(Protocol):
    """Something that is computed from attention, batch by batch."""

    def update(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> None:
        """Take in one site of one batch.

        Parameters
        ----------
        site
            The site.
        attention
            Attention weights [B, H, T, S], zero at padded keys.
        contexts
            The heads' outputs before the output projection, [B, T, H, D].
        batch
            The batch, which knows which query tokens are real.
        """
        ...


def observe(
    model: ModelAdapter,
    examples: Examples,
    statistics: Sequence[Statistic],
    *,
    progress: Progress = silent,
) -> None:
    """Stream a data set's attention into `statistics`; one site of one batch is held at a time."""
    batches = examples.batches()
    with torch.inference_mode():
        for index in progress(batches, total=len(batches), label="attention"):
            batch = model.collate(examples, index)
            latest: list[Tensor] = []

            def note(probabilities: Tensor, latest: list[Tensor] = latest) -> Tensor:
                if probabilities.ndim >= 3:
                    latest[:] = [probabilities]
                return probabilities

            def update(
                site: AttentionSite,
                contexts: Tensor,
                batch: Batch = batch,
                latest: list[Tensor] = latest,
            ) -> None:
                shape = (len(contexts), site.n_heads, contexts.shape[1], -1)
                attention = latest.pop().reshape(shape)
                for statistic in statistics:
                    statistic.update(site, attention, contexts, batch)

            with AttentionWatch(note), model.intercept(update, batch):
                model.forward(batch)
