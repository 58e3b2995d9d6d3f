"""``headtool report``: render a saved run, without computing anything again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.console import note, prepare_messages
from headtool.cli.options import Quiet
from headtool.errors import HeadtoolError

__all__ = ["read_format", "report", "titles_of"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool report runs/compared\n\n"
    "headtool report runs/compared --format latex --out paper/tables\n\n"
    "headtool report runs/compared --format latex --columns effect,interval,verdict\n\n"
    "headtool report runs/compared --format pdf --width 3.25 --out paper/figures --force\n\n"
    "headtool report runs/compared --roles runs/roles --out with-roles.html\n\n"
    "headtool report runs/sst2 runs/nli runs/mt --out methods.html"
)


def read_format(text: str) -> str:
    """Check the name of a format, and return it.

    Parameters
    ----------
    text
        As given.
    """
    from headtool.reports.formats.choice import choice_of

    choice_of(text)
    return text


RunFolders = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...",
        help="Folder that a command wrote with --out. Several comparisons make one report, which "
        "ranks the methods over all of them.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        parser=read_format,
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
    runs: RunFolders,
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

    Shows runs of compare, curve, score, ablate, roles and dynamics. Several comparisons are put
    together as far as they fit: same methods, each on a model and a data set of its own. Prints the
    path of what was written. The HTML page is one file that opens from disk and needs no network.
    """
    prepare_messages(quiet=quiet)
    from headtool.reports.writing import write_report

    if len(runs) > 1:
        of_several = {"roles": roles, "width": width, "font": font}
        _report_several(runs, of_several, output, columns, out, force=force, quiet=quiet)
        return
    written = write_report(
        runs[0],
        format=output,
        roles=roles,
        columns=titles_of(columns),
        width=width,
        font=font,
        out=out,
        force=force,
    )
    typer.echo(str(written))


def _report_several(
    runs: list[Path],
    unfit: Mapping[str, object],
    output: str,
    columns: str | None,
    out: Path | None,
    *,
    force: bool,
    quiet: bool,
) -> None:
    """Render several comparisons as one report; say which do not fit, and why."""
    for name, value in unfit.items():
        if value is not None:
            raise HeadtoolError(f"`{name}` has no effect on several runs; leave it out")
    from headtool.reports.contents.studies import of_runs
    from headtool.reports.writing import write_study_report

    contents = of_runs(runs)
    written = write_study_report(
        contents, format=output, columns=titles_of(columns), out=out, force=force
    )
    for name, reason in contents.left:
        note(f"{name} is left out: {reason}", quiet=quiet)
    typer.echo(str(written))


def titles_of(columns: str | None) -> list[str] | None:
    """Read titles of columns, separated by commas.

    Parameters
    ----------
    columns
        As given; None for all.
    """
    return None if columns is None else [title.strip() for title in columns.split(",")]
