"""``headtool speed``: latency and throughput of a whole, a masked and a pruned model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headtool.cli.choices import split_names
from headtool.cli.console import this_command
from headtool.cli.groups import CostOptions, LoadOptions, PrintOptions, RunOptions, command
from headtool.cli.options import Model, whole_number
from headtool.errors import HeadtoolError

__all__ = ["speed"]

EXAMPLES = (
    "Examples:\n\n"
    "headtool speed --model path/to/model --pruned smaller\n\n"
    "headtool speed --model path/to/model --mask mask.json --batch-sizes 1,64 --length 128\n\n"
    "headtool speed --model fairseq:checkpoint.pt --pruned smaller --work decode --beam 5"
)

PrunedFolder = Annotated[
    Path | None,
    typer.Option("--pruned", metavar="DIR", help="What `headtool prune` made of the model."),
]
Mask = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Instead, a file that closes heads; see `headtool prune`."),
]
Work = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="forward (one pass) or decode (generate as many tokens). "
        "Default: forward; decode for translation models.",
    ),
]
BatchSizes = Annotated[
    str, typer.Option("--batch-sizes", metavar="N,...", help="Examples in a batch.")
]
Length = Annotated[
    int,
    typer.Option(
        parser=whole_number("--length", least=2), metavar="N", help="Tokens of an example."
    ),
]
Beam = Annotated[
    int,
    typer.Option(parser=whole_number("--beam", least=1), metavar="N", help="Width of the beam."),
]
Repetitions = Annotated[
    int,
    typer.Option(
        parser=whole_number("--repetitions", least=1),
        metavar="N",
        help="Timings of each model; six give an interval.",
    ),
]
WarmUp = Annotated[
    int,
    typer.Option(
        "--warm-up",
        parser=whole_number("--warm-up", least=1),
        metavar="N",
        help="Untimed runs before.",
    ),
]


@command
def speed(
    *,
    model: Model = "builtin:nli",
    pruned: PrunedFolder = None,
    mask: Mask = None,
    work: Work = None,
    batch_sizes: BatchSizes = "1,4,16,64",
    length: Length = 64,
    beam: Beam = 1,
    repetitions: Repetitions = 10,
    warm_up: WarmUp = 2,
    loading: LoadOptions,
    run: RunOptions,
    cost: CostOptions,
    show: PrintOptions,
) -> None:
    """Time a model whole, with heads masked, and without them.

    All three take turns in one process. Speedups are medians over repetitions with 95% intervals.
    Masking alone saves nothing; what removal saves grows with the batch.
    """
    show.prepare()
    from headtool.experiments.inputs import ModelSource
    from headtool.experiments.speed import speed as measure_speed
    from headtool.reports.terminal.speed import speed_tables

    smaller = None
    if pruned is not None:
        smaller = ModelSource(
            str(pruned),
            device=loading.device,
            dtype=loading.dtype,
            device_map=loading.device_map,
            load_in=loading.load_in,
        )
    with cost.progress(show) as progress:
        found = measure_speed(
            loading.source(model),
            smaller,
            mask=mask,
            work=None if work is None else split_names(work, "work"),
            batch_sizes=[_size(text) for text in split_names(batch_sizes, "batch size")],
            length=length,
            beam=beam,
            repetitions=repetitions,
            warm_up=warm_up,
            **run.place,
            command=this_command(),
            progress=progress,
        )
    run.tell(quiet=show.quiet)
    show.print(
        document=found.document,
        frame=lambda: found.frame,
        tables=lambda: speed_tables(found.frame, found.provenance),
    )


def _size(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise HeadtoolError(f"--batch-sizes takes numbers from 1 on, such as 1,16, got '{text}'")
    return int(text)
