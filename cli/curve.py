"""``headtool curve``: what is left of a metric as each method removes heads."""

from __future__ import annotations

from headtool.cli.choices import chosen_kinds, chosen_methods, saved_methods
from headtool.cli.console import this_command
from headtool.cli.curve_options import CurveOptions, SelectData
from headtool.cli.groups import (
    CostOptions,
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    SearchOptions,
    command,
)
from headtool.cli.launch import finish
from headtool.cli.options import Data, Kinds, MethodNames, Metric, Model, SavedScores, Settings
from headtool.cli.worker_options import WorkerOptions
from headtool.experiments.request import CURVE_METHODS

__all__ = ["curve"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool curve --method gradient,ablation --out runs/curve\n\n"
    "headtool curve --model path/to/model --data dev.tsv --steps 20%,40% --keep-one-per-layer\n\n"
    "headtool curve --model builtin:mt --per-kind --draws 5"
)

_METHODS = ",".join(CURVE_METHODS)


@command
def curve(
    *,
    method: MethodNames = _METHODS,
    model: Model = "builtin:nli",
    data: Data = None,
    select_data: SelectData = None,
    scores: SavedScores = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
    decoding: SearchOptions,
    curves: CurveOptions,
    reading: DataOptions,
    loading: LoadOptions,
    spread: WorkerOptions,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Draw pruning curves: the metric against the share of heads removed, beside random masks.

    Heads are scored on one half of the data and removed in ascending order of their scores; the
    other half shows what that costs. Two baselines remove heads at random: any heads, and in every
    layer as many as the method does.
    """
    show.prepare()
    kinds = chosen_kinds(kind)
    methods = [*chosen_methods(method, settings), *saved_methods(scores)]
    from headtool.experiments.compare import curve as draw_curves
    from headtool.reports.terminal.comparison import curve_tables

    with spread.at_work(cost, show) as at_work:
        comparison = draw_curves(
            loading.source(model),
            reading.source(data),
            select_data=None if select_data is None else reading.source(select_data),
            methods=methods,
            kinds=kinds,
            metric=metric,
            search=decoding.asked(metric),
            **curves.fields,
            **reading.amounts,
            **run.place,
            command=this_command(),
            **at_work,
        )
    show.notes(comparison.settings["notes"])
    show.print(
        document=comparison.document,
        frame=lambda: comparison.curves,
        tables=lambda: curve_tables(comparison),
    )
    finish(comparison, quiet=show.quiet)
