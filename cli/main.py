"""The ``headtool`` command."""

from __future__ import annotations

import inspect
import itertools
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from headtool.cli import (
    ablate,
    compare,
    correlate,
    curve,
    dynamics,
    env,
    exchange,
    heads,
    methods,
    prune,
    report,
    roles,
    score,
    show,
    significance,
    speed,
    study,
    validate,
)
from headtool.cli.console import complain, note, this_command
from headtool.cli.fields import set_command
from headtool.cli.machine import discard_output, open_streams, refusal
from headtool.errors import HeadtoolError, nearest, unknown
from headtool.results.versions import versions

__all__ = ["app", "run"]

_INTERRUPTED = 130

# The base of all errors in options; not every version of typer exports it under a name.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])


class _Flag:
    """Shows --help as the flag that it is, not as an option that takes a value."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.metavar = ""
        return option


class _Command(_Flag, TyperCommand):
    """A command."""


class _Commands(_Flag, TyperGroup):
    """The commands; an unknown one is reported like any other unknown name."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            raise unknown("command", cmd_name, self.commands)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        set_command(command, self.commands.values())
        return name, command, rest


app = typer.Typer(
    name="headtool",
    cls=_Commands,
    help="Compare ways of scoring and pruning attention heads on your own transformer.",
    epilog="Start with: headtool compare --limit 200",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        found = versions()
        names = ["headtool", *(name for name in found if name != "headtool")]
        typer.echo("\n".join(f"{name} {found[name]}" for name in names))
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            metavar="",
            help="Print the versions that numbers depend on, headtool's first, and exit.",
        ),
    ] = False,
) -> None:
    """Compare ways of scoring and pruning attention heads on your own transformer."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("methods", epilog=methods.EXAMPLES)(methods.methods)
app.command("heads", epilog=heads.EXAMPLES)(heads.heads)
app.command("score", epilog=score.EXAMPLES)(score.score)
app.command("ablate", epilog=ablate.EXAMPLES)(ablate.ablate)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("curve", epilog=curve.EXAMPLES)(curve.curve)
app.command("correlate", epilog=correlate.EXAMPLES)(correlate.correlate)
app.command("prune", epilog=prune.EXAMPLES)(prune.prune)
app.command("dynamics", epilog=dynamics.EXAMPLES)(dynamics.dynamics)
app.command("report", epilog=report.EXAMPLES)(report.report)
app.command("roles", epilog=roles.EXAMPLES)(roles.roles)
app.command("speed", epilog=speed.EXAMPLES)(speed.speed)
app.command("test", epilog=significance.EXAMPLES)(significance.significance)
app.command("import", epilog=exchange.IMPORT_EXAMPLES)(exchange.importing)
app.command("export", epilog=exchange.EXPORT_EXAMPLES)(exchange.exporting)
app.command("validate", epilog=validate.EXAMPLES)(validate.validate)
app.command("show", epilog=show.EXAMPLES)(show.show)
app.command("env", epilog=env.EXAMPLES)(env.env)

studies = typer.Typer(cls=_Commands, help=study.HELP, no_args_is_help=True)
studies.command("init", epilog=study.examples("init"))(study.init)
studies.command("run", epilog=study.examples("run"))(study.run)
studies.command("status", epilog=study.examples("status"))(study.status)
studies.command("report", epilog=study.examples("report"))(study.report)
app.add_typer(studies, name="study", epilog=study.examples())


# A docstring's line breaks would stay in the help text, at any width of the terminal.
for _command in (*app.registered_commands, *studies.registered_commands):
    _paragraphs = inspect.cleandoc(_command.callback.__doc__ or "").split("\n\n")
    _command.cls = _Command
    _command.help = "\n\n".join(" ".join(lines.split()) for lines in _paragraphs)


def run() -> None:
    """Run the command line; what the user can fix is one line on stderr and exit code 2."""
    if not open_streams():
        complain("standard output is closed; send it to a file, or to /dev/null")
        sys.exit(2)
    try:
        code = app(prog_name="headtool", standalone_mode=False)
        sys.stdout.flush()
    except HeadtoolError as error:
        complain(str(error))
        code = 2
    except _UsageError as error:
        complain(_usage(error))
        code = 2
    except BrokenPipeError:
        # Who read our output has enough of it; nor may Python's own flush at the end complain.
        discard_output()
        code = 1
    except (ImportError, MemoryError, OSError, RuntimeError) as error:
        reason = refusal(error)
        if reason is None:
            raise
        discard_output()
        complain(reason)
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        again = "to continue" if _something_kept(sys.argv[1:]) else "to start again"
        note(f"interrupted; {again}: {this_command()}")
    sys.exit(code or 0)


def _something_kept(arguments: list[str]) -> bool:
    """Whether finished work lies beside the run that --out names, for the same command to use.

    A study keeps what it does in its own folder.
    """
    if arguments[:2] == ["study", "run"]:
        return True
    from headtool.results.folders import holds_work, unfinished_folder

    given = [
        word.removeprefix("--out=") if word.startswith("--out=") else after
        for word, after in itertools.pairwise([*arguments, ""])
        if word == "--out" or word.startswith("--out=")
    ]
    return bool(given and given[-1]) and holds_work(unfinished_folder(Path(given[-1])))


def _usage(error: typer.BadParameter) -> str:
    """Say what is wrong with an option, in the words of our other errors."""
    context = error.ctx
    remedy = f"see {context.command_path if context else 'headtool'} --help"
    if context is not None and hasattr(error, "possibilities"):
        name = getattr(error, "option_name", "")
        known = [name for option in context.command.params for name in option.opts]
        return f"unknown option '{name}'{nearest(name, known)}; {remedy}"
    message = error.format_message().rstrip(".")
    return f"{message[0].lower()}{message[1:]}; {remedy}"
