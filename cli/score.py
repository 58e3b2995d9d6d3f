"""``headtool score``: score the heads of one model on one data set."""

from __future__ import annotations

from typing import Annotated

import typer

from headtool.cli.choices import chosen_kinds, chosen_methods
from headtool.cli.console import this_command
from headtool.cli.groups import (
    CostOptions,
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    command,
)
from headtool.cli.options import Data, Kinds, MethodNames, Metric, Model, Settings
from headtool.cli.replacement_options import WHICH, replacements
from headtool.cli.worker_options import WorkerOptions

__all__ = ["score"]

Iterative = Annotated[
    bool,
    typer.Option(
        "--iterative",
        metavar="",
        help="Remove the lowest heads step by step and score the others again after every step. "
        "Scores are then places in the order of removal: 0 leaves first.",
    ),
]
Steps = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="With --iterative: heads that leave in a step, such as 10% (the default) or 4.",
    ),
]
Fill = Annotated[
    str | None,
    typer.Option(
        "--replacement",
        metavar="NAME,...",
        help=f"What closed heads put out, for ablation, and for attribution and integrated their "
        f"baseline: {WHICH}. Of several, such as zero,mean, the others are shown beside the first.",
    ),
]

EXAMPLES = (
    "Examples:\n\nheadtool score --method gradient\n\n"
    "headtool score --method gradient,ablation --model my/model --data dev.tsv --out runs/a\n\n"
    "headtool score --method gradient --iterative --steps 25% --out runs/removal\n\n"
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
    iterative: Iterative = False,
    steps: Steps = None,
    fill: Fill = None,
    reading: DataOptions,
    loading: LoadOptions,
    spread: WorkerOptions,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Score the attention heads of a model with one or more methods.

    With --out, an interrupted `shapley` or `gates` with a sweep continues where it stopped when the
    same command is given again.
    """
    show.prepare()
    kinds, methods = chosen_kinds(kind), chosen_methods(method, settings)
    from headtool.experiments.score import score as score_heads
    from headtool.reports.terminal.replacements import replacement_score_tables
    from headtool.reports.terminal.scores import score_tables

    with spread.at_work(cost, show) as at_work:
        scoring = score_heads(
            loading.source(model),
            reading.source(data),
            methods=methods,
            kinds=kinds,
            metric=metric,
            iterative=iterative,
            steps=steps,
            **replacements(fill),
            **reading.amounts,
            **run.place,
            command=this_command(),
            **at_work,
        )
    run.tell(quiet=show.quiet)
    show.print(
        document=scoring.document,
        frame=lambda: scoring.replacements.get("replacement_scores", scoring.frame),
        tables=lambda: (
            *(
                table
                for result in scoring.results
                for table in score_tables(result, scoring.seconds[result.method])
            ),
            *replacement_score_tables(scoring.replacements),
        ),
    )
