"""The stages of a comparison: score, remove, evaluate, tabulate. Nothing here prints or writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headtool.analysis.assembly import Findings, MaskNumbers, assemble, lines_of
from headtool.analysis.equivalence import check_margin
from headtool.analysis.paired import Paired
from headtool.analysis.role_runs import SavedRoles, check_roles, join_roles
from headtool.data import TextData
from headtool.engine.measurement import described, resolve
from headtool.engine.provenance import provenance
from headtool.errors import HeadtoolError
from headtool.experiments.ablation import ablation_frame
from headtool.experiments.replication import replicate, replicates_of
from headtool.experiments.request import Request
from headtool.experiments.selecting import Selection
from headtool.experiments.splitting import Split, split_data
from headtool.experiments.stages import Stages
from headtool.experiments.subsampling import check_subsampling, subsample
from headtool.heads import HeadMask
from headtool.masks.curves import CurveMasks
from headtool.masks.order import families
from headtool.masks.singles import single_masks
from headtool.methods.ablation import Ablation
from headtool.methods.base import Method
from headtool.models.base import ModelAdapter
from headtool.progress import Progress, labelled, silent
from headtool.results.outcomes import Outcomes
from headtool.results.runs import site_frame
from headtool.results.scores import HeadScores, head_frame
from headtool.schema import TABLES
from headtool.searching import Search

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

__all__ = ["Pipeline"]


class Pipeline:
    """A comparison of methods on one model.

    Parameters
    ----------
    model
        The model.
    data
        Data sets; the first is the one of the curves.
    select_data
        Where heads are scored; None halves the first data set.
    request
        What to compare and how.
    replicates
        The same architecture trained again.
    name
        ``compare``, or ``curve``, which leaves out single heads.
    roles
        Roles of the model's heads, to be joined with the heads that methods keep.
    progress
        Reports progress.

    Raises
    ------
    HeadtoolError
        If request, model, data and roles do not fit together.
    """

    def __init__(
        self,
        model: ModelAdapter,
        data: Sequence[TextData],
        select_data: TextData | None,
        request: Request,
        *,
        replicates: Sequence[ModelAdapter] = (),
        name: str = "compare",
        roles: SavedRoles | None = None,
        progress: Progress = silent,
    ) -> None:
        self.model, self.request, self.name, self.progress = model, request, name, progress
        self.sites = model.sites.restrict(request.kinds)
        self.roles = roles
        if roles is not None:
            described_model = {"spec": model.spec, "sha256": model.fingerprint}
            check_roles(roles, described_model, head_frame(self.sites))
        if request.per_kind and len(self.sites.kinds) == 1:
            raise HeadtoolError(
                f"`per_kind` needs several kinds of attention, and there is {self.sites.kinds[0]} "
                "alone; leave it out"
            )
        self.families = families(
            self.sites,
            request.steps,
            keep_one=request.keep_one_per_layer,
            per_kind=request.per_kind,
        )
        measures = resolve(model, request.metric, request.search)
        self.metric, self.metrics = measures.metric, measures.metrics
        self.search = measures.search
        methods = tuple(_decoding_alike(method, self.search) for method in request.methods)
        self.request = dataclasses.replace(request, methods=methods)
        self.split: Split = split_data(
            model,
            data,
            select_data,
            limit=request.limit,
            batch_tokens=request.batch_tokens,
            seed=request.seed,
        )
        check_subsampling(request.stability, self.split)
        self.replicates = replicates_of(
            *(model, self.split, replicates, data[0], select_data),
            limit=request.limit,
            batch_tokens=request.batch_tokens,
            seed=request.seed,
        )
        self.weights: dict[str, Mapping[str, Tensor]] = {}

    @cached_property
    def description(self) -> dict[str, Any]:
        """What makes it the same comparison; as JSON."""
        options = {
            field.name: getattr(self.request, field.name)
            for field in dataclasses.fields(self.request)
            if field.name not in ("methods", "search")
        }
        first = self.split.first
        source = provenance(
            self.model, first, self.name, options, self.metric.name, self.request.seed
        )
        return {
            **source,
            **described(self.metric, self.search),
            "methods": {method.name: method.settings() for method in self.request.methods},
            "data": self.split.sources,
            "selection": self.split.selection_source,
            "replicates": {one.spec: one.model.fingerprint for one in self.replicates},
        }

    def manifest(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the provenance of the run, by which other commands find the outcomes in it too."""
        made: dict[str, Any] = {self.name: dict(settings)}
        if self.name == "compare":
            first = self.split.first
            alone = {"all_but_one": False, "rescale": False, "replacement": "zero"}
            made["ablate"] = {
                **provenance(
                    self.model,
                    first,
                    "ablate",
                    {**alone, "sequential": False},
                    self.metric.name,
                    self.request.seed,
                ),
                **described(self.metric, self.search),
            }
        return made

    def run(self, kept: Stages) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
        """Run all stages that are not finished; the tables and the settings.

        Raises
        ------
        HeadtoolError
            If all methods fail, or the model cannot be evaluated.
        """
        request = self.request
        selection = Selection(
            self.model, self.sites, self.split, request, self.metric.name, kept, self.progress
        )
        selection.score()
        closed = {family.kind: selection.closed(family) for family in self.families}
        curves = tuple(
            CurveMasks.draw(
                family.kind,
                family.sites,
                family.budgets,
                {name: closed[family.kind][name] for name in selection.scored},
                draws=request.draws,
                keep_one=family.keep_one,
                seed=request.seed,
            )
            for family in self.families
        )
        found = self._evaluated(kept, selection, curves)
        subsampled = subsample(selection, self.families[0], request.stability)
        replicated = replicate(
            selection, found, self.families[0], self.replicates, self.metrics, self.search
        )
        assembled = assemble(
            found,
            alpha=request.alpha,
            margin=request.margin,
            resamples=request.resamples,
            seed=request.seed,
        )
        sites = site_frame(self.model.sites)
        tables = {
            **assembled.tables,
            **subsampled.tables(self.families[0], alpha=request.alpha),
            **replicated.tables(
                self.families[0],
                assembled.tables["curve_tests"],
                self.metric,
                {"alpha": request.alpha, "seed": request.seed, **assembled.settings},
            ),
            "splits": self.split.frame,
            "sites": sites,
            "failures": TABLES["failures"].frame(selection.failures),
            **self._roles(assembled.tables["kept"]),
        }
        for number, outcomes in enumerate(found.singles.values(), start=1):
            tables["outcomes" if number == 1 else f"outcomes.{number}"] = outcomes.to_frame()
        tables["curve_outcomes"] = found.outcomes.to_frame()
        for name, scores in selection.scored.items():
            tables |= {f"{name}.{table}": frame for table, frame in scores.tables.items()}
            if scores.weights:
                self.weights[f"{name}.weights"] = scores.weights
        settings = dict(assembled.settings)
        settings["notes"] = [*settings["notes"], *replicated.notes]
        settings["replicates"] = dict(replicated.models)
        # What was not asked for, or does not apply, has no rows by now.
        filled = {name: frame for name, frame in tables.items() if len(frame)}
        return filled, self._settings(selection.scored, settings)

    def _roles(self, kept: pd.DataFrame) -> dict[str, pd.DataFrame]:
        """Roles and what is kept of them, where some were given."""
        if self.roles is None:
            return {}
        return join_roles(self.roles, self.description["model"], kept)

    def _evaluated(
        self, kept: Stages, selection: Selection, curves: Sequence[CurveMasks]
    ) -> Findings:
        """Run all masks, each once."""
        all_sites = self.model.sites
        alone = single_masks(all_sites, self.sites.heads) if self.name == "compare" else []
        first, *others = self.split.evaluation
        numbers = MaskNumbers()
        places = [numbers.add(item.mask) for item in alone]
        again = {}
        if alone:
            # Ablation scores by these too, and a margin that makes no sense is best told now.
            measured = self._outcomes(kept, "singles", first, numbers.masks)
            check_margin(Paired.from_outcomes(measured, self.metric), self.request.margin)
            selection.score(again=True)
            again = selection.closed(self.families[0], again=True)
        lines = [
            line
            for masks in curves
            for line in lines_of(
                masks.only(selection.scored),
                again if masks.kind == curves[0].kind else {},
                all_sites,
                numbers.add,
            )
        ]
        outcomes = self._outcomes(kept, "curves", first, numbers.masks)
        singles: dict[str, Outcomes] = {}
        if alone:
            singles[first] = outcomes.take(places)
            for number, spec in enumerate(others, start=2):
                singles[spec] = self._outcomes(
                    kept, f"singles.{number}", spec, [item.mask for item in alone]
                )
        return Findings(
            sites=self.sites,
            metrics=self.metrics,
            scores={name: scores.frame for name, scores in selection.scored.items()},
            selection=self.split.selection_spec,
            evaluation=first,
            singles=singles,
            ablations={
                spec: ablation_frame(alone, result, self.metrics)
                for spec, result in singles.items()
            },
            curves=tuple(masks.only(selection.scored) for masks in curves),
            outcomes=outcomes,
            lines=tuple(lines),
            again={name: scores.frame for name, scores in selection.again.items()},
        )

    def _outcomes(self, kept: Stages, stage: str, spec: str, masks: Sequence[HeadMask]) -> Outcomes:
        """Run masks on the evaluation examples of a data set."""
        return kept.measure(
            stage,
            self.model,
            self.split.evaluation[spec],
            masks,
            self.metric,
            search=self.search,
            progress=labelled(self.progress, stage),
        ).outcomes

    def _settings(
        self, scored: Mapping[str, HeadScores], found: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The settings of a `Comparison`."""
        request, description = self.request, self.description
        return {
            "command": self.name,
            "metric": self.metric.name,
            "higher_is_better": self.metric.higher_is_better,
            "methods": list(scored),
            "data": list(self.split.evaluation),
            "select_data": self.split.select_data,
            "budgets": list(self.families[0].budgets),
            "heads": self.sites.n_heads,
            **{
                name: getattr(request, name)
                for name in (
                    "kinds",
                    "steps",
                    "iterative",
                    "keep_one_per_layer",
                    "per_kind",
                    "draws",
                    "alpha",
                    "margin",
                    "stability",
                    "limit",
                    "batch_tokens",
                    "seed",
                )
            },
            **described(self.metric, self.search),
            "model": description["model"],
            "sources": self.split.sources,
            "selection_source": self.split.selection_source,
            "provenance": {name: dict(scores.provenance) for name, scores in scored.items()},
            "versions": description["versions"],
            **({"roles": self.roles.described} if self.roles is not None else {}),
            **found,
        }


def _decoding_alike(method: Method, search: Search | None) -> Method:
    """Let ablation decode as the comparison does, unless it was told how."""
    if (
        search is None
        or not isinstance(method, Ablation)
        or not method.uses_metric
        or (method.beam, method.length_penalty) != (None, None)
    ):
        return method
    penalty = search.length_penalty if search.beam != 1 else None
    return dataclasses.replace(method, beam=search.beam, length_penalty=penalty)
