"""Compare methods on one model: what ``headtool compare`` and ``headtool curve`` do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headtool.engine.rounding import measure_rounding
from headtool.experiments.comparison_plan import comparison_plan, scoring_passes
from headtool.experiments.drawing import draw
from headtool.experiments.evaluating import evaluate_chosen
from headtool.experiments.inputs import DataLike, ModelSource
from headtool.experiments.planning import begin
from headtool.experiments.replication import replicate
from headtool.experiments.request import Request
from headtool.experiments.selecting import Roster, ScoringRound, choose
from headtool.experiments.setup import Setup, set_up
from headtool.experiments.stages import SharedOutcomes, stages
from headtool.experiments.subsampling import subsample
from headtool.experiments.tabulating import further_tables, manifest_of, settings_of, tabulate
from headtool.models.base import ModelAdapter
from headtool.progress import ProgressLike, silent
from headtool.reports.results import Comparison
from headtool.reports.writing import add_report
from headtool.results.folders import check_output
from headtool.results.runs import write_run
from headtool.workers.pool import WorkersLike, open_workers

__all__ = ["compare", "curve", "run_comparison"]


def compare(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    data: DataLike | Sequence[DataLike] | None = None,
    request: Request | None = None,
    *,
    select_data: DataLike | None = None,
    replicates: Sequence[ModelAdapter | ModelSource | str] = (),
    roles: Path | str | None = None,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
    **options: Any,
) -> Comparison:
    """Compare scoring methods on one model: what they keep, what that costs, and if they agree.

    Heads are scored on one half of the first data set, drawn at random, or on `select_data`.
    Everything else is measured on the other half, and on all of the further data sets.

    Parameters
    ----------
    model
        A model, or its SPEC.
    data
        One or more data sets, or their SPECs; the first is the one of the curves. None for the
        built-in set of a built-in model.
    request
        What to compare and how; None for the defaults.
    select_data
        Scores heads on this data set, so that the first of `data` is not halved.
    replicates
        The same architecture trained with other seeds, or their SPECs: does what is found hold for
        them?
    roles
        Run directory of ``headtool roles`` on the same model: which roles does each method leave?
    out
        Run directory to write, with a report in it. While it is unfinished, what was done lies
        beside it and is continued by the same call.
    force
        Replace a run that is there.
    command
        The command line that makes the run again, for its manifest.
    workers
        How many processes run the units of work, or a `headtool.Workers`; None: this one alone.
    progress
        Reports progress; True shows a bar.
    options
        Fields of `Request`, such as ``methods`` or ``steps``, which replace those of `request`.

    Returns
    -------
    Comparison
        Its tables; methods that failed are in `Comparison.failures`.

    Raises
    ------
    HeadtoolError
        If something does not fit, or all methods fail.

    Examples
    --------
    >>> import headtool
    >>> found = headtool.compare(
    ...     "builtin:nli", methods=["gradient", "magnitude"], limit=16, steps="50%", draws=2
    ... )
    >>> found.curves["method"].unique().tolist()[:3]
    ['gradient', 'magnitude', 'random']
    >>> headtool.compare("builtin:nli", step="50%")
    Traceback (most recent call last):
        ...
    headtool.errors.HeadtoolError: unknown option 'step'; did you mean 'steps'? (known: ...)
    """
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    setup = set_up(
        *(model, data, request),
        select_data=select_data,
        replicates=replicates,
        roles=roles,
        **options,
    )
    return run_comparison(
        setup, folder, force=force, command=command, workers=workers, progress=progress
    )


def curve(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    data: DataLike | None = None,
    request: Request | None = None,
    *,
    select_data: DataLike | None = None,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
    **options: Any,
) -> Comparison:
    """Draw pruning curves: what is left of the metric as each method removes heads.

    It is `compare` without single heads and without agreement between methods.

    Parameters
    ----------
    model, request, select_data, out, force, command, workers, progress, options
        As for `compare`. The method is ``gradient`` where none is named; a ``margin`` is refused,
        because no head is tested.
    data
        A data set, or its SPEC; None for the built-in set of a built-in model.

    Returns
    -------
    Comparison
        Its tables; those about single heads and agreement have no rows.

    Raises
    ------
    HeadtoolError
        If something does not fit, or all methods fail.

    Examples
    --------
    >>> import headtool
    >>> found = headtool.curve(
    ...     "builtin:nli", methods=["magnitude"], limit=16, steps="50%", draws=2
    ... )
    >>> here = (found.curves["method"] == "magnitude") & (found.curves["share"] == 0.5)
    >>> int(here.sum())
    1
    """
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    setup = set_up(model, data, request, select_data=select_data, name="curve", **options)
    return run_comparison(
        setup, folder, force=force, command=command, workers=workers, progress=progress
    )


def run_comparison(
    setup: Setup,
    out: Path | None,
    *,
    force: bool = False,
    command: str = "",
    workers: WorkersLike = None,
    progress: ProgressLike = silent,
    shared: SharedOutcomes | None = None,
) -> Comparison:
    """Run all stages that are not finished yet, and write the run and its report.

    Parameters
    ----------
    setup
        What the comparison works on.
    out, force, command, workers, progress
        As for `compare`; `out` was checked.
    shared
        Outcomes that comparisons on the same model and data share; None: it is alone.
    """
    roster = Roster(setup.methods)
    plan = comparison_plan(setup)
    meter = begin(progress, plan, setup.model, setup.split.selection)
    with (
        open_workers(workers) as execute,
        stages(
            *(out, setup.description),
            force=force,
            execute=execute,
            progress=meter,
            shared=shared,
        ) as kept,
    ):
        now = ScoringRound.on_selection(setup)
        chosen = choose(setup, kept, roster, now, setup.families)
        found = evaluate_chosen(setup, kept, roster, chosen)
        with meter.phase("stability"):
            halves = subsample(setup, kept, roster)
        with meter.phase("replicates"):
            others = replicate(setup, kept, roster, found)
        scores = {name: chosen.scores[name] for name in roster.names}
        with meter.phase("draws"):
            against_random = draw(setup, kept, found, others)
        rounding = measure_rounding(
            *(setup.model, setup.split.first, found.metrics if found.ablations else ()),
            seed=setup.request.seed,
            execute=execute,
            meter=meter,
        )
        tables, computed = tabulate(setup, roster, found, halves, others, against_random, rounding)
        computed["passes"] = scoring_passes(setup, plan, list(scores))
        comparison = Comparison.from_tables(tables, settings_of(setup, scores, computed))
        if out is None:
            return comparison
        run = write_run(
            out,
            command=command,
            provenance=manifest_of(setup, comparison.settings),
            tables={**tables, **further_tables(found, scores)},
            weights={f"{name}.weights": one.weights for name, one in scores.items() if one.weights},
            unfinished=kept.folder,
            finish=add_report,
            cost=meter.record(),
            force=force,
        )
    created = str(run.manifest["created"])
    return replace(comparison, command=command, created=created, folder=out)
