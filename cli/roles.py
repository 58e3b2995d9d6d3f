"""``headtool roles``: what the heads of a model do, and which roles pruning leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.choices import chosen_kinds, split_names
from headtool.cli.console import this_command
from headtool.cli.groups import (
    CostOptions,
    DataOptions,
    LoadOptions,
    PrintOptions,
    RunOptions,
    command,
)
from headtool.cli.options import Data, Kinds, Model, whole_number
from headtool.cli.worker_options import WorkerOptions
from headtool.errors import HeadtoolError

__all__ = ["roles"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool roles --model path/to/model --treebank dev.conllu --out runs/roles\n\n"
    "headtool roles --model org/name --data book.txt --role previous-token,induction\n\n"
    "headtool roles runs/roles --kept runs/comparison"
)

_OF_SAVED = {"context", "saved", "kept", "output", "quiet", "verbose"}

RunFolder = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN]", help="Show what `headtool roles --out` wrote; the model is not run."
    ),
]
TreebankFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--treebank",
        metavar="FILE",
        help="Sentences with their dependencies in CoNLL-U, instead of --data. Repeatable. "
        "A translation model reads them with its encoder.",
        rich_help_panel="Data",
    ),
]
RoleNames = Annotated[
    str | None,
    typer.Option(
        "--role",
        metavar="NAME,...",
        help="positional, syntactic, rare-token, separator, punctuation, first-token, "
        "previous-token, induction. Default: all that are possible.",
    ),
]
Thresholds = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="ROLE=SHARE,...",
        help="From which share of its queries a head has a role; for syntactic, how much better "
        "than the baseline it must be. Default: positional=0.9, syntactic=0.1, rare-token=0.66, "
        "the others 0.5.",
    ),
]
Common = Annotated[
    int,
    typer.Option(
        "--common",
        parser=whole_number("--common", least=0),
        metavar="N",
        help="The N most frequent types of tokens are never rare.",
    ),
]
FrequencyFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="What is rare: lines of TOKEN COUNT, tokens as the model's vocabulary writes them. "
        "Default: counts in the data.",
    ),
]
Least = Annotated[
    int,
    typer.Option(
        "--least",
        parser=whole_number("--least", least=1),
        metavar="N",
        help="Leave out dependency relations with fewer queries in a direction.",
    ),
]
Correction = Annotated[str, typer.Option(metavar="NAME", help="holm, bh, by or none.")]
Alpha = Annotated[float, typer.Option(metavar="LEVEL", help="Level after correction.")]
Kept = Annotated[
    Path | None,
    typer.Option(
        "--kept",
        metavar="RUN",
        help="A run of `headtool compare` of this model: which roles does each method leave?",
    ),
]


@command
def roles(
    *,
    context: typer.Context,
    saved: RunFolder = None,
    model: Model = "builtin:nli",
    data: Data = None,
    treebank: TreebankFiles = None,
    kind: Kinds = None,
    role: RoleNames = None,
    threshold: Thresholds = None,
    common: Common = 500,
    frequencies: FrequencyFile = None,
    least: Least = 20,
    correction: Correction = "holm",
    alpha: Alpha = 0.05,
    kept: Kept = None,
    reading: DataOptions,
    loading: LoadOptions,
    spread: WorkerOptions,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Say what self-attention heads do: follow positions, syntax, rare tokens and the like.

    A head has a role if its largest attention weight lies where the role says for a large enough
    share of the queries, and more often than a baseline's, corrected over all heads and variants.
    Queries are tokens of the text; special tokens and padding are none. Where a role is about such
    tokens alone (positional, rare-token, syntactic, previous-token, induction), weights on special
    tokens are set aside before the largest is looked for. Syntactic heads need a
    treebank. With --kept --format csv, the table of surviving roles is printed.
    """
    show.prepare()
    kinds = chosen_kinds(kind)
    from headtool.experiments.roles import roles as roles_of_model
    from headtool.experiments.roles import roles_of_run
    from headtool.reports.terminal.roles import role_tables

    if saved is not None:
        _check_saved(saved, context)
        found = roles_of_run(saved, kept=kept)
    else:
        thresholds = _thresholds(threshold)
        with spread.at_work(cost, show) as at_work:
            found = roles_of_model(
                loading.source(model),
                reading.source(data),
                treebank=treebank or (),
                kinds=kinds,
                roles=None if role is None else split_names(role, "role"),
                thresholds=thresholds,
                common=common,
                frequencies=frequencies,
                least=least,
                correction=correction,
                alpha=alpha,
                kept=kept,
                **reading.amounts,
                **run.place,
                command=this_command(),
                **at_work,
            )
    run.tell(quiet=show.quiet)
    show.notes(found.notes)
    show.print(
        document=found.document,
        frame=lambda: found.frame if found.survival is None else found.survival,
        tables=lambda: role_tables(found.frame, found.provenance, found.survival),
    )


def _thresholds(text: str | None) -> dict[str, float]:
    """Read ``role=share`` pairs."""
    found: dict[str, float] = {}
    for part in split_names(text, "threshold") if text is not None else ():
        name, equals, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not equals or number != number:
            raise HeadtoolError(f"--threshold takes ROLE=SHARE,..., got '{part}'")
        if name in found:
            raise HeadtoolError(f"--threshold gives {name} twice")
        found[name] = number
    return found


def _check_saved(folder: Path, context: typer.Context) -> None:
    """Refuse options that need the model: a finished run has been made without them."""
    for parameter in context.command.params:
        name = str(parameter.name)
        found = context.get_parameter_source(name)
        if name not in _OF_SAVED and found is not None and found.name == "COMMANDLINE":
            raise HeadtoolError(
                f"{parameter.opts[0]} needs the model, and {folder} is a finished run; leave one "
                "of them out"
            )
