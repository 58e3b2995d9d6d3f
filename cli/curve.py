"""``headtool curve``: what is left of a metric as each method removes heads."""

from __future__ import annotations

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
from headtool.cli.options import Data, Kinds, MethodNames, Metric, Model, Settings

__all__ = ["curve"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool curve --method gradient,ablation --out runs/curve\n\n"
    "headtool curve --model path/to/model --data dev.tsv --steps 20%,40% --keep-one-per-layer\n\n"
    "headtool curve --model builtin:mt --per-kind --draws 5"
)


@command
def curve(
    *,
    method: MethodNames = "gradient",
    model: Model = "builtin:nli",
    data: Data = None,
    select_data: SelectData = None,
    settings: Settings = None,
    kind: Kinds = None,
    metric: Metric = None,
    decoding: SearchOptions,
    curves: CurveOptions,
    reading: DataOptions,
    loading: LoadOptions,
    run: RunOptions,
    show: PrintOptions,
) -> None:
    """Draw pruning curves: the metric against the share of heads removed, beside random masks.

    Heads are scored on one half of the data and removed in ascending order of their scores; the
    other half shows what that costs. Two baselines remove heads at random: any heads, and in every
    layer as many as the method does.
    """
    show.prepare()
    from headtool.reports.terminal.comparison import curve_tables

    comparison = launch(
        "curve",
        method=method,
        settings=settings or [],
        model=model,
        data=[] if data is None else [data],
        select_data=select_data,
        kind=kind,
        metric=metric,
        decoding=decoding,
        curves=curves,
        reading=reading,
        loading=loading,
        run=run,
        quiet=show.quiet,
    )
    tables = ("curves", "curve_draws", "curve_tests", "kept", "scores", "failures")
    show.print(
        document=lambda: comparison_document(comparison, "headtool/curves/1", tables),
        frame=lambda: comparison.curves,
        tables=lambda: curve_tables(comparison),
    )
    finish(comparison, quiet=show.quiet)
