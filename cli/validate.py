"""``headtool validate``: which methods find heads that are known to matter."""

from __future__ import annotations

from typing import Annotated

import typer

from headtool.cli.choices import chosen_methods, split_names
from headtool.cli.console import this_command
from headtool.cli.groups import CostOptions, PrintOptions, RunOptions, command
from headtool.cli.options import Seed, Settings, whole_number

__all__ = ["validate"]

EXAMPLES = (
    "Examples:\n\nheadtool validate\n\n"
    "headtool validate --methods mine,gradient,ablation --out runs/validation\n\n"
    "headtool validate --methods mine --set mine.option=3 --models 10"
)

Names = Annotated[
    str | None,
    typer.Option(
        "--methods",
        "--method",
        metavar="NAME,...",
        help="Methods to try, each with the options that matter most. Default: all.",
    ),
]
Models = Annotated[
    int,
    typer.Option(
        "--models",
        parser=whole_number("--models", least=1, most=1000),
        metavar="N",
        help="Models with other seeds; intervals are over them.",
    ),
]
Examples = Annotated[
    int,
    typer.Option(
        "--limit",
        parser=whole_number("--limit", least=1),
        metavar="N",
        help="Examples to score on.",
    ),
]


@command
def validate(
    *,
    methods: Names = None,
    settings: Settings = None,
    models: Models = 5,
    limit: Examples = 48,
    seed: Seed = 0,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Try scoring methods on models in which it is known what every head does.

    Each model, `builtin:planted?seed=N`, has two necessary heads, two interchangeable ones of which
    either suffices, one that harms, one of large constant output that nothing reads, and six idle
    ones. Shown are the area under the ROC curve for the necessary heads and for the heads of the
    smallest sufficient sets, how many of the highest ranked heads suffice, and which kinds of heads
    a method gets wrong. Passes are those that really ran, over all examples. Methods of other
    packages are tried as well. A method with --set is tried with these options alone.
    """
    show.prepare()
    chosen = None
    if methods is not None:
        names = split_names(methods, "method")
        configured = {text.partition(".")[0] for text in settings or ()}
        built = chosen_methods(methods, settings)
        chosen = [
            method if name in configured else name
            for name, method in zip(names, built, strict=True)
        ]
    elif settings:
        from headtool.errors import HeadtoolError

        raise HeadtoolError("--set is for methods that --methods names; add it")
    from headtool.experiments.validation import validate as try_methods
    from headtool.reports.terminal.validation import validation_tables

    with cost.progress(show) as progress:
        found = try_methods(
            chosen,
            models=models,
            limit=limit,
            seed=seed,
            **run.place,
            command=this_command(),
            progress=progress,
        )
    run.tell(quiet=show.quiet)
    show.print(
        document=found.document,
        frame=lambda: found.frame,
        tables=lambda: validation_tables(found.frame, found.provenance),
    )
