"""``headtool report``: render a saved run, without computing anything again."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.console import prepare_messages
from headtool.cli.options import Quiet
from headtool.errors import unknown

__all__ = ["report"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool report runs/compared\n\n"
    "headtool report runs/compared --format latex --out paper/tables\n\n"
    "headtool report runs/compared --format figures --out paper/figures --force\n\n"
    "headtool report runs/compared --roles runs/roles --out with-roles.html"
)


class ReportFormat(StrEnum):
    """What a run is rendered as."""

    html = "html"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"
    figures = "figures"


def _format(text: str) -> ReportFormat:
    if text not in ReportFormat.__members__:
        raise unknown("format", text, ReportFormat.__members__)
    return ReportFormat(text)


RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder that a command wrote with --out.")
]
Format = Annotated[
    ReportFormat,
    typer.Option(
        "--format",
        parser=_format,
        metavar="html|markdown|latex|csv|figures",
        help="html and markdown are a file; latex (booktabs tables), csv (every table) and "
        "figures (PDF, SVG and PNG) a folder.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="PATH", help="Where to. Default: inside the run."),
]
Force = Annotated[
    bool,
    typer.Option("--force", metavar="", help="Replace a report that is already there."),
]
Roles = Annotated[
    Path | None,
    typer.Option(
        "--roles",
        metavar="RUN",
        help="A run of `headtool roles` on the model that RUN compares methods on: show the roles "
        "of its heads, and which of them each method leaves.",
    ),
]


def report(
    run: RunFolder,
    output: Format = ReportFormat.html,
    roles: Roles = None,
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Render a saved run: a page for the browser, or tables and figures for a paper.

    Shows runs of compare, curve, score, ablate, roles and dynamics. Prints the path of what was
    written. The HTML page is one file that opens from disk and needs no network.
    """
    prepare_messages(quiet=quiet)
    from headtool.reports.writing import write_report

    typer.echo(str(write_report(run, format=output.value, roles=roles, out=out, force=force)))
