"""From the options of ``compare`` and ``curve`` to a finished comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headtool.cli.console import note, progress_bar, this_command
from headtool.cli.curve_options import CurveOptions
from headtool.cli.groups import DataOptions, LoadOptions, RunOptions, SearchOptions
from headtool.cli.options import parse_settings, split_names
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from pathlib import Path

    from headtool.analysis.comparison import Comparison

__all__ = ["comparison_document", "finish", "launch"]


def launch(
    name: str,
    *,
    method: str,
    settings: Sequence[str],
    model: str,
    data: Sequence[str],
    select_data: str | None,
    kind: str | None,
    metric: str | None,
    decoding: SearchOptions,
    curves: CurveOptions,
    reading: DataOptions,
    loading: LoadOptions,
    run: RunOptions,
    quiet: bool,
    replicate: Sequence[str] = (),
    roles: Path | None = None,
    **request: Any,
) -> Comparison:
    """Check what needs no model, load, and run.

    Parameters
    ----------
    name
        ``compare`` or ``curve``.
    method, settings, model, data, select_data, kind, metric, quiet, replicate, roles
        The options of the same names.
    decoding, curves, reading, loading, run
        The groups of options that both commands have.
    request
        What else `headtool.experiments.request.Request` takes.
    """
    from headtool.analysis.role_runs import read_roles
    from headtool.experiments.compare import run_comparison
    from headtool.experiments.request import Request
    from headtool.heads import parse_kinds
    from headtool.methods import get_method
    from headtool.models import check_model

    names = split_names(method, "method")
    values = parse_settings(settings, names)
    asked = Request(
        methods=tuple(get_method(one).configured(values[one]) for one in names),
        kinds=None if kind is None else parse_kinds(kind),
        metric=metric,
        search=decoding.asked(metric),
        limit=reading.limit,
        batch_tokens=reading.batch_tokens,
        seed=reading.seed,
        **asdict(curves),
        **request,
    )
    run.check()
    known = None if roles is None else read_roles(roles)
    specs: Sequence[str | None] = data or [None]
    texts = [reading.read(spec, model) for spec in specs]
    chosen = None
    if select_data is not None:
        chosen = reading.read(select_data, model)
    for spec in replicate:
        check_model(spec)
    adapter = loading.load(model)
    replicates = [loading.load(spec) for spec in replicate]
    with progress_bar(quiet=quiet) as progress:
        comparison = run_comparison(
            adapter,
            texts,
            chosen,
            asked,
            replicates=replicates,
            name=name,
            command=this_command(),
            roles=known,
            out=run.output_dir,
            force=run.force,
            progress=progress,
        )
    for line in comparison.settings["notes"]:
        note(line, quiet=quiet)
    return comparison


def comparison_document(
    comparison: Comparison, schema: str, tables: Sequence[str]
) -> dict[str, Any]:
    """The comparison for JSON: schema, provenance, and rows by table."""
    from headtool.results.scores import json_rows

    return {
        "schema": schema,
        "provenance": comparison.settings,
        **{name: json_rows(comparison.tables[name]) for name in tables},
    }


def finish(comparison: Comparison, *, quiet: bool) -> None:
    """Render the run, if there is one, and tell which methods failed.

    The last thing that a command does: all results are printed and kept by now.

    Raises
    ------
    HeadtoolError
        If a method failed.
    """
    if comparison.folder is not None:
        from headtool.reports.writing import write_report

        page = write_report(comparison.folder)
        note(f"written to {comparison.folder}; open {page}", quiet=quiet)
    rows = comparison.failures.to_dict("records")
    if rows:
        reasons = "; ".join(f"{row['method']}: {row['error']}" for row in rows)
        raise HeadtoolError(f"{len(rows)} of the methods failed, the others are above. {reasons}")
