"""``headtool score``: score the heads of one model on one data set."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from headtool.cli.console import note, out, prepare_messages, progress_bar
from headtool.cli.loading import load_examples, read_data
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
    parse_settings,
    split_names,
)
from headtool.cli.runs import check_out, this_command
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from pathlib import Path

    from headtool.models.base import ModelAdapter
    from headtool.results import HeadScores

__all__ = ["score"]

EXAMPLES = (
    "Examples:\n\nheadtool score --method gradient\n\n"
    "headtool score --method gradient,ablation --model my/model --data dev.tsv --out runs/a\n\n"
    "headtool score --method gates --set gates.heads=20 --format json"
)


def score(
    method: MethodNames = "gradient",
    model: Model = "builtin:nli",
    data: Data = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
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
    """Score the attention heads of a model with one or more methods."""
    prepare_messages(quiet=quiet, verbose=verbose)
    from headtool.heads import parse_kinds
    from headtool.methods import get_method
    from headtool.models import load_model

    names = split_names(method, "method")
    values = parse_settings(settings or [], names)
    chosen = [get_method(name).configured(values[name]) for name in names]
    kinds = parse_kinds(kind) if kind is not None else None
    check_out(output_dir, force=force)
    text = read_data(data, model, columns=columns, limit=limit)
    adapter = load_model(
        model,
        device=device,
        dtype=dtype,
        fairseq_data=fairseq_data,
        bpe=bpe,
        trust_checkpoint=trust_checkpoint,
    )
    if metric is not None:
        _check_metric(metric, adapter, method, used=any(scorer.uses_metric for scorer in chosen))
    adapter.sites.restrict(kinds)  # an error here costs no work
    examples = load_examples(
        adapter, text, batch_tokens=batch_tokens, limit=limit, seed=seed, quiet=quiet
    )
    scores: list[HeadScores] = []
    seconds: dict[str, float] = {}
    try:
        with progress_bar(quiet=quiet) as progress:
            for scorer in chosen:
                started = time.perf_counter()
                scores.append(
                    scorer.score(
                        adapter, examples, kinds=kinds, metric=metric, seed=seed, progress=progress
                    )
                )
                seconds[scorer.name] = time.perf_counter() - started
    except KeyboardInterrupt:
        if output_dir is not None and scores:
            _write(output_dir, scores, force=force)
            missing = ",".join(names[len(scores) :])
            note(f"{output_dir} keeps what was finished; give --method {missing} and another --out")
        raise
    if output_dir is not None:
        _write(output_dir, scores, force=force)
        note(f"written to {output_dir}", quiet=quiet)
    _print(scores, seconds, output)


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


def _write(folder: Path, scores: list[HeadScores], *, force: bool) -> None:
    import pandas as pd

    from headtool.runs import site_frame, write_run

    tables = {"scores": pd.concat([result.frame for result in scores], ignore_index=True)}
    for result in scores:
        further = {**result.tables, **result.texts}
        tables |= {f"{result.method}.{name}": table for name, table in further.items()}
        if result.outcomes is not None:
            tables[f"{result.method}.outcomes"] = result.outcomes.to_frame()
            sites = result.outcomes.masks[0].sites
            tables["sites"] = site_frame(sites)
    write_run(
        folder,
        command=this_command(),
        provenance={result.method: dict(result.provenance) for result in scores},
        tables=tables,
        weights={f"{result.method}.weights": result.weights for result in scores if result.weights},
        force=force,
    )


def _print(scores: list[HeadScores], seconds: dict[str, float], output: OutputFormat) -> None:
    if output is OutputFormat.json:
        from headtool.results import scores_document

        typer.echo(scores_document(scores))
    elif output is OutputFormat.csv:
        import pandas as pd

        frame = pd.concat([result.frame for result in scores], ignore_index=True)
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        from headtool.reports.score_tables import score_tables

        console = out()
        for result in scores:
            for part in score_tables(result, seconds[result.method]):
                console.print(part)
