"""``headtool compare``: several methods on one model, and which heads each keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.choices import chosen_kinds, chosen_methods, saved_methods
from headtool.cli.console import this_command
from headtool.cli.curve_options import CurveOptions, SelectData
from headtool.cli.groups import (
    CostOptions,
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    SearchOptions,
    command,
)
from headtool.cli.launch import finish
from headtool.cli.options import (
    Kinds,
    MethodNames,
    Metric,
    Model,
    SavedScores,
    Settings,
    whole_number,
)
from headtool.cli.worker_options import WorkerOptions
from headtool.experiments.request import Request

__all__ = ["compare"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool compare --out runs/first\n\n"
    "headtool compare --data builtin:nli/matched --data builtin:nli/mismatched --limit 400\n\n"
    "headtool compare --method gradient,ablation,confidence --model path/to/model --data dev.tsv "
    "--data other.tsv --out runs/dev\n\n"
    "headtool compare --model path/to/model --data dev.tsv --roles runs/roles --out runs/roles-kept"
)

_METHODS = ",".join(map(str, Request.methods))

ManyData = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="SPEC",
        help="A data set, as in `headtool score`; may be repeated. The first is the one of the "
        "curves. Default: the built-in set of the model's task.",
        rich_help_panel="Data",
    ),
]
Stability = Annotated[
    int,
    typer.Option(
        "--stability",
        parser=whole_number("--stability", least=0),
        metavar="N",
        help="Score heads again on N random halves of the examples that select them: how alike the "
        "rankings are, and how often each head stays. 20 or more are useful. Costs N/2 times the "
        "scoring of every method (times the steps with --iterative), except for the masks of "
        "ablation, which are not run again. 0: none.",
        rich_help_panel="Stability",
    ),
]
Replicates = Annotated[
    list[str] | None,
    typer.Option(
        "--replicate",
        metavar="SPEC",
        help="The same architecture trained with another seed, as for --model; may be repeated. "
        "Heads are scored and curves run on each, which costs as much again, and curves are "
        "compared over all models. Heads have counterparts in another model only if both were "
        "fine-tuned from one; layers always have.",
        rich_help_panel="Stability",
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        metavar="SIZE",
        help="What a removable head may cost, in the metric's unit. "
        "Default: 1% of the metric's scale.",
    ),
]
RolesRun = Annotated[
    Path | None,
    typer.Option(
        "--roles",
        metavar="RUN",
        help="A run of `headtool roles` on this model: which roles does each method leave?",
    ),
]


@command
def compare(
    *,
    method: MethodNames = _METHODS,
    model: Model = "builtin:nli",
    data: ManyData = None,
    select_data: SelectData = None,
    scores: SavedScores = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
    decoding: SearchOptions,
    curves: CurveOptions,
    margin: Margin = Request.margin,
    stability: Stability = Request.stability,
    replicate: Replicates = None,
    roles: RolesRun = None,
    reading: DataOptions,
    loading: LoadOptions,
    spread: WorkerOptions,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Compare methods: do they agree, which heads does each keep, do they beat random masks.

    Heads are scored on one half of the data and everything is measured on the other: what single
    heads are worth, with tests; what is left of the model as each method removes heads, beside
    random masks; how far the methods agree. With --out, an interrupted comparison continues where
    it stopped when the same command is given again, and a method that fails does not lose the
    others.
    """
    show.prepare()
    kinds, methods = (
        chosen_kinds(kind),
        [
            *chosen_methods(method, settings),
            *saved_methods(scores),
        ],
    )
    from headtool.experiments.compare import compare as compare_methods
    from headtool.reports.terminal.comparison import comparison_tables, head_table

    with spread.at_work(cost, show) as at_work:
        comparison = compare_methods(
            loading.source(model),
            [reading.source(spec) for spec in data] if data else reading.source(None),
            select_data=None if select_data is None else reading.source(select_data),
            replicates=[loading.source(spec) for spec in replicate or []],
            roles=roles,
            methods=methods,
            kinds=kinds,
            metric=metric,
            search=decoding.asked(metric),
            margin=margin,
            stability=stability,
            **curves.fields,
            **reading.amounts,
            **run.place,
            command=this_command(),
            **at_work,
        )
    show.notes(comparison.settings["notes"])
    show.print(
        document=comparison.document,
        frame=lambda: head_table(comparison),
        tables=lambda: comparison_tables(comparison, verdict=comparison.verdict),
    )
    finish(comparison, quiet=show.quiet)
