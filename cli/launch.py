"""From the options of ``compare`` and ``curve`` to a finished comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headtool.cli.console import note, progress_bar
from headtool.cli.loading import read_data
from headtool.cli.options import parse_settings, split_names
from headtool.cli.runs import check_out, this_command
from headtool.cli.searching import asked_search
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.analysis.comparison import Comparison

__all__ = ["finish", "launch", "print_json"]


def launch(
    name: str,
    *,
    method: str,
    settings: Sequence[str],
    model: str,
    loading: Mapping[str, Any],
    data: Sequence[str],
    select_data: str | None,
    columns: str | None,
    kind: str | None,
    metric: str | None,
    beam: int | None,
    greedy: bool,
    length_penalty: float | None,
    out: Path | None,
    force: bool,
    quiet: bool,
    replicate: Sequence[str] = (),
    roles: Path | None = None,
    **request: Any,
) -> Comparison:
    """Check what needs no model, load, and run; ``request`` goes to `headtool.cli.request.Request`.

    Parameters
    ----------
    name
        ``compare`` or ``curve``.
    method, settings, model, data, select_data, columns, kind, metric, out, force, quiet
        The options of the same names; so are `replicate` and `roles`.
    loading
        Keyword arguments of `headtool.models.load_model`.
    beam, greedy, length_penalty
        Options of decoding.
    request
        The rest.
    """
    from headtool.analysis.role_runs import read_roles
    from headtool.cli.comparing import run_comparison
    from headtool.cli.request import Request
    from headtool.heads import parse_kinds
    from headtool.methods import get_method
    from headtool.models import check_model, load_model

    names = split_names(method, "method")
    values = parse_settings(settings, names)
    asked = Request(
        methods=tuple(get_method(one).configured(values[one]) for one in names),
        kinds=None if kind is None else parse_kinds(kind),
        metric=metric,
        search=asked_search(metric, beam=beam, greedy=greedy, length_penalty=length_penalty),
        **request,
    )
    check_out(out, force=force)
    known = None if roles is None else read_roles(roles)
    specs: Sequence[str | None] = data or [None]
    limit = request["limit"]
    texts = [read_data(spec, model, columns=columns, limit=limit) for spec in specs]
    chosen = None
    if select_data is not None:
        chosen = read_data(select_data, model, columns=columns, limit=limit)
    for spec in replicate:
        check_model(spec)
    adapter = load_model(model, **loading)
    replicates = [load_model(spec, **loading) for spec in replicate]
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
            out=out,
            force=force,
            progress=progress,
        )
    for line in comparison.settings["notes"]:
        note(line, quiet=quiet)
    return comparison


def print_json(comparison: Comparison, schema: str, tables: Sequence[str]) -> None:
    """Print the comparison as one JSON document: schema, provenance, and rows by table."""
    from headtool.results import json_rows

    document = {
        "schema": schema,
        "provenance": comparison.settings,
        **{name: json_rows(comparison.tables[name]) for name in tables},
    }
    typer.echo(json.dumps(document, indent=1, allow_nan=False))


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
