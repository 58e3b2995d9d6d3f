"""``headtool curve``: what is left of a metric as each method removes heads."""

from __future__ import annotations

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
    Data,
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
)
from headtool.cli.searching import Beam, Greedy, LengthPenalty

__all__ = ["curve"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool curve --method gradient,ablation --out runs/curve\n\n"
    "headtool curve --model path/to/model --data dev.tsv --steps 20%,40% --keep-one-per-layer\n\n"
    "headtool curve --model builtin:mt --per-kind --draws 5"
)


def curve(
    method: MethodNames = "gradient",
    model: Model = "builtin:nli",
    data: Data = None,
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
    """Draw pruning curves: the metric against the share of heads removed, beside random masks.

    Heads are scored on one half of the data and removed in ascending order of their scores; the
    other half shows what that costs. Two baselines remove heads at random: any heads, and in every
    layer as many as the method does.
    """
    prepare_messages(quiet=quiet, verbose=verbose)
    comparison = launch(
        "curve",
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
        data=[] if data is None else [data],
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
        limit=limit,
        batch_tokens=batch_tokens,
        seed=seed,
    )
    if output is OutputFormat.json:
        tables = ("curves", "curve_tests", "kept", "scores", "failures")
        print_json(comparison, "headtool/curves/1", tables)
    elif output is OutputFormat.csv:
        typer.echo(comparison.curves.to_csv(index=False), nl=False)
    else:
        from headtool.reports.comparison_tables import curve_tables

        console = out()
        for part in curve_tables(comparison):
            console.print(part)
    finish(comparison, quiet=quiet)
