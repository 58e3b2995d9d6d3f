"""``headtool report``: render a saved run, without computing anything again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.console import prepare_messages
from headtool.cli.options import Quiet

__all__ = ["report"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool report runs/compared\n\n"
    "headtool report runs/compared --format latex --out paper/tables\n\n"
    "headtool report runs/compared --format latex --columns effect,interval,verdict\n\n"
    "headtool report runs/compared --format pdf --width 3.25 --out paper/figures --force\n\n"
    "headtool report runs/compared --roles runs/roles --out with-roles.html"
)


def _format(text: str) -> str:
    from headtool.reports.formats.choice import choice_of

    choice_of(text)
    return text


RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder that a command wrote with --out.")
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        parser=_format,
        metavar="html|markdown|latex|csv|figures|pdf,svg,png",
        help="html and markdown are a file; latex (booktabs tables), csv (every table) and "
        "figures (PDF, SVG and PNG, or those that are named) a folder.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="TITLE,...",
        help="latex: columns to show beside those that name the rows; tables without any of them "
        "are left out. Default: all; wide tables are divided.",
    ),
]
Width = Annotated[
    float | None,
    typer.Option(
        "--width", metavar="INCHES", help="Figures: width of each, with text of the same size."
    ),
]
Font = Annotated[
    str | None,
    typer.Option("--font", metavar="NAME", help="Figures: an installed font."),
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
    output: Format = "html",
    roles: Roles = None,
    columns: Columns = None,
    width: Width = None,
    font: Font = None,
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

    titles = None if columns is None else [title.strip() for title in columns.split(",")]
    written = write_report(
        run,
        format=output,
        roles=roles,
        columns=titles,
        width=width,
        font=font,
        out=out,
        force=force,
    )
    typer.echo(str(written))
