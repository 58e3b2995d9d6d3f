"""``headtool ablate``: close heads one at a time, or all but one, and keep every outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtool.cli.choices import chosen_kinds, split_names
from headtool.cli.console import this_command
from headtool.cli.groups import (
    CostOptions,
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    SearchOptions,
    command,
)
from headtool.cli.options import Data, Kinds, Metric, Model
from headtool.cli.replacement_options import WHICH, replacements
from headtool.cli.screen_options import ScreenBy, ScreenCut, ScreenHeads
from headtool.cli.searching import Tokenize
from headtool.cli.worker_options import WorkerOptions
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.experiments.inputs import DataSource, ModelSource

__all__ = ["ablate"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool ablate --out runs/dev\n\n"
    "headtool ablate --model path/to/model --data dev.tsv --heads enc-self.0.3,enc-self.5.1\n\n"
    "headtool ablate --all-but-one --metric loss\n\n"
    "headtool ablate --replacement zero,mean --out runs/both\n\n"
    "headtool ablate --model builtin:mt --metric bleu --greedy --out runs/bleu"
)

Heads = Annotated[
    str | None,
    typer.Option("--heads", metavar="HEAD,...", help="These heads, such as enc-self.3.7."),
]
AllButOne = Annotated[
    bool,
    typer.Option(
        "--all-but-one",
        metavar="",
        help="Close all heads of a site but one. The best head of each site is chosen on one half "
        "of the examples and reported on the other.",
    ),
]
Rescale = Annotated[
    bool,
    typer.Option(
        "--rescale",
        metavar="",
        help="Multiply the open heads of a site by heads / open heads.",
    ),
]
Sequential = Annotated[
    bool,
    typer.Option(
        "--sequential",
        metavar="",
        help="Stop each head as soon as its verdict is clear, by anytime-valid tests of accuracy. "
        "Prints verdicts instead of deltas.",
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        metavar="SIZE",
        help="With --sequential: accuracy that a removable head may cost. Default: 0.01.",
    ),
]
Fill = Annotated[
    str,
    typer.Option(
        "--replacement",
        metavar="NAME,...",
        help=f"What a closed head puts out: {WHICH}. Of several, such as zero,mean, the others are "
        "shown beside the first, for as many passes again.",
    ),
]


@command
def ablate(
    *,
    model: Model = "builtin:nli",
    data: Data = None,
    heads: Heads = None,
    kind: Kinds = None,
    all_but_one: AllButOne = False,
    rescale: Rescale = False,
    sequential: Sequential = False,
    margin: Margin = None,
    fill: Fill = "zero",
    screen: ScreenHeads = None,
    screen_by: ScreenBy = "attribution",
    screen_cut: ScreenCut = 0.5,
    metric: Metric = None,
    decoding: SearchOptions,
    tokenize: Tokenize = None,
    reading: DataOptions,
    loading: LoadOptions,
    spread: WorkerOptions,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Ablate heads and keep the outcome of every example.

    With --out, an interrupted run continues where it stopped when the same command is given again,
    and the saved outcomes are what `headtool test` and `headtool correlate` work on.
    """
    show.prepare()
    asked: dict[str, Any] = {
        "heads": None if heads is None else split_names(heads, "head"),
        "kinds": chosen_kinds(kind),
        **reading.amounts,
        **run.place,
        "command": this_command(),
    }
    search = decoding.asked(metric)
    if sequential:
        others = all_but_one or rescale or fill != "zero" or tokenize is not None or screen
        if others or metric not in (None, "accuracy"):
            raise HeadtoolError(
                "--sequential decides single heads by accuracy, closed to zero; leave "
                "--all-but-one, --rescale, --replacement, --metric, --tokenize and --screen out"
            )
        _decide(loading.source(model), reading.source(data), margin, asked, spread, run, cost, show)
        return
    if margin is not None:
        raise HeadtoolError("--margin is for --sequential; add it, or leave --margin out")
    from headtool.experiments.ablation import ablate as ablate_heads
    from headtool.reports.terminal.ablation import ablation_tables
    from headtool.reports.terminal.replacements import replacement_tables

    with spread.at_work(cost, show) as at_work:
        ablation = ablate_heads(
            loading.source(model),
            reading.source(data),
            all_but_one=all_but_one,
            rescale=rescale,
            **replacements(fill),
            screen=screen,
            screen_by=screen_by,
            screen_cut=screen_cut,
            metric=metric,
            search=search,
            tokenize=tokenize,
            **at_work,
            **asked,
        )
    run.tell(quiet=show.quiet)
    show.notes(ablation.notes)
    show.print(
        document=ablation.document,
        frame=lambda: ablation.frame if ablation.replacements is None else ablation.replacements,
        tables=lambda: (
            *ablation_tables(ablation.frame, ablation.best, ablation.whole, ablation.provenance),
            *replacement_tables(ablation.replacements, ablation.replacement_agreement),
        ),
    )


def _decide(
    model: ModelSource,
    data: DataSource,
    margin: float | None,
    asked: dict[str, Any],
    spread: WorkerOptions,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Run the sequential test."""
    from headtool.experiments.sequential import ablate_sequentially
    from headtool.reports.terminal.verdicts import sequential_tables

    if margin is not None:
        asked["margin"] = margin
    with spread.at_work(cost, show) as at_work:
        decided = ablate_sequentially(model, data, **at_work, **asked)
    run.tell(quiet=show.quiet)
    show.print(
        document=decided.document,
        frame=lambda: decided.frame,
        tables=lambda: sequential_tables(decided.frame, decided.provenance, decided.share),
    )
