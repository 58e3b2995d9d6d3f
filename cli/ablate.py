"""``headtool ablate``: close heads one at a time, or all but one, and keep every outcome."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtool.cli.console import progress_bar
from headtool.cli.groups import (
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    SearchOptions,
    command,
)
from headtool.cli.options import Data, Kinds, Metric, Model, split_names
from headtool.cli.searching import Tokenize
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

    from headtool.engine.units import UnitStore
    from headtool.heads import HeadMask
    from headtool.masks.singles import Ablated
    from headtool.models.base import Examples, ModelAdapter
    from headtool.progress import Progress

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
    metric: Metric = None,
    decoding: SearchOptions,
    tokenize: Tokenize = None,
    reading: DataOptions,
    loading: LoadOptions,
    run: RunOptions,
    show: PrintOptions,
) -> None:
    """Ablate heads and keep the outcome of every example.

    With --out, an interrupted run continues where it stopped when the same command is given again,
    and the saved outcomes are what `headtool test` and `headtool correlate` work on.
    """
    show.prepare()
    from headtool.engine.measurement import described, measure, resolved_search, tokenized
    from headtool.engine.provenance import provenance
    from headtool.engine.replacement import replacement
    from headtool.experiments.ablation import ablation_frame, best_single_heads, whole_values
    from headtool.heads import Head, parse_kinds
    from headtool.masks.singles import keep_one_masks, single_masks
    from headtool.metrics import default_metric, get_metric
    from headtool.metrics.translation import TRANSLATION_METRICS
    from headtool.reports.terminal.ablation import ablation_tables
    from headtool.results.runs import site_frame

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
    asked = decoding.asked(metric)
    chosen = [Head.parse(name) for name in split_names(heads, "head")] if heads else None
    filling = replacement(fill, seed=reading.seed)
    kinds = parse_kinds(kind) if kind is not None else None
    run.check()
    text = reading.read(data, model)
    adapter = loading.load(model)
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
    examples = reading.encode(adapter, text, quiet=show.quiet)
    settings: dict[str, Any] = {
        "all_but_one": all_but_one,
        "rescale": rescale,
        "replacement": fill,
        "sequential": sequential,
    }
    if sequential:
        settings["margin"] = 0.01 if margin is None else margin
    source = provenance(adapter, examples, "ablate", settings, name, reading.seed)
    source |= described(metrics[0], search)
    if sequential:
        with progress_bar(quiet=show.quiet) as progress:
            _decide(adapter, examples, ablated, source, run, show, progress)
        return
    masks = [item.mask for item in ablated]
    kept = _kept_units(run, source, masks)
    with kept as store, progress_bar(quiet=show.quiet) as progress:
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
        tables = {
            "ablation": ablation_frame(ablated, outcomes, metrics),
            "outcomes": outcomes.to_frame(),
            "sites": site_frame(adapter.sites),
            **measured.texts(),
        }
        if all_but_one:
            tables["best"] = best_single_heads(ablated, outcomes, metrics[0], seed=reading.seed)
        run.write({"ablate": source}, tables, quiet=show.quiet)
        if store is not None:
            store.remove()
    whole = whole_values(outcomes, metrics)
    show.print(
        document=lambda: _document(tables, whole, source),
        frame=lambda: tables["ablation"],
        tables=lambda: ablation_tables(tables["ablation"], tables.get("best"), whole, source),
    )


def _decide(
    model: ModelAdapter,
    examples: Examples,
    ablated: Sequence[Ablated],
    source: Mapping[str, Any],
    run: RunOptions,
    show: PrintOptions,
    progress: Progress,
) -> None:
    """Run the sequential test, then print it and write it where asked."""
    from headtool.analysis.sequential import SequentialTest
    from headtool.experiments.ablation import ablate_until_decided
    from headtool.reports.terminal.verdicts import sequential_tables
    from headtool.results.scores import json_rows

    test = SequentialTest(
        [item.head for item in ablated], margin=source["options"]["margin"], total=len(examples)
    )
    runs = ablate_until_decided(
        model, examples, ablated, test, seed=source["seed"], progress=progress
    )
    frame = test.frame()
    share = runs / (len(ablated) * len(examples))
    provenance = {**source, "share_of_runs": share}
    run.write({"sequential": provenance}, {"sequential": frame}, quiet=show.quiet)
    show.print(
        document=lambda: {
            "schema": "headtool/tests/1",
            "provenance": provenance,
            "tests": json_rows(frame),
        },
        frame=lambda: frame,
        tables=lambda: sequential_tables(frame, source, share),
    )


@contextlib.contextmanager
def _kept_units(
    run: RunOptions, source: Mapping[str, Any], masks: Sequence[HeadMask]
) -> Iterator[UnitStore | None]:
    """Keep finished units beside the run to be written, so that it can be continued."""
    folder = run.output_dir
    if folder is None:
        yield None
        return
    from headtool.engine.units import UnitStore, digest

    description = {**source, "masks": digest([mask.to_json() for mask in masks])}
    with UnitStore(folder.with_name(f"{folder.name}.unfinished"), description) as store:
        try:
            run.check()  # another process may have finished meanwhile
        except HeadtoolError:
            store.remove_if_empty()
            raise
        yield store


def _document(
    tables: Mapping[str, pd.DataFrame], whole: Mapping[str, float], source: Mapping[str, Any]
) -> dict[str, Any]:
    from headtool.results.scores import json_rows

    return {
        "schema": "headtool/ablation/1",
        "provenance": source,
        "whole": {name: None if math.isnan(value) else value for name, value in whole.items()},
        **{name: json_rows(tables[name]) for name in ("ablation", "best") if name in tables},
    }
