"""``headtool correlate``: whether the same heads are important on other data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headtool.cli.choices import chosen_kinds
from headtool.cli.groups import (
    CostOptions,
    DataOptions,
    LoadOptions,
    PrintOptions,
    SearchOptions,
    command,
)
from headtool.cli.options import Kinds, Model
from headtool.cli.searching import Tokenize
from headtool.cli.worker_options import WorkerOptions
from headtool.errors import HeadtoolError

__all__ = ["correlate"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool correlate --data builtin:nli/matched --data builtin:nli/mismatched\n\n"
    "headtool correlate --model path/to/model --data dev.tsv --data other.tsv --metric loss\n\n"
    "headtool correlate --model builtin:mt --data builtin:mt/test --data builtin:mt/noisy "
    "--metric bleu --greedy\n\n"
    "headtool correlate runs/dev runs/other\n\n"
    "headtool correlate runs/theirs runs/scores"
)

Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[RUN]...",
        help="Runs of `headtool ablate`, `score` or `import`, instead of --data.",
    ),
]
ManyData = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="SPEC", help="A data set; give two or more."),
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Such as accuracy, mcc, loss; of written text bleu, chrf, ter, rougeL, which decode. "
        "Default: the runs' own; with --data accuracy, pearson or loss, by the task.",
    ),
]
Permutations = Annotated[
    int, typer.Option(metavar="N", help="Orders of the heads behind the p-values.")
]
Resamples = Annotated[int, typer.Option(metavar="N", help="Bootstrap resamples of the examples.")]


@command
def correlate(
    *,
    runs: Runs = None,
    model: Model = "builtin:nli",
    data: ManyData = None,
    kind: Kinds = None,
    metric: Metric = None,
    decoding: SearchOptions,
    tokenize: Tokenize = None,
    reading: DataOptions,
    permutations: Permutations = 10_000,
    resamples: Resamples = 2_000,
    loading: LoadOptions,
    spread: WorkerOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Correlate what single heads are worth on two or more data sets.

    The importance of a head is what the metric loses without it. Also says on how many of the data
    sets each head has an effect. Heads of one layer resemble each
    other, so the p-value to read is the one that permutes heads within their layers.
    """
    show.prepare()
    from headtool.experiments.correlation import correlate as correlate_data
    from headtool.experiments.correlation import correlate_runs
    from headtool.reports.terminal.correlation import correlation_tables

    if bool(runs) == bool(data):
        raise HeadtoolError("give either two or more runs, or two or more --data, and not both")
    asked: dict[str, Any] = {
        "kinds": chosen_kinds(kind),
        "metric": metric,
        "permutations": permutations,
        "resamples": resamples,
    }
    if runs:
        if decoding.given or tokenize is not None:
            raise HeadtoolError(
                "--beam, --greedy, --lenpen, --max-new-tokens and --tokenize are for --data: runs "
                "are decoded already"
            )
        if reading.limit is not None:
            raise HeadtoolError("--limit is for --data: runs have used their examples already")
        found = correlate_runs(runs, seed=reading.seed, **asked)
    else:
        search = decoding.asked(metric)
        with spread.at_work(cost, show) as at_work:
            found = correlate_data(
                loading.source(model),
                [reading.source(spec) for spec in data or []],
                search=search,
                tokenize=tokenize,
                **at_work,
                **reading.amounts,
                **asked,
            )
    show.notes(found.notes)
    show.print(
        document=found.document,
        frame=lambda: found.frame,
        tables=lambda: correlation_tables(found.frame, found.replication),
    )
