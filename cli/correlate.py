"""``headtool correlate``: whether the same heads are important on other data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtool.cli.console import note, progress_bar
from headtool.cli.groups import DataOptions, LoadOptions, PrintOptions, SearchOptions, command
from headtool.cli.options import Kinds, Model
from headtool.cli.searching import Tokenize
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

    from headtool.heads import Kind
    from headtool.metrics.base import Metric as Measure
    from headtool.results.outcomes import Outcomes

    Measured = tuple[str, Outcomes, Measure]

__all__ = ["correlate"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool correlate --data builtin:nli/matched --data builtin:nli/mismatched\n\n"
    "headtool correlate --model path/to/model --data dev.tsv --data other.tsv --metric loss\n\n"
    "headtool correlate --model builtin:mt --data builtin:mt/test --data builtin:mt/noisy "
    "--metric bleu --greedy\n\n"
    "headtool correlate runs/dev runs/other"
)

Runs = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[RUN]...", help="Runs of `headtool ablate`, instead of --data."),
]
ManyData = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="SPEC", help="A data set; give two or more."),
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Such as accuracy, mcc, loss; for translations also bleu, chrf and ter, which decode. "
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
    show: PrintOptions,
) -> None:
    """Correlate what single heads are worth on two or more data sets.

    The importance of a head is what the metric loses without it. Also says on how many of the data
    sets each head has an effect. Heads of one layer resemble each
    other, so the p-value to read is the one that permutes heads within their layers.
    """
    show.prepare()
    from headtool.analysis.correlation import correlate as correlate_importance
    from headtool.analysis.importance import Importance
    from headtool.heads import parse_kinds
    from headtool.reports.terminal.correlation import correlation_tables
    from headtool.results.scores import json_rows

    kinds = parse_kinds(kind) if kind is not None else None
    if bool(runs) == bool(data):
        raise HeadtoolError("give either two or more runs, or two or more --data, and not both")
    if runs:
        if decoding.given or tokenize is not None:
            raise HeadtoolError(
                "--beam, --greedy, --lenpen and --tokenize are for --data: runs are decoded already"
            )
        measured, provenance = _from_runs(runs, metric, kinds)
    else:
        measured, provenance = _from_data(
            data or [], model, kinds, metric, decoding, tokenize, reading, loading, show.quiet
        )
    sets = [Importance.from_outcomes(*one) for one in measured]
    frame = correlate_importance(
        sets, permutations=permutations, resamples=resamples, rng=reading.seed
    )
    everywhere = _replication(measured, seed=reading.seed)
    for text in frame["note"]:
        if text:
            note(text, quiet=show.quiet)
    show.print(
        document=lambda: {
            "schema": "headtool/correlations/1",
            "provenance": provenance,
            "correlations": json_rows(frame),
            "replication": json_rows(everywhere),
        },
        frame=lambda: frame,
        tables=lambda: correlation_tables(frame, everywhere),
    )


def _replication(measured: list[Measured], *, seed: int) -> pd.DataFrame:
    """On how many of the data sets each head has an effect, corrected over heads."""
    import pandas as pd

    from headtool.analysis.assessment import assess_outcomes
    from headtool.analysis.partial_conjunction import replicate
    from headtool.heads import Head

    places = ["kind", "layer", "head"]
    p = pd.concat(
        [
            assess_outcomes(outcomes, metric, correction="none", rng=seed).frame.set_index(places).p
            for _, outcomes, metric in measured
        ],
        axis=1,
    ).fillna(1.0)  # a head without a defined effect shows none
    heads = [Head(kind, int(layer), int(index)) for kind, layer, index in p.index]
    return replicate(p.to_numpy(), heads).frame


def _from_runs(
    runs: list[Path], metric: str | None, kinds: tuple[Kind, ...] | None
) -> tuple[list[Measured], dict[str, Any]]:
    """Read saved outcomes; runs of different models or metrics do not mix."""
    from headtool.analysis.kinds import of_kinds
    from headtool.metrics import get_metric
    from headtool.results.runs import read_run

    sets, sources, signatures = [], {}, []
    for folder in runs:
        run = read_run(folder)
        source = sources[str(folder)] = run.source
        first = next(iter(sources.values()))
        if source["model"]["sha256"] != first["model"]["sha256"]:
            raise HeadtoolError(
                f"{folder} is of {source['model']['spec']} and {runs[0]} of "
                f"{first['model']['spec']}, another model; correlate runs of one model"
            )
        if metric is None and source["metric"] != first["metric"]:
            raise HeadtoolError(
                f"{folder} measures {source['metric']} and {runs[0]} {first['metric']}; "
                "choose one with --metric"
            )
        name = metric or source["metric"]
        labels = source["model"]["labels"]
        measure = get_metric(name, task=source["model"]["task"], n_labels=labels)
        signatures.append(run.signature(measure))
        if signatures[-1] != signatures[0]:
            raise HeadtoolError(
                f"{folder} has {signatures[-1]} and {runs[0]} {signatures[0]}; correlate runs that "
                "count the same"
            )
        sets.append((source["data"]["spec"], of_kinds(run.outcomes(measure), kinds), measure))
    return sets, {"runs": sources}


def _from_data(
    specs: list[str],
    model: str,
    kinds: tuple[Kind, ...] | None,
    metric: str | None,
    decoding: SearchOptions,
    tokenize: str | None,
    reading: DataOptions,
    loading: LoadOptions,
    quiet: bool,
) -> tuple[list[Measured], dict[str, Any]]:
    """Ablate single heads on each data set."""
    from headtool.engine.measurement import described, measure, resolved_search, tokenized
    from headtool.engine.provenance import provenance
    from headtool.masks.singles import single_masks
    from headtool.metrics import default_metric, get_metric

    asked = decoding.asked(metric)
    texts = [reading.read(spec, model) for spec in specs]
    adapter = loading.load(model)
    heads = adapter.sites.restrict(kinds).heads
    masks = [item.mask for item in single_masks(adapter.sites, heads)]
    name = metric or default_metric(adapter.task)
    chosen = get_metric(name, task=adapter.task, n_labels=len(adapter.labels) or None)
    chosen = tokenized(chosen, tokenize)
    search = resolved_search(adapter, chosen, asked)
    sets, sources = [], {}
    with progress_bar(quiet=quiet) as progress:
        for text in texts:
            examples = reading.encode(adapter, text, quiet=quiet)
            found = measure(adapter, examples, masks, chosen, search=search, progress=progress)
            sets.append((text.spec, found.outcomes, chosen))
            source = provenance(adapter, examples, "correlate", {}, name, reading.seed)
            sources[text.spec] = source | described(chosen, search)
    return sets, {"data": sources}
