"""The tables, settings and provenance of a comparison, from what its stages found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headtool.analysis.assembly import assemble
from headtool.analysis.draws import DrawTest
from headtool.analysis.found import Findings
from headtool.analysis.role_runs import join_roles
from headtool.analysis.rounding import rounding_notes
from headtool.engine.provenance import provenance
from headtool.experiments.replication import Replicated
from headtool.experiments.selecting import Roster
from headtool.experiments.setup import Setup
from headtool.experiments.subsampling import Subsampled
from headtool.reports.results import HeadScores
from headtool.results.runs import site_frame
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["further_tables", "manifest_of", "settings_of", "tabulate"]


def tabulate(
    setup: Setup,
    roster: Roster,
    found: Findings,
    halves: Subsampled,
    others: Replicated,
    against_random: Sequence[DrawTest] | None,
    rounding: Mapping[str, Any] | None = None,
) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Make the tables of a `Comparison`, and the settings that only computing them tells.

    Parameters
    ----------
    setup
        What the comparison worked on.
    roster
        The methods, and which failed.
    found
        What closing heads costs.
    halves
        What methods choose on halves of the selection examples.
    others
        What was found of the replicates.
    against_random
        The comparisons with random masks, as `headtool.experiments.drawing.draw` returned them.
    rounding
        The noise of the model's number format, as `headtool.engine.rounding.measure_rounding`
        returned it.
    """
    request, family = setup.request, setup.families[0]
    assembled = assemble(
        found,
        alpha=request.alpha,
        margin=request.margin,
        resamples=request.resamples,
        seed=request.seed,
        against_random=against_random,
    )
    settings = dict(assembled.settings)
    settings["notes"] = [*setup.split.notes, *settings["notes"], *others.notes]
    if request.faithfulness and request.keep_one_per_layer:
        settings["notes"].append(
            "keep-only curves are left out: with a head of every layer kept, none closes all heads"
        )
    if rounding is not None:
        settings["rounding"] = dict(rounding)
        effects = found.ablations[found.evaluation]
        settings["notes"] += rounding_notes(
            effects, setup.measures.metrics, rounding, len(setup.split.first)
        )
    settings["replicates"] = dict(others.models)
    tables = {
        **assembled.tables,
        **halves.tables(family, alpha=request.alpha),
        **others.tables(
            family,
            assembled.tables["curve_tests"],
            setup.measures.metric,
            {"alpha": request.alpha, "seed": request.seed, **assembled.settings},
            against_random,
        ),
        "splits": setup.split.frame,
        "sites": site_frame(setup.model.sites),
        "failures": TABLES["failures"].frame(roster.failures),
        **_roles(setup, assembled.tables["kept"]),
    }
    # What was not asked for, or does not apply, has no rows by now.
    return {name: frame for name, frame in tables.items() if len(frame)}, settings


def _roles(setup: Setup, kept: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Roles and what is kept of them, where some were given."""
    if setup.roles is None:
        return {}
    return join_roles(setup.roles, setup.description["model"], kept)


def further_tables(found: Findings, scores: Mapping[str, HeadScores]) -> dict[str, pd.DataFrame]:
    """Make what the run of a comparison holds besides its tables: outcomes, and methods' own.

    Parameters
    ----------
    found
        What closing heads costs.
    scores
        The scores by method.
    """
    tables = {
        "outcomes" if number == 1 else f"outcomes.{number}": outcomes.to_frame()
        for number, outcomes in enumerate(found.singles.values(), start=1)
    }
    tables["curve_outcomes"] = found.outcomes.to_frame()
    for name, scored in scores.items():
        tables |= {f"{name}.{table}": frame for table, frame in scored.tables.items()}
    return tables


def settings_of(
    setup: Setup, scores: Mapping[str, HeadScores], computed: Mapping[str, Any]
) -> dict[str, Any]:
    """Put together the settings of a `Comparison`: what was asked for and found, as JSON.

    Parameters
    ----------
    setup
        What the comparison worked on.
    scores
        The scores by method, without methods that failed.
    computed
        The settings that `tabulate` returned.
    """
    metric, split, description = setup.measures.metric, setup.split, setup.description
    return {
        **setup.request.options,
        "command": setup.name,
        "metric": metric.name,
        "higher_is_better": metric.higher_is_better,
        "methods": list(scores),
        "data": list(split.evaluation),
        "select_data": split.select_data,
        "budgets": list(setup.families[0].budgets),
        "heads": setup.sites.n_heads,
        **setup.measures.described(),
        "model": description["model"],
        "sources": split.sources,
        "selection_source": split.selection_source,
        "provenance": {name: dict(scored.provenance) for name, scored in scores.items()},
        "versions": description["versions"],
        **({"roles": setup.roles.described} if setup.roles is not None else {}),
        **computed,
    }


def manifest_of(setup: Setup, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put together the provenance of the run.

    ``compare`` adds an ``ablate`` entry, so that ``headtool test`` finds its outcomes.

    Parameters
    ----------
    setup
        What the comparison worked on.
    settings
        Its settings.
    """
    made: dict[str, Any] = {setup.name: dict(settings)}
    if setup.name == "compare":
        alone = {
            "all_but_one": False,
            "rescale": False,
            "replacement": setup.request.replacement,
            "sequential": False,
        }
        source = provenance(
            *(setup.model, setup.split.first, "ablate", alone),
            *(setup.measures.metric.name, setup.request.seed),
        )
        rounding = {"rounding": settings["rounding"]} if "rounding" in settings else {}
        made["ablate"] = {**source, **setup.measures.described(), **rounding}
    return made
