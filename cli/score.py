"""``headtool score``: score the heads of one model on one data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from headtool.cli.console import note, progress_bar
from headtool.cli.groups import DataOptions, LoadOptions, PrintOptions, RunOptions, command
from headtool.cli.options import (
    Data,
    Kinds,
    MethodNames,
    Metric,
    Model,
    Settings,
    parse_settings,
    split_names,
)
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import RenderableType

    from headtool.experiments.stages import Stages
    from headtool.models.base import ModelAdapter
    from headtool.results.scores import HeadScores

__all__ = ["score"]

EXAMPLES = (
    "Examples:\n\nheadtool score --method gradient\n\n"
    "headtool score --method gradient,ablation --model my/model --data dev.tsv --out runs/a\n\n"
    "headtool score --method gates --set gates.heads=20 --format json"
)


@command
def score(
    *,
    method: MethodNames = "gradient",
    model: Model = "builtin:nli",
    data: Data = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
    reading: DataOptions,
    loading: LoadOptions,
    run: RunOptions,
    show: PrintOptions,
) -> None:
    """Score the attention heads of a model with one or more methods.

    With --out, an interrupted `shapley` or `gates` with a sweep continues where it stopped when the
    same command is given again.
    """
    show.prepare()
    import pandas as pd

    from headtool.engine.provenance import provenance
    from headtool.experiments.stages import stages
    from headtool.heads import parse_kinds
    from headtool.methods import get_method
    from headtool.results.scores import scores_document

    names = split_names(method, "method")
    values = parse_settings(settings or [], names)
    chosen = [get_method(name).configured(values[name]) for name in names]
    kinds = parse_kinds(kind) if kind is not None else None
    run.check()
    text = reading.read(data, model)
    adapter = loading.load(model)
    if metric is not None:
        _check_metric(metric, adapter, method, used=any(scorer.uses_metric for scorer in chosen))
    adapter.sites.restrict(kinds)  # an error here costs no work
    examples = reading.encode(adapter, text, quiet=show.quiet)
    scores: list[HeadScores] = []
    seconds: dict[str, float] = {}
    described = provenance(
        adapter,
        examples,
        "score",
        {"kinds": list(kinds or ()), **{scorer.name: scorer.settings() for scorer in chosen}},
        metric or "",
        reading.seed,
    )
    with stages(run.output_dir, described, force=run.force) as kept:
        try:
            with progress_bar(quiet=show.quiet) as progress:
                for scorer in chosen:
                    started = time.perf_counter()
                    scores.append(
                        scorer.score(
                            adapter,
                            examples,
                            kinds=kinds,
                            metric=metric,
                            seed=reading.seed,
                            progress=progress,
                            keep=partial(_keep, kept, scorer.name),
                        )
                    )
                    seconds[scorer.name] = time.perf_counter() - started
        except KeyboardInterrupt:
            # Where parts are kept, the same command continues, and must find its --out free.
            if run.output_dir is not None and scores and not kept.holds_any:
                _write(run, scores, quiet=True)
                missing = ",".join(names[len(scores) :])
                note(
                    f"{run.output_dir} keeps what was finished; give --method {missing} and "
                    "another --out"
                )
            raise
        _write(run, scores, quiet=show.quiet)
    show.print(
        document=lambda: scores_document(scores),
        frame=lambda: pd.concat([result.frame for result in scores], ignore_index=True),
        tables=lambda: _tables(scores, seconds),
    )


def _keep(
    kept: Stages, method: str, part: str, compute: Callable[[], Mapping[str, NDArray[Any]]]
) -> Mapping[str, NDArray[Any]]:
    """Keep a part of a method's work beside the run to be."""
    return kept.keep(f"{method}.{part}", compute)


def _check_metric(metric: str, model: ModelAdapter, method: str, *, used: bool) -> None:
    """Refuse a metric that the model cannot be measured by, or that no method uses."""
    from headtool.metrics import get_metric

    no_effect = f"--metric {metric} has no effect on {method} with these options"
    try:
        get_metric(metric, task=model.task, n_labels=len(model.labels) or None)
    except HeadtoolError as error:
        if used:
            raise
        raise HeadtoolError(f"{no_effect}; leave it out, for it does not fit: {error}") from error
    if not used:
        raise HeadtoolError(f"{no_effect}; leave it out, or add ablation to --method")


def _write(run: RunOptions, scores: list[HeadScores], *, quiet: bool) -> None:
    import pandas as pd

    from headtool.results.runs import site_frame

    tables = {"scores": pd.concat([result.frame for result in scores], ignore_index=True)}
    for result in scores:
        further = {**result.tables, **result.texts}
        tables |= {f"{result.method}.{name}": table for name, table in further.items()}
        if result.outcomes is not None:
            tables[f"{result.method}.outcomes"] = result.outcomes.to_frame()
            sites = result.outcomes.masks[0].sites
            tables["sites"] = site_frame(sites)
    run.write(
        {result.method: dict(result.provenance) for result in scores},
        tables,
        weights={f"{result.method}.weights": result.weights for result in scores if result.weights},
        quiet=quiet,
    )


def _tables(scores: list[HeadScores], seconds: dict[str, float]) -> Iterator[RenderableType]:
    from headtool.reports.terminal.scores import score_tables

    for result in scores:
        yield from score_tables(result, seconds[result.method])
