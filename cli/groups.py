"""Options that several commands take together, and what they come to.

A command asks for a group by a parameter of its type; `command` shows typer the group's fields in
its place. So every group stands once, and so does what is done with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from headtool.cli.console import note, out, prepare_messages, stderr
from headtool.cli.options import (
    BatchTokens,
    Bpe,
    Columns,
    Device,
    DeviceMap,
    DryRun,
    Dtype,
    FairseqData,
    Force,
    Format,
    Limit,
    LimitOrder,
    LoadIn,
    Out,
    OutputFormat,
    Quiet,
    Seed,
    TrustCheckpoint,
    Verbose,
)
from headtool.cli.searching import Beam, Greedy, LengthPenalty, MaxNewTokens, asked_search

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from headtool.cli.progress import Bar
    from headtool.experiments.inputs import DataSource, ModelSource
    from headtool.experiments.planning import Plan
    from headtool.searching import Search

__all__ = [
    "CostOptions",
    "DataOptions",
    "LoadOptions",
    "PrintOptions",
    "RunOptions",
    "SearchOptions",
    "command",
    "print_as",
]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameters that are groups by the groups' fields, for typer to see."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if not dataclasses.is_dataclass(parameter.annotation):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = group = parameter.annotation
        hints = typing.get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in dataclasses.fields(group)
        ]

    @functools.wraps(function)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            fields = {field.name: values.pop(field.name) for field in dataclasses.fields(group)}
            values[name] = group(**fields)
        function(**values)

    shown: Any = run
    shown.__signature__ = inspect.Signature(parameters)
    shown.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@dataclass(frozen=True)
class LoadOptions:
    """How to load a model."""

    device: Device = "auto"
    dtype: Dtype = "float32"
    device_map: DeviceMap = None
    load_in: LoadIn = None
    fairseq_data: FairseqData = None
    bpe: Bpe = None
    trust_checkpoint: TrustCheckpoint = False

    def source(self, spec: str) -> ModelSource:
        """Name a model and how to load it, for a function that loads it when it is time to."""
        from headtool.experiments.inputs import ModelSource

        return ModelSource(spec, **dataclasses.asdict(self))


@dataclass(frozen=True)
class DataOptions:
    """How much of a data set to use, and how to read it."""

    columns: Columns = None
    limit: Limit = None
    limit_order: LimitOrder = "seeded"
    batch_tokens: BatchTokens = 4096
    seed: Seed = 0

    @property
    def amounts(self) -> dict[str, Any]:
        """How much to read, as keywords of the functions behind the commands."""
        return {
            "limit": self.limit,
            "limit_order": self.limit_order,
            "batch_tokens": self.batch_tokens,
            "seed": self.seed,
        }

    def source(self, spec: str | None) -> DataSource:
        """Name a data set and how to read it; None for the built-in one of a built-in model."""
        from headtool.data import parse_columns
        from headtool.experiments.inputs import DataSource

        return DataSource(spec, parse_columns(self.columns) if self.columns is not None else None)


@dataclass(frozen=True)
class SearchOptions:
    """How translation models and language models decode."""

    beam: Beam = None
    greedy: Greedy = False
    length_penalty: LengthPenalty = None
    max_length: MaxNewTokens = None

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return self != SearchOptions()

    def asked(self, metric: str | None) -> Search:
        """Check the options against each other and the metric; that costs no model yet."""
        return asked_search(metric, **vars(self))


@dataclass(frozen=True)
class RunOptions:
    """Where the run directory goes."""

    output_dir: Out = None
    force: Force = False

    @property
    def place(self) -> dict[str, Any]:
        """Where the run goes, as keywords of the functions behind the commands."""
        return {"out": self.output_dir, "force": self.force}

    def tell(self, *, quiet: bool) -> None:
        """Say where the run was written, if it was."""
        if self.output_dir is not None:
            note(f"written to {self.output_dir}", quiet=quiet)


@dataclass(frozen=True)
class PrintOptions:
    """What is printed."""

    output: Format = OutputFormat.table
    quiet: Quiet = False
    verbose: Verbose = False

    def prepare(self) -> None:
        """Set up messages; the first thing that a command does."""
        prepare_messages(quiet=self.quiet, verbose=self.verbose)

    def notes(self, lines: Iterable[str]) -> None:
        """Tell the user what a result leaves out or takes for granted."""
        for line in lines:
            note(line, quiet=self.quiet)

    def print(
        self,
        *,
        document: Callable[[], Mapping[str, Any]],
        frame: Callable[[], pd.DataFrame],
        tables: Callable[[], Iterable[RenderableType]],
    ) -> None:
        """Print a result on stdout in the format asked for.

        Parameters
        ----------
        document
            Makes the JSON document; what is not finite in it must be None by then.
        frame
            Makes the table that CSV has, which holds one.
        tables
            Makes what a reader sees.
        """
        print_as(self.output, document=document, frame=frame, tables=tables)


@dataclass(frozen=True)
class CostOptions:
    """What is said of the work before it begins, and while it lasts."""

    dry_run: DryRun = False

    @contextlib.contextmanager
    def progress(
        self,
        show: PrintOptions,
        *,
        workers: int = 1,
        status: Callable[[], str] | None = None,
    ) -> Iterator[Bar]:
        """Show progress while the block runs; of a dry run, print the plan and leave.

        Parameters
        ----------
        show
            What is printed, and how.
        workers
            Over how many workers the work is spread.
        status
            Says in a few words how the work stands, such as who is at work.
        """
        from headtool.cli.progress import shown_progress

        def tell(plan: Plan) -> None:
            from headtool.reports.terminal.plan import plan_tables

            show.print(
                document=plan.document,
                frame=lambda: plan.frame,
                tables=lambda: plan_tables(plan.frame, plan.document()),
            )

        console = None if show.quiet else stderr()
        with shown_progress(
            console, dry_run=tell if self.dry_run else None, workers=workers, status=status
        ) as bar:
            yield bar


def print_as(
    output: OutputFormat,
    *,
    document: Callable[[], Mapping[str, Any]],
    frame: Callable[[], pd.DataFrame],
    tables: Callable[[], Iterable[RenderableType]],
) -> None:
    """Print a result in a format, for a command without `PrintOptions`.

    Parameters
    ----------
    output
        The format.
    document, frame, tables
        As for `PrintOptions.print`.
    """
    if output is OutputFormat.json:
        typer.echo(json.dumps(document(), indent=1, allow_nan=False))
    elif output is OutputFormat.csv:
        typer.echo(frame().to_csv(index=False), nl=False)
    else:
        console = out()
        for part in tables():
            console.print(part)
