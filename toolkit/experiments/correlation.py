"""Whether the same heads are important on other data: what ``headtool correlate`` does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from headtool.analysis.assessment import assess_outcomes
from headtool.analysis.correlation import correlate as correlate_importance
from headtool.analysis.importance import Importance
from headtool.analysis.kinds import of_kinds
from headtool.analysis.partial_conjunction import replicate
from headtool.data.drawing import LimitOrder
from headtool.engine.counting import mask_shares
from headtool.engine.measurement import measure, resolve
from headtool.engine.provenance import provenance
from headtool.errors import HeadtoolError
from headtool.experiments.choosing import ScoresLike
from headtool.experiments.inputs import (
    DataLike,
    HasOutcomes,
    ModelSource,
    encode,
    name_of,
    open_model,
    read_data,
)
from headtool.experiments.planning import Sketch, begin
from headtool.experiments.scored_runs import has_outcomes, importance_of, open_any
from headtool.heads import Head, Kind
from headtool.masks.singles import single_masks
from headtool.metrics import metric_of_run
from headtool.metrics.base import Metric
from headtool.models.base import ModelAdapter
from headtool.progress import ProgressLike, labelled, silent
from headtool.reports.contents.held import Held
from headtool.reports.formats.canvas import one_axes
from headtool.reports.formats.relation_figures import draw_coefficients
from headtool.reports.results import Reported
from headtool.results.outcomes import Outcomes
from headtool.results.scores import json_rows
from headtool.schema import TABLES
from headtool.searching import Search
from headtool.workers.pool import WorkersLike, open_workers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Correlation", "correlate", "correlate_runs"]

_Measured = tuple[str, Outcomes, Metric]


@dataclass(frozen=True, eq=False, repr=False)
class Correlation(Reported):
    """How far the importance of heads agrees between data sets.

    Attributes
    ----------
    frame
        A row per pair of data sets: the table ``correlations`` of `headtool.schema`.
    replication
        On how many of the data sets each head has an effect, as
        `headtool.analysis.partial_conjunction.replicate` estimates it, corrected over heads.
    provenance
        Provenance of the outcomes by data set (``data``) or by run (``runs``).
    """

    frame: pd.DataFrame
    replication: pd.DataFrame
    provenance: Mapping[str, Any]

    folder = None

    def held(self) -> Held:
        """Return the tables as the run of a comparison holds them, for a report."""
        return Held(
            {"correlate": dict(self.provenance)},
            {"correlations": self.frame, "replication": self.replication},
        )

    def plot_coefficients(self, ax: Any = None) -> Figure:
        """Draw the correlation of each pair of data sets, with its interval over examples.

        Parameters
        ----------
        ax
            Where to draw; None makes a figure.
        """
        figure, axis = one_axes(ax)
        draw_coefficients(axis, self.frame)
        return figure

    @property
    def notes(self) -> tuple[str, ...]:
        """Why numbers are not computed, one line each; empty if all are."""
        return tuple(text for text in self.frame["note"] if text)

    def document(self) -> dict[str, Any]:
        """Return the tables as JSON can hold them, in the format ``headtool/correlations/1``."""
        return {
            "schema": "headtool/correlations/1",
            "provenance": dict(self.provenance),
            "correlations": json_rows(self.frame),
            "replication": json_rows(self.replication),
        }


def correlate(
    model: ModelAdapter | ModelSource | str,
    data: Sequence[DataLike],
    *,
    kinds: Iterable[Kind] | None = None,
    metric: str | None = None,
    search: Search | None = None,
    tokenize: str | None = None,
    permutations: int = 10_000,
    resamples: int = 2_000,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    batch_tokens: int | None = 4096,
    seed: int = 0,
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
) -> Correlation:
    """Correlate what single heads are worth on two or more data sets.

    The importance of a head is what the metric loses without it. Heads of one layer resemble each
    other, so the p-value to read is the one that permutes heads within their layers.

    Parameters
    ----------
    model
        A model, or its SPEC.
    data
        Two or more data sets, or their SPECs.
    kinds
        Attention kinds whose heads are compared; None for all.
    metric
        The metric; None for the task's own.
    search
        How to decode, for ``bleu``, ``chrf`` and ``ter``; None for the model's own settings.
    tokenize
        sacreBLEU's tokens for ``bleu``, such as ``intl``; None for its default, ``13a``.
    permutations
        Orders of the heads behind the p-values.
    resamples
        Bootstrap resamples of the examples.
    limit
        Examples of each data set to use; None for all.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Seed of everything random.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress; True shows a bar.

    Raises
    ------
    HeadtoolError
        If something does not fit.

    Examples
    --------
    >>> import headtool
    >>> found = headtool.correlate(
    ...     "builtin:nli", ["builtin:nli/matched", "builtin:nli/mismatched"],
    ...     metric="loss", limit=16, permutations=200, resamples=100,
    ... )
    >>> found.frame[["data_x", "data_y", "n_heads"]]
                    data_x                  data_y  n_heads
    0  builtin:nli/matched  builtin:nli/mismatched       32
    """
    kinds = None if kinds is None else tuple(kinds)
    read = partial(read_data, limit=limit, limit_order=limit_order, seed=seed)
    texts = [read(one, model) for one in data]
    adapter = open_model(model)
    heads = adapter.sites.restrict(kinds).heads
    masks = [item.mask for item in single_masks(adapter.sites, heads)]
    measures = resolve(adapter, metric, search, tokenize=tokenize)
    measured: list[_Measured] = []
    sources: dict[str, Any] = {}
    encoded = [encode(adapter, text, batch_tokens=batch_tokens, seed=seed) for text in texts]
    sketch = Sketch("correlate", adapter)
    share = sum(mask_shares(adapter, masks)) / max(1, len(masks))
    for text, examples in zip(texts, encoded, strict=True):
        sketch.masks(text.spec, len(masks), examples, measures, share=share)
    meter = begin(progress, sketch.plan(), adapter, encoded[0] if encoded else None)
    with open_workers(workers) as execute:
        for text, examples in zip(texts, encoded, strict=True):
            with meter.phase(text.spec):
                found = measure(
                    adapter,
                    examples,
                    masks,
                    measures.metric,
                    search=measures.search,
                    execute=execute,
                    progress=labelled(meter, text.spec),
                )
            measured.append((text.spec, found.outcomes, measures.metric))
            source = provenance(adapter, examples, "correlate", {}, measures.metric.name, seed)
            sources[text.spec] = source | measures.described()
    return _correlation(
        measured, {"data": sources}, permutations=permutations, resamples=resamples, seed=seed
    )


def correlate_runs(
    runs: Sequence[HasOutcomes | ScoresLike],
    *,
    kinds: Collection[Kind] | None = None,
    metric: str | None = None,
    permutations: int = 10_000,
    resamples: int = 2_000,
    seed: int = 0,
) -> Correlation:
    """Do what `correlate` does with outcomes of ablations, or with scores; the model is not run.

    Scores of methods and imported ones have no examples, and so neither intervals over examples nor
    a replication; imported ones with repeats have both intervals and reliability over these.

    Parameters
    ----------
    runs
        What `headtool.ablate`, `headtool.score` and `headtool.import_scores` returned, or the run
        directories that they wrote, all of one model. There must be two or more data sets or
        methods among them.
    metric
        The metric of outcomes; None for the runs' own.
    kinds, permutations, resamples, seed
        As for `correlate`.

    Raises
    ------
    HeadtoolError
        If the runs are of different models or metrics, or hold no outcomes of this metric.

    Examples
    --------
    >>> import headtool
    >>> sets = ("builtin:nli/matched", "builtin:nli/mismatched")
    >>> runs = [headtool.ablate("builtin:nli", data, metric="loss", limit=16) for data in sets]
    >>> found = headtool.correlate_runs(runs, permutations=200, resamples=100)
    >>> found.frame["n_heads"].tolist()
    [32]
    """
    given = [open_any(run) for run in runs]
    if not all(map(has_outcomes, given)):
        sets, found = importance_of(given, kinds=kinds, metric=metric)
        frame = correlate_importance(sets, permutations=permutations, resamples=resamples, rng=seed)
        return Correlation(frame, TABLES["replication"].empty(), {"runs": found})
    measured: list[_Measured] = []
    sources: dict[str, Any] = {}
    opened = [cast("HasOutcomes", run) for run in given]
    for run in opened:
        source, first = run.source, opened[0].source
        name, other = name_of(run), name_of(opened[0])
        if source["model"]["sha256"] != first["model"]["sha256"]:
            raise HeadtoolError(
                f"{name} is of {source['model']['spec']} and {other} of "
                f"{first['model']['spec']}, another model; correlate runs of one model"
            )
        if metric is None and source["metric"] != first["metric"]:
            raise HeadtoolError(
                f"{name} measures {source['metric']} and {other} {first['metric']}; "
                "choose one with `metric`"
            )
        chosen = metric_of_run(source, metric)
        signature = run.signature(chosen)
        expected = opened[0].signature(chosen)
        if signature != expected:
            raise HeadtoolError(
                f"{name} has {signature} and {other} {expected}; correlate runs that count the same"
            )
        sources[name] = source
        measured.append((source["data"]["spec"], of_kinds(run.outcomes(chosen), kinds), chosen))
    return _correlation(
        measured, {"runs": sources}, permutations=permutations, resamples=resamples, seed=seed
    )


def _correlation(
    measured: Sequence[_Measured],
    source: Mapping[str, Any],
    *,
    permutations: int,
    resamples: int,
    seed: int,
) -> Correlation:
    sets = [Importance.from_outcomes(*one) for one in measured]
    frame = correlate_importance(sets, permutations=permutations, resamples=resamples, rng=seed)
    return Correlation(frame, _replication(measured, seed=seed), source)


def _replication(measured: Sequence[_Measured], *, seed: int) -> pd.DataFrame:
    """On how many of the data sets each head has an effect, corrected over heads."""
    import pandas as pd

    places = ["kind", "layer", "head"]
    p = pd.concat(
        [
            assess_outcomes(outcomes, metric, correction="none", rng=seed).frame.set_index(places).p
            for _, outcomes, metric in measured
        ],
        axis=1,
    ).fillna(1.0)  # a head without a defined effect shows none
    heads = [Head(kind, int(layer), int(index)) for kind, layer, index in p.index]
    return replicate(p.to_numpy(), heads).frame
