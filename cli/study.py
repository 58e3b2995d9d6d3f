"""``headtool study``: many models, seeds and tasks in one file, run and read together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import headtool.cli.report as reporting
from headtool.cli.console import note, prepare_messages
from headtool.cli.groups import CostOptions, PrintOptions, command, print_as
from headtool.cli.options import Force, Format, OutputFormat, Quiet
from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    from headtool.studies.status import StudyStatus

__all__ = ["examples", "init", "report", "run", "status"]

HELP = "Many models, data sets, methods and seeds in one file: run them, and read them together."
_EXAMPLES = {
    "init": ("study.yaml",),
    "run": ("study.yaml --dry-run", "study.yaml"),
    "status": ("study.yaml",),
    "report": ("study.yaml", "study.yaml --format latex --out paper/tables"),
}


def examples(*commands: str) -> str:
    """Return the examples of some of the commands; of all, without any."""
    lines = [
        f"headtool study {name} {given}"
        for name in commands or _EXAMPLES
        for given in _EXAMPLES[name]
    ]
    return "\n\n".join(("Examples:", *lines))


StudyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The study, a YAML file.")]
StudyPlace = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The study file, or the folder of its runs."),
]
NewFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Where to write it.", show_default=True)
]
ReportFormat = Annotated[
    str,
    typer.Option(
        "--format",
        parser=reporting.read_format,
        metavar="html|markdown|latex|csv",
        help="html and markdown are a file; latex (booktabs) and csv (every table) a folder.",
    ),
]
StudyOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="PATH", help="Where to. Default: inside the study's folder."),
]


def init(file: NewFile = Path("study.yaml"), force: Force = False, quiet: Quiet = False) -> None:
    """Write an example of a study file, with comments, to be changed.

    It runs on the built-in models in about a minute. Its first line tells editors that know YAML
    where the schema of study files lies, so that they complete and check keys.
    """
    prepare_messages(quiet=quiet)
    from headtool.studies.starting import write_example

    written = write_example(file, force=force)
    typer.echo(str(written))
    note(f"run it with: headtool study run {written}", quiet=quiet)


@command
def run(file: StudyFile, cost: CostOptions, show: PrintOptions) -> None:
    """Run a study, or what is left of it.

    The file is checked whole before anything runs; what is wrong is told with its line and key.
    Every cell, a model on a task, becomes a run directory as of `headtool compare`. A study that
    was interrupted continues when the same command is given again. A cell that fails does not
    stop the others, and is tried again the next time.
    """
    show.prepare()
    if cost.dry_run:
        _tell_cost(file, show)
        return
    from headtool.cli.cell_command import command_of
    from headtool.studies.running import study
    from headtool.studies.status import study_status

    with cost.progress(show) as progress:
        done = study(
            file,
            progress=progress,
            tell=lambda line: note(line, quiet=show.quiet),
            command=command_of,
        )
    _show_status(study_status(done.folder), show.output)
    note(f"the runs are in {done.folder / 'cells'}", quiet=show.quiet)
    failed = [f"{cell.id}: {cell.error}" for cell in done.cells if cell.state == "failed"]
    if failed:
        raise HeadtoolError(
            f"{len(failed)} of {len(done.cells)} cells failed, the others are done. "
            f"{'; '.join(failed)}"
        )


def status(file: StudyPlace, output: Format = OutputFormat.table, quiet: Quiet = False) -> None:
    """Show how far a study is: cells that are done, running, failed and left, with their time."""
    prepare_messages(quiet=quiet)
    from headtool.studies.status import study_status

    _show_status(study_status(file), output)


def report(
    file: StudyPlace,
    output: ReportFormat = "html",
    columns: reporting.Columns = None,
    out: StudyOut = None,
    force: reporting.Force = False,
    quiet: Quiet = False,
) -> None:
    """Rank the methods over all cells of a study that are done: a page, or tables for a paper.

    Shows which method ranks first and how surely, how much of that depends on the model, the task
    and the training seed, what holds everywhere, and the curves and kept heads of every cell, each
    with a link to its own report. Prints the path of what was written.
    """
    prepare_messages(quiet=quiet)
    from headtool.reports.contents.studies import of_study
    from headtool.reports.writing import write_study_report
    from headtool.studies.cells import open_study

    contents = of_study(open_study(file))
    titles = reporting.titles_of(columns)
    written = write_study_report(contents, format=output, columns=titles, out=out, force=force)
    for name, reason in contents.left:
        note(f"{name} is left out: {reason}", quiet=quiet)
    typer.echo(str(written))


def _show_status(found: StudyStatus, output: OutputFormat) -> None:
    from headtool.reports.terminal.studies import status_tables

    print_as(
        output,
        document=found.document,
        frame=lambda: found.frame,
        tables=lambda: status_tables(found.frame, found.document()),
    )


def _tell_cost(file: Path, show: PrintOptions) -> None:
    from headtool.reports.terminal.studies import cost_tables
    from headtool.studies.dry_run import plan_study

    found = plan_study(file, timed=True)
    show.print(
        document=found.document,
        frame=lambda: found.frame,
        tables=lambda: cost_tables(found.frame, found.document()),
    )
