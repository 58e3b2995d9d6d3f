"""Close heads one at a time, or all but one of a site: what ``headtool ablate`` does."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis.replacements import replacement_agreement, replacement_effects
from headtool.analysis.rounding import rounding_notes
from headtool.analysis.screening import asked_screen, with_untested
from headtool.data.drawing import LimitOrder
from headtool.engine.measurement import Measured, measure, resolve
from headtool.engine.provenance import provenance
from headtool.engine.replacement import replacement as named_replacement
from headtool.engine.rounding import measure_rounding
from headtool.engine.store import UnitStore, store_beside
from headtool.engine.units import digest
from headtool.errors import HeadtoolError
from headtool.experiments.ablating import ablated_heads, ablation_plan, heads_to_ablate
from headtool.experiments.effects import ablation_frame, best_single_heads, whole_values
from headtool.experiments.inputs import DataLike, ModelSource, encode, open_model, read_data
from headtool.experiments.planning import begin
from headtool.experiments.replacements import check_replacements
from headtool.heads import Head, Kind
from headtool.masks.singles import Ablated
from headtool.methods.screening import screen_heads
from headtool.metrics.base import Metric
from headtool.metrics.translation import TranslationMetric
from headtool.models.base import ModelAdapter
from headtool.progress import ProgressLike, labelled, silent
from headtool.reports.contents.held import Held
from headtool.reports.results import EffectPlots
from headtool.results.folders import check_output
from headtool.results.outcomes import Outcomes
from headtool.results.runs import site_frame, write_run
from headtool.results.scores import json_rows
from headtool.searching import Search
from headtool.workers.pool import WorkersLike, open_workers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Ablation", "ablate"]


@dataclass(frozen=True, eq=False, repr=False)
class Ablation(EffectPlots):
    """What closing heads does to a model; `headtool.test` says what of it is more than chance.

    Attributes
    ----------
    frame
        A row per metric and head: kind, layer, head, delta (masked minus whole, in the metric's
        unit), stderr, metric.
    whole
        The unmasked model's value of every metric.
    provenance
        What reproduces it: options, model and data fingerprints, seed, versions.
    measured
        The outcomes of every example, with the translations behind them, if any.
    best
        Of all-but-one ablations, the best single head of each site, as
        `headtool.experiments.effects.best_single_heads` chooses it; else None.
    folder
        The run directory; None where none was asked for.
    screening
        Which heads were screened out, and by what: the table ``screening``. None if all heads were
        ablated.
    beside
        By further replacement, what `measured` is for the first.
    replacements, replacement_agreement
        With several replacements, the effects under each, and how alike these are, as the tables of
        those names in `headtool.schema`; else None.
    """

    frame: pd.DataFrame
    whole: Mapping[str, float]
    provenance: Mapping[str, Any]
    measured: Measured
    best: pd.DataFrame | None = None
    folder: Path | None = None
    screening: pd.DataFrame | None = None
    beside: Mapping[str, Measured] = field(default_factory=dict)
    replacements: pd.DataFrame | None = None
    replacement_agreement: pd.DataFrame | None = None

    @property
    def source(self) -> dict[str, Any]:
        """Provenance of the outcomes, as `Run.source` of a saved run."""
        return dict(self.provenance)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know, a line each."""
        return tuple(self.provenance.get("notes", ()))

    def outcomes(self, metric: Metric | None = None, *, replacement: str | None = None) -> Outcomes:
        """Return the outcomes of every example, as `Run.outcomes` of a saved run.

        Parameters
        ----------
        metric
            What they must hold the statistics of; any that is missing is a `HeadtoolError`.
        replacement
            What closed heads put out; None for the first replacement.
        """
        measured = self.beside.get(replacement or "", self.measured)
        held = measured.outcomes
        if isinstance(metric, TranslationMetric):
            if set(metric.statistics) <= set(held.whole):
                return held
            if measured.hypotheses is not None:
                return measured.hypotheses.outcomes(measured.references, metric)
        elif metric is None or "loss" in held.whole:
            return held
        raise HeadtoolError(
            f"the ablation was made for {self.provenance['metric']} and holds nothing for "
            f"{metric.name}; ablate with this `metric`"
        )

    def signature(self, metric: Metric) -> str | None:
        """Return sacreBLEU's signature of the outcomes; None for metrics that have none."""
        return metric.signature if isinstance(metric, TranslationMetric) else None

    def held(self) -> Held:
        """Return what its run directory holds, for its report."""
        best = {} if self.best is None else {"best": self.best}
        tables = {"ablation": self.frame, **best, **self._beside_tables()}
        return Held({"ablate": self.source}, tables)

    def document(self) -> dict[str, Any]:
        """Return the ablation as JSON can hold it, in the format ``headtool/ablation/1``."""
        return {
            "schema": "headtool/ablation/1",
            "provenance": dict(self.provenance),
            "whole": {
                name: None if math.isnan(value) else value for name, value in self.whole.items()
            },
            "ablation": json_rows(self.frame),
            **({} if self.best is None else {"best": json_rows(self.best)}),
            **{name: json_rows(frame) for name, frame in self._beside_tables().items()},
        }

    def _beside_tables(self) -> dict[str, pd.DataFrame]:
        tables = {
            "replacements": self.replacements,
            "replacement_agreement": self.replacement_agreement,
        }
        return {name: frame for name, frame in tables.items() if frame is not None}


