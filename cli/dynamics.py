"""``headtool dynamics``: head importance and prunability over the checkpoints of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.choices import chosen_kinds, chosen_methods
from headtool.cli.console import note, this_command
from headtool.cli.curve_options import KeepOne, SelectData, Steps
from headtool.cli.groups import (
    CostOptions,
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    SearchOptions,
    command,
)
from headtool.cli.options import Data, Kinds, Metric, Settings
from headtool.cli.worker_options import WorkerOptions

__all__ = ["dynamics"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool dynamics --checkpoints 'run/checkpoint*.pt' --data dev.de,dev.en --out runs/dyn\n\n"
    "headtool dynamics --checkpoints path/to/trainer-output --data dev.tsv --method ablation\n\n"
    "headtool dynamics --checkpoints 'run/checkpoint[0-9].pt' --data dev.de,dev.en --metric bleu"
)

Checkpoints = Annotated[
    str,
    typer.Option(
        metavar="PATTERN",
        help="Quoted: fairseq checkpoints such as 'run/checkpoint*.pt', folders of transformers "
        "models such as 'run/checkpoint-*', or the output folder of a Trainer.",
        rich_help_panel="Model",
    ),
]
FigureFile = Annotated[
    Path | None,
    typer.Option(
        "--figure",
        metavar="FILE",
        help="Draw it as well: a .pdf, .png or .svg file.",
        rich_help_panel="Output",
    ),
]
OneMethod = Annotated[
    str, typer.Option("--method", metavar="NAME", help="Scoring method; see `headtool methods`.")
]


@command
def dynamics(
    *,
    checkpoints: Checkpoints,
    method: OneMethod = "gradient",
    data: Data = None,
    select_data: SelectData = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
    decoding: SearchOptions,
    steps: Steps = "20%",
    keep_one_per_layer: KeepOne = False,
    reading: DataOptions,
    loading: LoadOptions,
    spread: WorkerOptions,
    figure: FigureFile = None,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Follow heads over training: their scores, what pruning costs, and how stable their ranks are.

    At each checkpoint, heads are scored on one half of the data and removed in ascending order; the
    other half shows what is left, relative to the whole model of that checkpoint. With --out, an
    interrupted run continues.
    """
    show.prepare()
    (scorer,) = chosen_methods(method, settings, several=False)
    kinds = chosen_kinds(kind)
    from headtool.experiments.dynamics import dynamics as follow
    from headtool.reports.terminal.dynamics import dynamics_tables

    search = decoding.asked(metric)
    with spread.at_work(cost, show) as at_work:
        course = follow(
            checkpoints,
            reading.source(data),
            method=scorer,
            select_data=None if select_data is None else reading.source(select_data),
            kinds=kinds,
            metric=metric,
            search=search,
            steps=steps,
            keep_one_per_layer=keep_one_per_layer,
            loading=loading.source(""),
            figure=figure,
            **reading.amounts,
            **run.place,
            command=this_command(),
            **at_work,
        )
    run.tell(quiet=show.quiet)
    if figure is not None:
        note(f"drawn in {figure}", quiet=show.quiet)
    show.print(
        document=course.document,
        frame=lambda: course.frame,
        tables=lambda: dynamics_tables(course.tables, course.method, course.metric),
    )
