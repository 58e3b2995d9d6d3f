"""The ``headtool`` command."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from headtool.cli import heads, methods, score
from headtool.errors import HeadtoolError

__all__ = ["app", "run"]

app = typer.Typer(
    name="headtool",
    help="Compare ways of scoring and pruning attention heads on your own transformer.",
    epilog="Start with: headtool score --method gradient",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headtool {version('headtool')}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Compare ways of scoring and pruning attention heads on your own transformer."""


app.command("methods", epilog=methods.EXAMPLES)(methods.methods)
app.command("heads", epilog=heads.EXAMPLES)(heads.heads)
app.command("score", epilog=score.EXAMPLES)(score.score)


def run() -> None:
    """Run the command line; what the user can fix is one line on stderr and exit code 2."""
    try:
        app()
    except HeadtoolError as error:
        console = Console(stderr=True, soft_wrap=True)
        line = " ".join(str(error).split())
        console.print(f"error: {line}", style="red", markup=False, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; nothing was written", style="dim")
        sys.exit(130)