def ablate(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    data: DataLike | None = None,
    *,
    heads: Sequence[Head | str] | None = None,
    kinds: Iterable[Kind] | None = None,
    all_but_one: bool = False,
    rescale: bool = False,
    replacement: str = "zero",
    beside: Sequence[str] = (),
    screen: int | None = None,
    screen_by: str = "attribution",
    screen_cut: float = 0.5,
    metric: str | None = None,
    search: Search | None = None,
    tokenize: str | None = None,
    limit: int | None = None,
    limit_order: LimitOrder = "seeded",
    batch_tokens: int | None = 4096,
    seed: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
) -> Ablation:
    """Close heads one at a time, or all but one of a site, and keep every outcome.

    Parameters
    ----------
    model
        A model, or its SPEC.
    data
        A data set, or its SPEC; None for the built-in set of a built-in model.
    heads
        Heads to close, such as ``["enc-self.3.7"]``; None for all of `kinds`.
    kinds
        Attention kinds whose heads are closed; None for all.
    all_but_one
        Close all heads of a site but one. The best head of each site is chosen on one half of the
        examples and reported on the other.
    rescale
        With `all_but_one`, multiply the open heads of a site by heads / open heads.
    replacement
        What a closed head puts out: ``zero``, ``mean``, ``resample``, ``counterfactual`` (for data
        with a column ``corrupted``) or ``optimal``.
    beside
        Further replacements, under which the same masks are run, beside the first.
    screen
        Ablate only so many heads, on one half of the examples: those that a cheap method, on the
        other half, ranks nearest to the cut. The others have NaN; see
        `headtool.analysis.screening`.
    screen_by
        The method that ranks them: ``attribution`` or ``gradient``.
    screen_cut
        Where the cut is: the share of the heads that would be cut off, the least important first.
    metric
        The metric; None for the task's own. The loss is measured beside every metric that does not
        decode.
    search
        How to decode, for ``bleu``, ``chrf`` and ``ter``; None for the model's own settings.
    tokenize
        sacreBLEU's tokens for ``bleu``, such as ``intl``; None for its default, ``13a``.
    limit
        Examples to use; None for all.
    limit_order
        ``seeded`` draws them by `seed`, each class in its share; ``first`` takes the first ones.
    batch_tokens
        Tokens in a batch, padding included; None: as many as fit into the memory.
    seed
        Seed of everything random.
    out
        Run directory to write. While it is unfinished, what was done lies beside it and is
        continued by the same call.
    force
        Replace a run that is there.
    command
        The command line that makes the run again, for its manifest.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress; True shows a bar.

    Raises
    ------
    HeadtoolError
        If something does not fit.

    References
    ----------
    Michel, Levy & Neubig 2019, "Are Sixteen Heads Really Better than One?", sec. 3.

    Examples
    --------
    >>> import headtool
    >>> ablation = headtool.ablate("builtin:nli", limit=8, heads=["enc-self.0.1", "enc-self.2.3"])
    >>> ablation.frame[["kind", "layer", "head", "metric"]]
           kind  layer  head    metric
    0  enc-self      0     1  accuracy
    1  enc-self      2     3  accuracy
    2  enc-self      0     1      loss
    3  enc-self      2     3      loss
    """
    if heads is not None and all_but_one:
        raise HeadtoolError("`heads` and `all_but_one` exclude each other; leave one out")
    if rescale and not all_but_one:
        raise HeadtoolError("`rescale` is for `all_but_one`; add it, or leave `rescale` out")
    screening = asked_screen(screen, screen_by, screen_cut)
    if screening is not None and (heads is not None or all_but_one):
        raise HeadtoolError("`screen` chooses heads itself; leave `heads` and `all_but_one` out")
    kinds = None if kinds is None else tuple(kinds)
    chosen = heads_to_ablate(heads, kinds)
    check_replacements(replacement, beside)
    fillings = {name: named_replacement(name, seed=seed) for name in (replacement, *beside)}
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    text = read_data(data, model, limit=limit, limit_order=limit_order, seed=seed)
    adapter = open_model(model)
    ablated = ablated_heads(adapter, chosen, kinds, all_but_one=all_but_one)
    measures = resolve(adapter, metric, search, tokenize=tokenize)
    examples = encode(adapter, text, batch_tokens=batch_tokens, seed=seed)
    sites = adapter.sites.restrict(kinds)
    settings: dict[str, Any] = {
        "all_but_one": all_but_one,
        "rescale": rescale,
        "replacement": replacement,
        **({"beside": list(beside)} if beside else {}),
        "sequential": False,
    }
    meter = begin(
        progress,
        ablation_plan(adapter, examples, ablated, sites, measures, fillings, screening),
        adapter,
        examples,
    )
    with contextlib.ExitStack() as stack:
        execute = stack.enter_context(open_workers(workers))
        screened = None
        if screening is not None:
            with meter.phase("screen"):
                screened = screen_heads(
                    *(adapter, examples, sites, screening),
                    replacement=replacement,
                    seed=seed,
                    execute=execute,
                    progress=labelled(meter, "screen"),
                )
            ablated = [item for item in ablated if item.head in screened.heads]
            examples = screened.evaluation
            settings["screen"] = screened.described
        source = provenance(adapter, examples, "ablate", settings, measures.metric.name, seed)
        source |= measures.described()
        masks = [item.mask for item in ablated]
        store = None
        if folder is not None:
            description = {**source, "masks": digest([mask.to_json() for mask in masks])}
            store = stack.enter_context(store_beside(folder, description, force=force))
        found: dict[str, Measured] = {}
        for name, filling in fillings.items():
            label = f"replacement {name}" if found else "ablate"
            place = store
            if store is not None and found:
                place = stack.enter_context(UnitStore(store.folder / f"replacement.{name}", {}))
            with meter.phase(label):
                found[name] = measure(
                    adapter,
                    examples,
                    masks,
                    measures.metric,
                    search=measures.search,
                    replacement=filling,
                    rescale=rescale,
                    store=place,
                    execute=execute,
                    progress=labelled(meter, label) if found else meter,
                )
        measured = found.pop(replacement)
        outcomes = measured.outcomes
        chosen_of = None if screened is None else screened.frame
        tabulated = partial(_tabulated, ablated, measures.metrics, chosen_of)
        frame = tabulated(outcomes)
        effects = agreement = None
        if found:
            others = {name: one.outcomes for name, one in found.items()}
            effects = replacement_effects(
                {replacement: frame, **{name: tabulated(one) for name, one in others.items()}}
            )
            agreement = replacement_agreement(
                {replacement: outcomes, **others}, measures.metric, seed=seed
            )
        rounding = measure_rounding(
            *(adapter, examples, measures.metrics), seed=seed, execute=execute, meter=meter
        )
        if rounding is not None:
            source["rounding"] = rounding
            source["notes"] = rounding_notes(frame, measures.metrics, rounding, len(examples))
        best = None
        if all_but_one:
            best = best_single_heads(ablated, outcomes, measures.metric, seed=seed)
        if folder is not None:
            tables = {
                "ablation": frame,
                "outcomes": outcomes.to_frame(),
                "sites": site_frame(adapter.sites),
                **measured.texts(),
                **({} if best is None else {"best": best}),
                **({} if chosen_of is None else {"screening": chosen_of}),
                **({} if effects is None else {"replacements": effects}),
                **({} if agreement is None else {"replacement_agreement": agreement}),
                **_further(found),
            }
            write_run(
                folder,
                command=command,
                provenance={"ablate": source},
                tables=tables,
                unfinished=None if store is None else store.folder,
                cost=meter.record(),
                force=force,
            )
    whole = whole_values(outcomes, measures.metrics)
    return Ablation(
        *(frame, whole, source, measured, best, folder, chosen_of, found, effects, agreement)
    )


def _tabulated(
    ablated: Sequence[Ablated],
    metrics: Sequence[Metric],
    screened: pd.DataFrame | None,
    outcomes: Outcomes,
) -> pd.DataFrame:
    """Effects of all heads, those that were screened out as well."""
    return with_untested(ablation_frame(ablated, outcomes, metrics), screened)


def _further(found: Mapping[str, Measured]) -> dict[str, pd.DataFrame]:
    """Outcomes under further replacements as tables; the references are the first's."""
    tables: dict[str, pd.DataFrame] = {}
    for name, one in found.items():
        held = {"outcomes": one.outcomes.to_frame(), **one.texts()}
        held.pop("references", None)
        tables |= {f"{name}.{table}": frame for table, frame in held.items()}
    return tables
