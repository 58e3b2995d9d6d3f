"""``headtool speed``: latency and throughput of a whole, a masked and a pruned model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtool.cli.console import progress_bar
from headtool.cli.groups import LoadOptions, PrintOptions, RunOptions, command
from headtool.cli.options import Model, split_names, whole_number
from headtool.errors import HeadtoolError, unknown

if TYPE_CHECKING:
    from headtool.models.base import ModelAdapter

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
    show: PrintOptions,
) -> None:
    """Time a model whole, with heads masked, and without them.

    All three take turns in one process. Speedups are medians over repetitions with 95% intervals.
    Masking alone saves nothing; what removal saves grows with the batch.
    """
    show.prepare()
    import pandas as pd

    from headtool.models import load_model
    from headtool.pruning.speed import WORKS, contenders, measure_speed
    from headtool.reports.terminal.speed import speed_tables
    from headtool.results.scores import json_rows

    if (pruned is None) == (mask is None):
        given = "both are" if pruned is not None else "neither is"
        raise HeadtoolError(f"say what is pruned by one of --pruned and --mask; {given} given")
    works = split_names(work, "work") if work is not None else None
    for name in works or []:
        if name not in WORKS:
            raise unknown("work", name, WORKS)
    sizes = [_size(text) for text in split_names(batch_sizes, "batch size")]
    run.check()
    whole = loading.load(model)
    if pruned is not None:
        smaller = load_model(str(pruned), device=loading.device, dtype=loading.dtype)
    else:
        assert mask is not None
        smaller = _pruned_by(mask, whole)
    works = works or ["decode" if whole.task == "seq2seq" else "forward"]
    if beam > 1 and "decode" not in works:
        raise HeadtoolError("--beam is for --work decode; add it, or leave --beam out")
    models = contenders(whole, smaller)
    with progress_bar(quiet=show.quiet) as progress:
        frame = pd.concat(
            [
                measure_speed(
                    models,
                    work=name,
                    batch_sizes=sizes,
                    length=length,
                    beam=beam,
                    repetitions=repetitions,
                    warmup=warm_up,
                    progress=progress,
                )
                for name in works
            ],
            ignore_index=True,
        )
    source = _source(whole, smaller, length, beam, repetitions)
    run.write({"speed": source}, {"speed": frame}, quiet=show.quiet)
    show.print(
        document=lambda: {
            "schema": "headtool/speed/1",
            "provenance": source,
            "speed": json_rows(frame),
        },
        frame=lambda: frame,
        tables=lambda: speed_tables(frame, source),
    )


def _size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise HeadtoolError(f"--batch-sizes takes numbers from 1 on, such as 1,16, got '{text}'")
    return int(text)


def _pruned_by(mask: Path, model: ModelAdapter) -> ModelAdapter:
    from headtool.masks.selection import from_file
    from headtool.pruning.smaller import prune

    return prune(model, from_file(mask, model.sites)).model


def _source(
    whole: ModelAdapter, pruned: ModelAdapter, length: int, beam: int, repetitions: int
) -> dict[str, object]:
    """What reproduces the numbers, as far as a machine's speed can be reproduced."""
    import platform

    import torch

    from headtool.results.versions import versions

    cuda = whole.device.type == "cuda"
    return {
        "model": whole.spec,
        "heads": whole.sites.summary,
        "pruned": pruned.spec,
        "heads_left": pruned.sites.summary,
        "length": length,
        "beam": beam,
        "repetitions": repetitions,
        "device": torch.cuda.get_device_name(whole.device) if cuda else str(whole.device),
        "dtype": str(next(whole.module.parameters()).dtype).removeprefix("torch."),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }
