"""``headtool compare``: several methods on one model, and which heads each keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.console import out, prepare_messages
from headtool.cli.curve_options import (
    Alpha,
    Draws,
    Iterative,
    KeepOne,
    PerKind,
    Resamples,
    SelectData,
    Steps,
)
from headtool.cli.launch import finish, launch, print_json
from headtool.cli.options import (
    BatchTokens,
    Bpe,
    Columns,
    Device,
    Dtype,
    FairseqData,
    Force,
    Format,
    Kinds,
    Limit,
    MethodNames,
    Metric,
    Model,
    Out,
    OutputFormat,
    Quiet,
    Seed,
    Settings,
    TrustCheckpoint,
    Verbose,
    whole_number,
)
from headtool.cli.searching import Beam, Greedy, LengthPenalty

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
        "scoring of every method (times the steps with --iterative), but for the masks of "
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


def compare(
    method: MethodNames = "gradient,ablation,gates,confidence",
    model: Model = "builtin:nli",
    data: ManyData = None,
    select_data: SelectData = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
    beam: Beam = None,
    greedy: Greedy = False,
    length_penalty: LengthPenalty = None,
    steps: Steps = "10%",
    iterative: Iterative = False,
    keep_one_per_layer: KeepOne = False,
    per_kind: PerKind = False,
    draws: Draws = 20,
    resamples: Resamples = None,
    alpha: Alpha = 0.05,
    margin: Margin = None,
    stability: Stability = 0,
    replicate: Replicates = None,
    roles: RolesRun = None,
    columns: Columns = None,
    limit: Limit = None,
    batch_tokens: BatchTokens = 4096,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "float32",
    fairseq_data: FairseqData = None,
    bpe: Bpe = None,
    trust_checkpoint: TrustCheckpoint = False,
    output_dir: Out = None,
    force: Force = False,
    output: Format = OutputFormat.table,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare methods: do they agree, which heads does each keep, do they beat random masks.

    Heads are scored on one half of the data and everything is measured on the other: what single
    heads are worth, with tests; what is left of the model as each method removes heads, beside
    random masks; how far the methods agree. With --out, an interrupted comparison continues where
    it stopped when the same command is given again, and a method that fails does not lose the
    others.
    """
    prepare_messages(quiet=quiet, verbose=verbose)
    comparison = launch(
        "compare",
        method=method,
        settings=settings or [],
        model=model,
        loading={
            "device": device,
            "dtype": dtype,
            "fairseq_data": fairseq_data,
            "bpe": bpe,
            "trust_checkpoint": trust_checkpoint,
        },
        data=data or [],
        select_data=select_data,
        columns=columns,
        kind=kind,
        metric=metric,
        beam=beam,
        greedy=greedy,
        length_penalty=length_penalty,
        out=output_dir,
        force=force,
        quiet=quiet,
        steps=steps,
        iterative=iterative,
        keep_one_per_layer=keep_one_per_layer,
        per_kind=per_kind,
        draws=draws,
        resamples=resamples,
        alpha=alpha,
        margin=margin,
        stability=stability,
        replicate=replicate or [],
        roles=roles,
        limit=limit,
        batch_tokens=batch_tokens,
        seed=seed,
    )
    if output is OutputFormat.json:
        print_json(comparison, "headtool/comparison/1", _TABLES)
    elif output is OutputFormat.csv:
        from headtool.reports.comparison_tables import head_table

        typer.echo(head_table(comparison).to_csv(index=False), nl=False)
    else:
        from headtool.reports.comparison_tables import comparison_tables

        console = out()
        for part in comparison_tables(comparison):
            console.print(part)
    finish(comparison, quiet=quiet)
