"""Third primitive: attention weights and head outputs, streamed into running statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtool.attention.watching import AttentionWatch
from headtool.engine.counting import unit_work
from headtool.engine.stepping import Stepping, batches_of
from headtool.engine.units import Executor, Unit, UnitResult, cut, in_order, in_turn, run_units
from headtool.heads import AttentionSite
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch, Examples
from headtool.models.source import check_wrapped
from headtool.progress import ProgressLike, silent
from headtool.work import Passes

__all__ = ["Statistic", "Summary", "observe"]

_LABEL = "attention"

Summary = Mapping[str, NDArray[Any]]
"""What a statistic needs to know of one site of one batch: arrays by name, small ones."""


class Statistic(Protocol):
    """Something that is computed from attention, batch by batch.

    `summarise` sees the attention and changes nothing that a result depends on, so that batches can
    be run in any order, or elsewhere; `add` takes the summaries in, always in the same order.
    """

    def summarise(
        self, site: AttentionSite, attention: Tensor, contexts: Tensor, batch: Batch
    ) -> Summary:
        """Say what is to be known of one site of one batch.

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

        Returns
        -------
        Mapping
            Arrays by name; none of them for a site that does not matter.
        """
        ...

    def add(self, site: AttentionSite, examples: NDArray[np.int64], summary: Summary) -> None:
        """Take in a summary: batch by batch, the sites in the order of the forward pass.

        Parameters
        ----------
        site
            The site.
        examples
            Indices of the batch's examples, [B].
        summary
            What `summarise` returned, never empty.
        """
        ...


def observe(
    model: ModelAdapter,
    examples: Examples,
    statistics: Sequence[Statistic],
    *,
    execute: Executor = in_turn,
    progress: ProgressLike = silent,
) -> None:
    """Stream a data set's attention into `statistics`; one site of one batch is held at a time.

    Parameters
    ----------
    model
        The model.
    examples
        The data set, as ``model.encode`` returned it.
    statistics
        What takes the attention in; they hold the result.
    execute
        Who runs the units, a batch each.
    progress
        Reports progress; True shows a bar.

    Examples
    --------
    >>> from headtool import observe
    >>> from headtool import load_data, load_model
    >>> class LargestWeight:
    ...     value = 0.0
    ...     def summarise(self, site, attention, contexts, batch):
    ...         return {"largest": attention.amax().cpu().numpy()}
    ...     def add(self, site, examples, summary):
    ...         self.value = max(self.value, float(summary["largest"]))
    >>> model = load_model("builtin:nli", device="cpu")
    >>> examples = model.encode(load_data("builtin:nli/matched", limit=4))
    >>> largest = LargestWeight()
    >>> observe(model, examples, [largest])
    >>> 0.5 < largest.value <= 1.0
    True
    """
    check_wrapped(model)
    done = run_units(
        cut(batches_of(model, examples)),
        lambda: Stepping(
            partial(_summaries, model, examples, statistics), _side_by_side, model, examples, _LABEL
        ),
        label=_LABEL,
        execute=execute,
        progress=progress,
        work=unit_work(examples, Passes(forward=1)),
    )
    sites = {str(site): site for site in model.sites}
    for _, result in in_order(done):
        parts: dict[str, dict[str, NDArray[Any]]] = {}
        for key, values in result.items():
            part, _, rest = key.rpartition("|")
            parts.setdefault(part, {})[rest] = values
        for found in parts.values():
            index = found.pop("examples")
            summaries: dict[tuple[str, str], dict[str, NDArray[Any]]] = {}
            for key, values in found.items():
                name, place, which = key.split(" ", 2)
                summaries.setdefault((name, place), {})[which] = values
            for (name, place), summary in summaries.items():
                statistics[int(place)].add(sites[name], index, summary)


def _side_by_side(results: Sequence[UnitResult]) -> UnitResult:
    """Join results by putting their number before each name: only statistics can add them up."""
    return {f"{i}|{key}": array for i, part in enumerate(results) for key, array in part.items()}


def _summaries(
    model: ModelAdapter, examples: Examples, statistics: Sequence[Statistic], unit: Unit
) -> UnitResult:
    """Summarise one batch; arrays by ``SITE STATISTIC NAME``, and its examples."""
    batch = model.collate(examples, unit.examples)
    latest: list[Tensor] = []
    found: dict[str, NDArray[Any]] = {"examples": unit.examples}

    def note(probabilities: Tensor) -> Tensor:
        if probabilities.ndim >= 3:
            latest[:] = [probabilities]
        return probabilities

    def summarise(site: AttentionSite, contexts: Tensor) -> None:
        shape = (len(contexts), site.n_heads, contexts.shape[1], -1)
        attention = latest.pop().reshape(shape).to(contexts.device)
        for place, statistic in enumerate(statistics):
            summary = statistic.summarise(site, attention, contexts, batch)
            found.update({f"{site} {place} {name}": array for name, array in summary.items()})

    with torch.inference_mode(), AttentionWatch(note), model.intercept(summarise, batch):
        model.forward(batch)
    return found
