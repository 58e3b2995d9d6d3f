"""``headtool ablate``: close heads one at a time, or all but one, and keep every outcome."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    Metric,
    Model,
    Out,
    OutputFormat,
    Quiet,
    Seed,
    TrustCheckpoint,
    Verbose,
    split_names,
)
from headtool.cli.runs import check_out, this_command
from headtool.cli.searching import (
    Beam,
    Greedy,
    LengthPenalty,
    Tokenize,
    asked_search,
    resolved_search,
    tokenized,
)
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

    from headtool.ablation import Ablated
    from headtool.heads import HeadMask, Sites
    from headtool.measurement import Measured
    from headtool.models.base import Examples, ModelAdapter
    from headtool.progress import Progress
    from headtool.units import UnitStore

__all__ = ["ablate"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool ablate --out runs/dev\n\n"
    "headtool ablate --model path/to/model --data dev.tsv --heads enc-self.0.3,enc-self.5.1\n\n"
    "headtool ablate --all-but-one --metric loss\n\n"
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
        metavar="NAME",
        help="What a closed head puts out: zero, mean or resample.",
    ),
]


def ablate(
    model: Model = "builtin:nli",
    data: Data = None,
    heads: Heads = None,
    kind: Kinds = None,
    all_but_one: AllButOne = False,
    rescale: Rescale = False,
    sequential: Sequential = False,
    margin: Margin = None,
    fill: Fill = "zero",
    metric: Metric = None,
    beam: Beam = None,
    greedy: Greedy = False,
    length_penalty: LengthPenalty = None,
    tokenize: Tokenize = None,
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
    """Ablate heads and keep what that does to every example.

    With --out, an interrupted run continues where it stopped when the same command is given again,
    and the saved outcomes are what `headtool test` and `headtool correlate` work on.
    """
    prepare_messages(quiet=quiet, verbose=verbose)
    from headtool.ablation import (
        ablation_frame,
        best_single_heads,
        keep_one_masks,
        single_masks,
        whole_values,
    )
    from headtool.heads import Head, parse_kinds
    from headtool.measurement import described, measure
    from headtool.metrics import default_metric, get_metric
    from headtool.models import load_model
    from headtool.provenance import provenance
    from headtool.replacement import replacement
    from headtool.translation_metrics import TRANSLATION_METRICS

    if heads is not None and all_but_one:
        raise HeadtoolError("--heads and --all-but-one exclude each other; leave one out")
    if heads is not None and kind is not None:
        raise HeadtoolError("--heads and --kind exclude each other; leave one out")
    if rescale and not all_but_one:
        raise HeadtoolError("--rescale is for --all-but-one; add it, or leave --rescale out")
    if margin is not None and not sequential:
        raise HeadtoolError("--margin is for --sequential; add it, or leave --margin out")
    if sequential and (all_but_one or fill != "zero" or metric not in (None, "accuracy")):
        raise HeadtoolError(
            "--sequential decides single heads by accuracy, closed to zero; leave --all-but-one, "
            "--replacement and --metric out"
        )
    asked = asked_search(metric, beam=beam, greedy=greedy, length_penalty=length_penalty)
    chosen = [Head.parse(name) for name in split_names(heads, "head")] if heads else None
    filling = replacement(fill, seed=seed)
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
    sites = adapter.sites.restrict(kinds)
    if all_but_one:
        ablated = keep_one_masks(adapter.sites, sites)
    else:
        ablated = single_masks(adapter.sites, chosen or sites.heads)
    if not ablated:
        raise HeadtoolError(f"{model} has one head per site; there is nothing to ablate")
    if sequential and adapter.task != "classification":
        raise HeadtoolError(
            f"--sequential needs outcomes within bounds, such as right or wrong; {model} is a "
            f"{adapter.task} model, whose loss has none"
        )
    name = metric or default_metric(adapter.task)
    # The loss comes with every other metric; decoding has none.
    names = [name] if name in TRANSLATION_METRICS else list(dict.fromkeys([name, "loss"]))
    n_labels = len(adapter.labels) or None
    metrics = [get_metric(name, task=adapter.task, n_labels=n_labels) for name in names]
    metrics[0] = tokenized(metrics[0], tokenize)
    search = resolved_search(adapter, metrics[0], asked)
    examples = load_examples(
        adapter, text, batch_tokens=batch_tokens, limit=limit, seed=seed, quiet=quiet
    )
    settings: dict[str, Any] = {
        "all_but_one": all_but_one,
        "rescale": rescale,
        "replacement": fill,
        "sequential": sequential,
    }
    if sequential:
        settings["margin"] = 0.01 if margin is None else margin
    source = provenance(adapter, examples, "ablate", settings, name, seed)
    source |= described(metrics[0], search)
    if sequential:
        with progress_bar(quiet=quiet) as progress:
            _decide(adapter, examples, ablated, source, output, output_dir, progress)
        return
    masks = [item.mask for item in ablated]
    kept = _kept_units(output_dir, source, masks, force=force)
    with kept as store, progress_bar(quiet=quiet) as progress:
        measured = measure(
            adapter,
            examples,
            masks,
            metrics[0],
            search=search,
            replacement=filling,
            rescale=rescale,
            store=store,
            progress=progress,
        )
        outcomes = measured.outcomes
        frame = ablation_frame(ablated, outcomes, metrics)
        best = best_single_heads(ablated, outcomes, metrics[0], seed=seed) if all_but_one else None
        if output_dir is not None and store is not None:
            _write(output_dir, source, adapter.sites, measured, frame, best, force=force)
            store.remove()
            note(f"written to {output_dir}", quiet=quiet)
    _print(frame, best, whole_values(outcomes, metrics), source, output)


def _decide(
    model: ModelAdapter,
    examples: Examples,
    ablated: Sequence[Ablated],
    source: Mapping[str, Any],
    output: OutputFormat,
    folder: Path | None,
    progress: Progress,
) -> None:
    """Run the sequential test, then print it and write it where asked."""
    from headtool.ablation import ablate_until_decided
    from headtool.analysis.sequential import SequentialTest

    test = SequentialTest(
        [item.head for item in ablated], margin=source["options"]["margin"], total=len(examples)
    )
    runs = ablate_until_decided(
        model, examples, ablated, test, seed=source["seed"], progress=progress
    )
    frame = test.frame()
    share = runs / (len(ablated) * len(examples))
    if folder is not None:
        from headtool.runs import write_run

        write_run(
            folder,
            command=this_command(),
            provenance={"sequential": {**source, "share_of_runs": share}},
            tables={"sequential": frame},
            force=True,
        )
    if output is OutputFormat.json:
        from headtool.results import json_rows

        document = {
            "schema": "headtool/tests/1",
            "provenance": {**source, "share_of_runs": share},
            "tests": json_rows(frame),
        }
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
    elif output is OutputFormat.csv:
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        from headtool.reports.test_tables import sequential_tables

        console = out()
        for part in sequential_tables(frame, source, share):
            console.print(part)


@contextlib.contextmanager
def _kept_units(
    folder: Path | None, source: Mapping[str, Any], masks: Sequence[HeadMask], *, force: bool
) -> Iterator[UnitStore | None]:
    """Keep finished units beside the run to be written, so that it can be continued."""
    if folder is None:
        yield None
        return
    from headtool.runs import check_output
    from headtool.units import UnitStore, digest

    description = {**source, "masks": digest([mask.to_json() for mask in masks])}
    with UnitStore(folder.with_name(f"{folder.name}.unfinished"), description) as store:
        try:
            check_output(folder, force=force)  # another process may have finished meanwhile
        except HeadtoolError:
            store.remove_if_empty()
            raise
        yield store


def _write(
    folder: Path,
    source: Mapping[str, Any],
    sites: Sites,
    measured: Measured,
    frame: pd.DataFrame,
    best: pd.DataFrame | None,
    *,
    force: bool,
) -> None:

    from headtool.runs import site_frame, write_run

    tables = {
        "ablation": frame,
        "outcomes": measured.outcomes.to_frame(),
        "sites": site_frame(sites),
        **measured.texts(),
    }
    if best is not None:
        tables["best"] = best
    write_run(
        folder,
        command=this_command(),
        provenance={"ablate": dict(source)},
        tables=tables,
        force=force,
    )


def _print(
    frame: pd.DataFrame,
    best: pd.DataFrame | None,
    whole: Mapping[str, float],
    source: Mapping[str, Any],
    output: OutputFormat,
) -> None:
    if output is OutputFormat.json:
        from headtool.results import json_rows

        document = {
            "schema": "headtool/ablation/1",
            "provenance": source,
            "whole": {name: None if math.isnan(value) else value for name, value in whole.items()},
            "ablation": json_rows(frame),
        }
        if best is not None:
            document["best"] = json_rows(best)
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
    elif output is OutputFormat.csv:
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        from headtool.reports.ablation_tables import ablation_tables

        console = out()
        for part in ablation_tables(frame, best, whole, source):
            console.print(part)
