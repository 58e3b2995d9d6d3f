"""``headtool compare``: several methods on one model, and which heads each keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.curve_options import CurveOptions, SelectData
from headtool.cli.groups import (
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    SearchOptions,
    command,
)
from headtool.cli.launch import comparison_document, finish, launch
from headtool.cli.options import Kinds, MethodNames, Metric, Model, Settings, whole_number

__all__ = ["compare"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool compare --out runs/first\n\n"
    "headtool compare --data builtin:nli/matched --data builtin:nli/mismatched --limit 400\n\n"
    "headtool compare --method gradient,ablation,confidence --model path/to/model --data dev.tsv "
    "--data other.tsv --out runs/dev\n\n"
    "headtool compare --model path/to/model --data dev.tsv --roles runs/roles --out runs/roles-kept"
)

# What the JSON document leaves out is in the run: which example is in which half, and the evidence
# of roles, which `headtool roles --format json` prints.
_TABLES = (
    "scores",
    "ablation",
    "tests",
    "agreement",
    "concordance",
    "stability",
    "subsamples",
    "subsample_overlap",
    "selection_frequency",
    "subsample_scores",
    "replicates",
    "replicate_scores",
    "replicate_agreement",
    "replicate_overlap",
    "replicate_curves",
    "overlap",
    "kept",
    "consensus",
    "curves",
    "curve_tests",
    "optimism",
    "additivity",
    "correlations",
    "failures",
    "role_survival",
)

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
    method: MethodNames = "gradient,ablation,gates,confidence",
    model: Model = "builtin:nli",
    data: ManyData = None,
    select_data: SelectData = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
    decoding: SearchOptions,
    curves: CurveOptions,
    margin: Margin = None,
    stability: Stability = 0,
    replicate: Replicates = None,
    roles: RolesRun = None,
    reading: DataOptions,
    loading: LoadOptions,
    run: RunOptions,
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
    from headtool.reports.terminal.comparison import comparison_tables, head_table

    comparison = launch(
        "compare",
        method=method,
        settings=settings or [],
        model=model,
        data=data or [],
        select_data=select_data,
        kind=kind,
        metric=metric,
        decoding=decoding,
        curves=curves,
        reading=reading,
        loading=loading,
        run=run,
        quiet=show.quiet,
        replicate=replicate or [],
        roles=roles,
        margin=margin,
        stability=stability,
    )
    show.print(
        document=lambda: comparison_document(comparison, "headtool/comparison/1", _TABLES),
        frame=lambda: head_table(comparison),
        tables=lambda: comparison_tables(comparison),
    )
    finish(comparison, quiet=show.quiet)
