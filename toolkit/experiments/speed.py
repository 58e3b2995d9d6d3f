"""How fast a model is whole, masked and pruned: what ``headtool speed`` does."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError, unknown
from headtool.experiments.inputs import ModelSource, open_model
from headtool.experiments.model_cost import model_cost
from headtool.experiments.planning import Plan, begin
from headtool.heads import HeadMask
from headtool.masks.selection import from_file
from headtool.models.base import ModelAdapter
from headtool.progress import ProgressLike, silent
from headtool.pruning.smaller import prune
from headtool.pruning.speed import WORKS, check_sizes, contenders, measure_speed, timed_passes
from headtool.results.display import Tabled
from headtool.results.folders import check_output
from headtool.results.runs import write_run
from headtool.results.scores import json_rows
from headtool.results.versions import versions
from headtool.work import Phase

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Speed", "speed"]


@dataclass(frozen=True, eq=False, repr=False)
class Speed(Tabled):
    """Latency and throughput of a model whole, with heads masked, and without them.

    Attributes
    ----------
    frame
        A row per work, batch size and model: the table ``speed`` of `headtool.schema`.
    provenance
        Models, settings and machine: what reproduces the numbers, as far as speed can be.
    folder
        The run directory; None where none was asked for.
    """

    frame: pd.DataFrame
    provenance: Mapping[str, Any]
    folder: Path | None = None

    def document(self) -> dict[str, Any]:
        """Return the timings as JSON can hold them, in the format ``headtool/speed/1``."""
        return {
            "schema": "headtool/speed/1",
            "provenance": dict(self.provenance),
            "speed": json_rows(self.frame),
        }


def speed(
    model: ModelAdapter | ModelSource | str = "builtin:nli",
    pruned: ModelAdapter | ModelSource | str | None = None,
    *,
    mask: HeadMask | Path | str | None = None,
    work: Sequence[str] | None = None,
    batch_sizes: Sequence[int] = (1, 4, 16, 64),
    length: int = 64,
    beam: int = 1,
    repetitions: int = 10,
    warm_up: int = 2,
    out: Path | str | None = None,
    force: bool = False,
    command: str = "",
    progress: ProgressLike = silent,
) -> Speed:
    """Time a model whole, with heads masked, and without them.

    All three take turns in one process. Speedups are medians over repetitions with 95% intervals.
    Masking alone saves nothing; what removal saves grows with the batch.

    Parameters
    ----------
    model
        The whole model, or its SPEC.
    pruned
        What `headtool.prune` made of it, or the folder that it wrote.
    mask
        Instead, a mask, or a file that closes heads; see `headtool.prune`.
    work
        ``forward`` (one pass) or ``decode`` (generate as many tokens), or both; None for forward,
        and for decode with translation models.
    batch_sizes
        Examples in a batch.
    length
        Tokens of an example.
    beam
        Width of the beam, for ``decode``.
    repetitions
        Timings of each model; six give an interval.
    warm_up
        Untimed runs before.
    out
        Run directory to write.
    force
        Replace a run that is there.
    command
        The command line that makes the run again, for its manifest.
    progress
        Reports progress; True shows a bar.

    Raises
    ------
    HeadtoolError
        If something does not fit, or `pruned` was not made from `model`.

    Examples
    --------
    >>> import headtool
    >>> model = headtool.load_model("builtin:nli")
    >>> mask = headtool.HeadMask.without(model.sites, model.sites.heads[:16])
    >>> found = headtool.speed(model, mask=mask, batch_sizes=[1], length=8, repetitions=1)
    >>> found.frame["model"].tolist()
    ['whole', 'masked', 'pruned']
    """
    import pandas as pd

    if (pruned is None) == (mask is None):
        given = "both are" if pruned is not None else "neither is"
        raise HeadtoolError(f"say what is pruned by one of `pruned` and `mask`; {given} given")
    for name in work or ():
        if name not in WORKS:
            raise unknown("work", name, WORKS)
    least = {"length": (length, 2), "beam": (beam, 1), "repetitions": (repetitions, 1)}
    for name, (number, smallest) in {**least, "warm_up": (warm_up, 1)}.items():
        if number < smallest:
            raise HeadtoolError(f"`{name}` must be at least {smallest}, got {number}")
    for size in batch_sizes:
        if size < 1:
            raise HeadtoolError(
                f"`batch_sizes` takes numbers from 1 on, such as 1,16, got '{size}'"
            )
    folder = None if out is None else Path(out)
    check_output(folder, force=force)
    whole = open_model(model)
    if pruned is not None:
        smaller = open_model(pruned)
    else:
        assert mask is not None
        closed = mask if isinstance(mask, HeadMask) else from_file(Path(mask), whole.sites)
        smaller = prune(whole, closed, share=True).model
    works = tuple(work or (("decode",) if whole.task == "seq2seq" else ("forward",)))
    if beam > 1 and "decode" not in works:
        raise HeadtoolError("`beam` is for `work=decode`; add it, or leave `beam` out")
    models = contenders(whole, smaller)
    check_sizes(models, length=length, batch_sizes=batch_sizes, beam=beam)
    runs = (warm_up + repetitions) * len(models)
    phases = [
        Phase(name, timed_passes(name, runs=runs, beam=beam), size, size * length, length)
        for name in works
        for size in batch_sizes
    ]
    plan = Plan("speed", model_cost(whole), tuple(phases), max(batch_sizes) * length)
    meter = begin(progress, plan, whole)
    frames = []
    for name in works:
        with meter.phase(name):
            frames.append(
                measure_speed(
                    models,
                    work=name,
                    batch_sizes=batch_sizes,
                    length=length,
                    beam=beam,
                    repetitions=repetitions,
                    warmup=warm_up,
                    progress=meter,
                )
            )
    frame = pd.concat(frames, ignore_index=True)
    settings = {"length": length, "beam": beam, "repetitions": repetitions}
    source = _source(whole, smaller, settings)
    if folder is not None:
        write_run(
            folder,
            command=command,
            provenance={"speed": source},
            tables={"speed": frame},
            force=force,
        )
    return Speed(frame, source, folder)


def _source(
    whole: ModelAdapter, pruned: ModelAdapter, settings: Mapping[str, int]
) -> dict[str, Any]:
    """What reproduces the numbers, as far as a machine's speed can be reproduced."""
    import torch

    cuda = whole.device.type == "cuda"
    return {
        "model": whole.spec,
        "heads": whole.sites.summary,
        "pruned": pruned.spec,
        "heads_left": pruned.sites.summary,
        **settings,
        "device": torch.cuda.get_device_name(whole.device) if cuda else str(whole.device),
        "dtype": whole.placement["dtype"],
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }
